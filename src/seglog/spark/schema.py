"""What Spark sees of a record: the columns of its Kafka source, so that a job moves by changing the format's
name.

timestampType is always 0 (CreateTime): a log keeps the time its writer gave. headers is null for a record
without any, as in Kafka's source. Spark compares Arrow types exactly, hence no large_*, *_view or
non-nullable field.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

CREATE_TIME = 0

_HEADERS_TYPE = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))


def spark_schema(*, include_headers: bool) -> StructType:
    """Return the schema as Spark has it. Built field by field: a DDL string would need a running JVM to parse."""
    header = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
    fields = [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
    return StructType([*fields, StructField("headers", ArrayType(header))] if include_headers else fields)


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
