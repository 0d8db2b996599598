"""Convert a log's Arrow batches to Spark's: its columns, its exact types.

Spark compares types exactly, hence no large_*, *_view or non-nullable fields. Takes batches whose keys and values are
views into the store, and copies only requested columns; plain ones, from a server, are used unchanged. Knows no log and
no option.
"""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from seglog.spark.read.options import all_columns
from seglog.topic.columns import plain_binary

# About the size that the JVM reads fastest: larger batches only cost it memory.
BATCH_ROWS = 10_000
BATCH_BYTES = 8 * 1024 * 1024
CREATE_TIME = 0

_HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
_TYPES = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": _HEADERS_TYPE,
}


def arrow_schema(columns: Sequence[str] | None = None, *, include_headers: bool = False) -> pa.Schema:
    """Return the Arrow schema of the batches for `schema.spark_schema` of the same columns."""
    return pa.schema([(name, _TYPES[name]) for name in columns or all_columns(include_headers=include_headers)])


class SparkColumns:
    """Creates the columns of one partition's batches."""

    def __init__(self, topic: str, partition: int, columns: Sequence[str]) -> None:
        self._constants = {"topic": topic, "partition": partition, "timestampType": CREATE_TIME}
        self._made = {name: pa.array([], _TYPES[name]) for name in self._constants}
        self._schema = arrow_schema(columns)

    def convert(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a log's batch in Spark's form."""
        columns = [self._column(field.name, batch) for field in self._schema]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _column(self, name: str, batch: pa.RecordBatch) -> pa.Array:
        if name in self._constants:
            return self._constant(name, batch.num_rows)
        column = batch.column(name)
        if name in ("key", "value") and column.type != _TYPES[name]:
            return plain_binary(column, name)
        return _headers(column) if name == "headers" else column

    def _constant(self, name: str, count: int) -> pa.Array:
        """Return a column that is the same in every row; cached for a full batch."""
        if len(self._made[name]) < count:
            self._made[name] = pa.repeat(pa.scalar(self._constants[name], _TYPES[name]), max(count, BATCH_ROWS))
        return self._made[name].slice(0, count)


def _headers(column: pa.Array) -> pa.Array:
    empty = pc.equal(pc.list_value_length(column), 0)
    return pc.if_else(empty, pa.scalar(None, column.type), column).cast(_HEADERS_TYPE)
