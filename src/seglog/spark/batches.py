"""Arrow batches of a log -> Arrow batches as Spark takes them: its columns, its exact types, small enough for
the JVM.

Spark compares types exactly, hence no large_*, *_view or non-nullable field. Knows no log and no option.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator

BATCH_ROWS = 10_000
BATCH_BYTES = 8 * 1024 * 1024  # the JVM copies a batch whole: larger ones only cost memory
CREATE_TIME = 0

_HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def arrow_schema(*, include_headers: bool) -> pa.Schema:
    """Return the schema of the batches that Spark takes for `spark_schema`."""
    fields = [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
    return pa.schema([*fields, ("headers", _HEADERS_TYPE)] if include_headers else fields)


def to_spark(batch: pa.RecordBatch, topic: str, partition: int, schema: pa.Schema) -> pa.RecordBatch:
    """Return a batch of a log (values="binary") with the columns of `schema`, one of `arrow_schema`'s."""
    rows = batch.num_rows
    constant = {
        "topic": pa.repeat(pa.scalar(topic, pa.string()), rows),
        "partition": pa.repeat(pa.scalar(partition, pa.int32()), rows),
        "timestampType": pa.repeat(pa.scalar(CREATE_TIME, pa.int32()), rows),
    }
    columns = []
    for field in schema:
        column = constant[field.name] if field.name in constant else batch.column(field.name)
        columns.append(_headers(column) if field.name == "headers" else column)
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _headers(column: pa.Array) -> pa.Array:
    empty = pc.equal(pc.list_value_length(column), 0)
    return pc.if_else(empty, pa.scalar(None, column.type), column).cast(_HEADERS_TYPE)


def pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch whose values take BATCH_BYTES at most, or are a single row."""
    if batch.nbytes <= BATCH_BYTES:
        yield batch
        return
    ends = np.cumsum(pc.fill_null(pc.binary_length(batch.column("value")), 0).to_numpy())
    start, before = 0, 0
    while start < batch.num_rows:
        stop = max(start + 1, int(np.searchsorted(ends, before + BATCH_BYTES, side="right")))
        yield batch.slice(start, stop - start)
        start, before = stop, int(ends[stop - 1])
