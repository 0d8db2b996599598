"""What Spark sees of a record: the columns of its Kafka source, so that a job moves by changing the format's
name.

timestampType is always 0 (CreateTime): a log keeps the time its writer gave. headers is null for a record
without any, as in Kafka's source. How Arrow batches of these columns are made is in `batches`.
"""

from __future__ import annotations

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


def spark_schema(*, include_headers: bool) -> StructType:
    """Return the schema as Spark has it. Built field by field: a DDL string would need a running JVM to
    parse.
    """
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
