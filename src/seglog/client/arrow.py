"""Arrow as HTTP bodies: tables to streams of bounded size, answers to batches and records. Pure; needs pyarrow.

Columns are those of `Log.append_batch` and `Log.batches`; fetched batches have `topic` and `partition` in front.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.convert import partitions_of, record_schema
from seglog.arrow.given_times import check_times, with_unit
from seglog.arrow.stream import whole
from seglog.arrow.to_records import fields_of, records_of
from seglog.errors import ServerError
from seglog.record import Header, Record, Share, TopicRecord
from seglog.topic.groups.consumer import TopicBatch

RECORDS = record_schema("binary")
PLACE = ("topic", "partition")
PLACED = pa.schema([pa.field("topic", pa.string()), pa.field("partition", pa.int32()), *RECORDS])
MOST_ROWS = 1_000_000
HEADERS = RECORDS.field("headers").type


# --- out: what is sent ------------------------------------------------------------------------------------------------


def table_of(data: Any, *, force_timestamp: bool) -> pa.Table:
    """Return Arrow data of any library as a table whose slices hold only their own data, and whose times have a unit.

    Raises InvalidType, and InvalidArgument for int64 timestamps that look like another unit, unless they are forced.

    A slice of a view column holds the data of the whole column, so views become plain columns; nothing else is copied.
    """
    data = whole(data)
    for number, field in enumerate(data.schema):
        if pa.types.is_binary_view(field.type) or pa.types.is_string_view(field.type):
            kind = pa.large_binary() if pa.types.is_binary_view(field.type) else pa.large_string()
            data = data.set_column(number, field.name, data.column(number).cast(kind))
    if not force_timestamp:
        check_times(data)
    return with_unit(data)


def pieces(table: pa.Table, most: int) -> Iterator[pa.Table]:
    """Yield a table in pieces of up to `most` bytes, or one row if that is larger. An empty table is one piece.

    A piece has at most as many rows as a server accepts by default.
    """
    if (table.nbytes <= most and table.num_rows <= MOST_ROWS) or table.num_rows <= 1:
        yield table
        return
    half = table.num_rows // 2
    yield from pieces(table.slice(0, half), most)
    yield from pieces(table.slice(half), most)


def stream_of(data: pa.Table | pa.RecordBatch) -> memoryview:
    """Return a table as one uncompressed Arrow stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, data.schema) as writer:
        writer.write(data)
    return memoryview(out.getvalue())


def batch_of(
    values: Sequence[bytes | None],
    keys: Sequence[bytes | None],
    timestamps: Sequence[int | None],
    headers: Sequence[tuple[Header, ...]],
) -> pa.RecordBatch:
    """Return records as a batch to append; columns without content are omitted."""
    columns: dict[str, pa.Array] = {"value": pa.array(values, pa.large_binary())}
    if any(key is not None for key in keys):
        columns["key"] = pa.array(keys, pa.large_binary())
    if any(timestamp is not None for timestamp in timestamps):
        columns["timestamp"] = pa.array(timestamps, pa.int64()).cast(pa.timestamp("us"))  # a server takes it as it is
    if any(headers):
        rows = [[{"key": name, "value": value} for name, value in one] for one in headers]
        columns["headers"] = pa.array(rows, HEADERS)
    return pa.RecordBatch.from_pydict(columns)


def partitions_of_keys(keys: Sequence[bytes | None], partitions: int) -> list[int]:
    """Return the partition of each key, as the server computes it; -1 for no key."""
    found: list[int] = partitions_of(pa.array(keys, pa.large_binary()), partitions).tolist()
    return found


# --- in: what was answered --------------------------------------------------------------------------------------------


def batches_of(body: bytes | memoryview, columns: pa.Schema = RECORDS) -> list[pa.RecordBatch]:
    """Return the batches of an Arrow stream with these columns, reading from `body`. Raises ServerError if malformed.

    Everything is validated first: offsets outside a buffer would crash code that reads values.
    """
    try:
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            _check_columns(reader.schema, columns)
            batches = [batch for batch in reader if batch.num_rows]
            for batch in batches:
                batch.validate(full=True)
                _check_places(batch)
    except (pa.ArrowException, OSError, KeyError) as error:
        raise ServerError(f"the server's answer is not an Arrow stream of records: {error}", status=200) from error
    return batches


def _check_columns(schema: pa.Schema, wanted: pa.Schema) -> None:
    """Raise KeyError if a column is missing, duplicate, or of another type."""
    for field in wanted:
        if schema.field(field.name).type != field.type:
            raise KeyError(f"column {field.name!r} has type {str(schema.field(field.name).type)[:200]}")


def _check_places(batch: pa.RecordBatch) -> None:
    """Raise KeyError for a row without an offset or, if present, without topic and partition."""
    for name in ("offset", "timestamp", *PLACE):
        if name in batch.schema.names and batch.column(name).null_count:
            raise KeyError(f"column {name!r} holds null")


def batch_of_record(record: Record) -> pa.RecordBatch:
    """Return one record, as `batches_of` gives many."""
    pairs = [{"key": name, "value": value} for name, value in record.headers]
    rows = [[record.offset], [record.timestamp], [record.key], [record.value], [pairs]]
    columns = [pa.array(row, field.type) for row, field in zip(rows, RECORDS, strict=True)]
    return pa.RecordBatch.from_arrays(columns, schema=RECORDS)


def placed_stream(topic: str, partition: int, record: Record) -> memoryview:
    """Return one record as a server answers what was fetched."""
    batch = batch_of_record(record)
    place = [pa.array([topic], pa.string()), pa.array([partition], pa.int32())]
    return stream_of(pa.RecordBatch.from_arrays([*place, *batch.columns], schema=PLACED))


def topic_batches(body: bytes | memoryview) -> list[TopicBatch]:
    """Return the fetched records, one batch for each run of one partition."""
    found = []
    for batch in batches_of(body, PLACED):
        for start, stop in _runs(batch):
            topic, number = batch.column("topic")[start].as_py(), batch.column("partition")[start].as_py()
            rows = batch.slice(start, stop - start).drop_columns([*PLACE])
            found.append(TopicBatch(topic, number, rows))
    return found


def _runs(batch: pa.RecordBatch) -> Iterator[tuple[int, int]]:
    """Yield the ranges of rows of one topic and partition."""
    topics = batch.column("topic").dictionary_encode().indices.to_numpy()
    partitions = batch.column("partition").to_numpy()
    changes = (np.diff(topics) != 0) | (np.diff(partitions) != 0)
    ends = [*(np.flatnonzero(changes) + 1).tolist(), batch.num_rows]
    yield from zip([0, *ends], ends, strict=False)


def records(batch: pa.RecordBatch) -> list[Record]:
    """Return the rows of a batch as records."""
    return records_of(batch)


def topic_records(batch: TopicBatch) -> list[TopicRecord]:
    """Return the rows of a batch as records of their topic."""
    return [TopicRecord(batch.topic, batch.partition, *fields) for fields in fields_of(batch.batch)]


def share_of(batch: TopicBatch, share: Share) -> TopicBatch:
    """Return the rows of a batch whose offset % n is i, for a share (i, n)."""
    number, workers = share
    own = batch.batch.column("offset").to_numpy() % workers == number
    return batch._replace(batch=batch.batch.filter(pa.array(own)))


def joined(batches: list[pa.RecordBatch]) -> pa.Table:
    """Return batches of one partition as a table, even if there are none."""
    return pa.Table.from_batches(batches, batches[0].schema if batches else record_schema("binary"))
