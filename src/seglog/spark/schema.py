"""What Spark sees of a record: the columns of its Kafka source, so that a job only changes the format's name.

timestampType is always 0 (CreateTime): a log keeps its writer's time. headers is null for a record without headers, as
in Kafka's source. `batches` creates Arrow batches with these columns.
"""

from __future__ import annotations

from collections.abc import Sequence

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

from seglog.spark.read.options import all_columns

_HEADER = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_TYPES = {
    "key": BinaryType(),
    "value": BinaryType(),
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
    "headers": ArrayType(_HEADER),
}


def spark_schema(columns: Sequence[str] | None = None, *, include_headers: bool = False) -> StructType:
    """Return the schema of these columns, in order; None: of all, headers only if requested.

    Built field by field: parsing a DDL string would need a running JVM.
    """
    names = columns or all_columns(include_headers=include_headers)
    return StructType([StructField(name, _TYPES[name]) for name in names])
