"""One row per key from its records: its last offset, whether that is a tombstone, what was delivered of it.

A row can be joined with rows of later records in the same way, so that a log is processed in pieces. Arrow and numpy
only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seglog.topic.layout.places import Partition

Array = np.ndarray[Any, Any]

NEVER = -1  # as delivered: no record of the key
BATCH_ROWS = 10_000  # of a batch that is returned
SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("appended", pa.int64()),
        ("tombstone", pa.bool_()),
        ("group", pa.string()),
        ("delivered", pa.int64()),
        ("undelivered", pa.bool_()),
    ]
)


class KeyRows(NamedTuple):
    """Rows of one log by offset. keys: binary, none null; appended: int64; tombstones: bool.

    delivered: int64[groups, rows], the last offset of the key that a group got, NEVER if none.
    """

    keys: pa.Array
    appended: Array
    tombstones: Array
    delivered: Array

    @property
    def nbytes(self) -> int:
        """Bytes of all columns."""
        return int(self.keys.nbytes) + self.appended.nbytes + self.tombstones.nbytes + self.delivered.nbytes

    def where(self, wanted: Array) -> KeyRows:
        """Return the rows selected by `wanted` (bool per row)."""
        if wanted.all():
            return self
        return KeyRows(
            self.keys.filter(pa.array(wanted)),
            self.appended[wanted],
            self.tombstones[wanted],
            self.delivered[:, wanted],
        )

    def in_order(self) -> KeyRows:
        """Return the rows sorted by key."""
        order = pc.array_sort_indices(self.keys)
        rows = order.to_numpy()
        return KeyRows(self.keys.take(order), self.appended[rows], self.tombstones[rows], self.delivered[:, rows])


def no_rows(groups: int) -> KeyRows:
    """Return no rows, for `groups` groups."""
    return KeyRows(
        pa.array([], pa.binary()), np.empty(0, np.int64), np.empty(0, np.bool_), np.empty((groups, 0), np.int64)
    )


class Runs(NamedTuple):
    """Rows grouped by key. keys: the distinct ones; rows: all rows, key by key, each key's in order.

    starts, last: per key, the index in `rows` of its first row, and its last row.
    """

    keys: pa.Array
    rows: Array
    starts: Array
    last: Array


def runs_by_key(parts: Sequence[pa.Array]) -> Runs:
    """Group rows by key, rows of later parts after earlier ones; binary, at least one row, none null."""
    coded = pa.chunked_array(parts, pa.binary()).dictionary_encode()  # all chunks share one dictionary
    codes = np.concatenate([chunk.indices.to_numpy() for chunk in coded.chunks])
    order = np.argsort(codes, kind="stable")  # stable, so that rows of a key keep their order
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    ends = np.append(starts[1:], order.size) - 1
    return Runs(coded.chunk(0).dictionary, order, starts, order[ends])


def delivered_to(offsets: Array, cuts: Array) -> Array:
    """Return int64[groups, rows]: the offsets before each group's cut, else NEVER."""
    found: Array = np.where(offsets < cuts[:, None], offsets, NEVER)
    return found


def last_delivered(delivered: Array, runs: Runs) -> Array:
    """Return int64[groups, keys]: the greatest offset of each key."""
    found: Array = np.maximum.reduceat(delivered[:, runs.rows], runs.starts, axis=1)
    return found


def condensed(parts: Sequence[KeyRows]) -> KeyRows:
    """Return one row per key of all parts, later parts after earlier ones; there must be a row."""
    runs = runs_by_key([part.keys for part in parts])
    appended, tombstones = (np.concatenate([part[column] for part in parts]) for column in (1, 2))
    delivered = np.concatenate([part.delivered for part in parts], axis=1)
    return KeyRows(runs.keys, appended[runs.last], tombstones[runs.last], last_delivered(delivered, runs))


def undelivered_in(rows: KeyRows, cuts: Array) -> Array:
    """Return bool[groups, keys]: whether the latest record was not delivered."""
    found: Array = rows.appended >= cuts[:, None]
    return found


def key_batches(log: Partition, rows: KeyRows, groups: Sequence[str], cuts: Array) -> Iterator[pa.RecordBatch]:
    """Yield batches of SCHEMA: a row per key and group; without groups one row per key."""
    step = max(BATCH_ROWS // max(len(groups), 1), 1)
    for start in range(0, len(rows.keys), step):
        part = slice(start, start + step)
        some = KeyRows(rows.keys[part], rows.appended[part], rows.tombstones[part], rows.delivered[:, part])
        yield _batch(log, some, groups, cuts)


def _batch(log: Partition, rows: KeyRows, groups: Sequence[str], cuts: Array) -> pa.RecordBatch:
    keys, each = len(rows.keys), max(len(groups), 1)
    repeated = np.repeat(np.arange(keys), each)
    delivered = rows.delivered.T.reshape(-1)
    undelivered = undelivered_in(rows, cuts).T.reshape(-1)
    columns = [
        pa.repeat(log[0], keys * each),
        pa.repeat(pa.scalar(log[1], pa.int32()), keys * each),
        rows.keys.take(pa.array(repeated)),
        pa.array(rows.appended[repeated]),
        pa.array(rows.tombstones[repeated]),
        pa.array(list(groups) * keys, pa.string()) if groups else pa.nulls(keys, pa.string()),
        pa.array(delivered, mask=delivered == NEVER) if groups else pa.nulls(keys, pa.int64()),
        pa.array(undelivered) if groups else pa.repeat(pa.scalar(False), keys),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
