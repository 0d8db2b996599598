"""The rows of an audit's tasks: summaries of keys, identities of records, reports. Arrow and numpy only.

A summary of a key in a stretch of a log contains what can be joined with the next stretch's: first and last offset and
time, records, steps back in time, and whether the last is a tombstone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from xxhash import xxh3_128_digest

from seglog.arrow.to_records import plain_rows
from seglog.topic.audit.rows import NEVER, delivered_to, last_delivered, runs_by_key

Array = np.ndarray[Any, Any]

ROWS = 10_000  # of a batch for the JVM
CONTENT = "content"
COLUMNS = (
    "topic string, partition int, report string, key binary, first_offset bigint, first_time bigint, "
    "last_offset bigint, last_time bigint, tombstone boolean, records bigint, backwards bigint, "
    "delivered array<bigint>, "
    "identity binary, offset bigint"
)
_ARROW = {
    "string": pa.string(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "array<bigint>": pa.list_(pa.field("element", pa.int64())),  # Spark's name for it
}
SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in (one.split() for one in COLUMNS.split(", "))])


class Stretch(NamedTuple):
    """Readable records in offset order, one row each: key (binary), offset, time (us), whether it is a tombstone."""

    keys: pa.Array
    offsets: Array
    times: Array
    tombstones: Array


def report_row(topic: str, partition: int, report: str) -> pa.RecordBatch:
    """Return the row of a segment's report."""
    return next(_rows(topic, partition, 1, report=pa.array([report])))


def key_summaries(topic: str, partition: int, stretch: Stretch, delivered: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield a row for every key of a stretch; delivered: for each group, offsets before it count as delivered."""
    keyed = np.flatnonzero(stretch.keys.is_valid().to_numpy(zero_copy_only=False))
    if not keyed.size:
        return
    runs = runs_by_key([stretch.keys.take(pa.array(keyed))])
    starts, rows, last = runs.starts, keyed[runs.rows], keyed[runs.last]
    times = stretch.times[rows]
    back = np.diff(times, prepend=times[0]) < 0
    back[starts] = False  # the record before it is another key's
    got = last_delivered(delivered_to(stretch.offsets[keyed], np.array(delivered, np.int64)), runs)
    yield from _rows(
        topic,
        partition,
        starts.size,
        key=runs.keys,
        first_offset=pa.array(stretch.offsets[rows[starts]]),
        first_time=pa.array(times[starts]),
        last_offset=pa.array(stretch.offsets[last]),
        last_time=pa.array(stretch.times[last]),
        tombstone=pa.array(stretch.tombstones[last]),
        records=pa.array(np.diff(starts, append=rows.size)),
        backwards=pa.array(np.add.reduceat(back, starts, dtype=np.int64)),
        delivered=_lists(got.T),
    )


def _lists(delivered: Array) -> pa.Array:
    """Return a list for each row of int64[keys, groups], with null for NEVER."""
    keys, groups = delivered.shape
    flat = delivered.reshape(-1)
    offsets = pa.array(np.arange(0, keys * groups + 1, groups) if groups else np.zeros(keys + 1), pa.int32())
    return pa.ListArray.from_arrays(offsets, pa.array(flat, mask=flat == NEVER))


def identities(topic: str, partition: int, table: pa.RecordBatch, identity: str) -> Iterator[pa.RecordBatch]:
    """Yield a row for every record that has an identity: the value of that header, or a hash of all but the offset.

    A record that has an identity twice gets one row: it is not a duplicate of itself.
    """
    offsets = table.column("offset")
    if identity == CONTENT:
        found = pa.array([_digest(row) for row in plain_rows(table.select(["key", "timestamp", "value", "headers"]))])
    else:
        headers = table.column("headers")
        pairs = headers.flatten()
        named = pc.and_(pc.equal(pairs.field("key"), identity), pairs.field("value").is_valid())
        found = pairs.field("value").filter(named)
        offsets = offsets.take(pc.list_parent_indices(headers).filter(named))
        if len(offsets) > pc.count_distinct(offsets).as_py():
            pair = pa.table({"offset": offsets, "identity": found})
            once = pair.group_by(["offset", "identity"], use_threads=False).aggregate([]).combine_chunks()
            offsets, found = (once.column(name).chunk(0) for name in ("offset", "identity"))
    if len(found):
        yield from _rows(topic, partition, len(found), identity=found, offset=offsets)


def _digest(row: dict[str, Any]) -> bytes:
    return xxh3_128_digest(repr(list(row.values())).encode())


def _rows(topic: str, partition: int, count: int, **columns: pa.Array) -> Iterator[pa.RecordBatch]:
    """Yield rows of SCHEMA, null for missing columns, in batches of a size that suits the JVM."""
    given = {
        "topic": pa.repeat(topic, count),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), count),
        **columns,
    }
    arrays = [
        given[field.name].cast(field.type) if field.name in given else pa.nulls(count, field.type) for field in SCHEMA
    ]
    batch = pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
    for start in range(0, count, ROWS):
        yield batch.slice(start, ROWS)
