"""Typed columns of records that a table lacks yet: as the next sync of the table would write them, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.table import Table
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation uses
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from seglog.errors import InvalidArgument
from seglog.table.columns import Columns, columns_of
from seglog.table.schema import EARLIEST, LATEST, TRUE_TIME
from seglog.table.typer import is_read_as_json, with_typed
from seglog.table.values.decoded import Decode, decoded, typed
from seglog.table.values.json_blocks import Block


def schema_of(table: Table) -> StructType:
    """Return the columns of a table as Spark has them."""
    return from_arrow_schema(_plain(columns_of(table.schema())))


def _with_shown_times(records: DataFrame) -> DataFrame:
    """Return records with timestamps as a table has them; see `seglog.table.schema.with_shown_times`."""
    time = F.unix_micros("timestamp")
    is_beyond = (time < EARLIEST) | (time > LATEST)
    mark = F.array(F.struct(F.lit(TRUE_TIME).alias("key"), time.cast("string").cast("binary").alias("value")))
    headers = F.col("headers")
    marked = F.when(headers.isNull(), mark).otherwise(F.concat(headers, mark))
    shown = F.timestamp_micros(F.greatest(F.lit(EARLIEST), F.least(F.lit(LATEST), time)))
    return records.withColumns(
        {
            "headers": F.when(is_beyond, marked).otherwise(headers),
            "timestamp": F.when(is_beyond, shown).otherwise(F.col("timestamp")),
        }
    )


def with_typed_columns(records: DataFrame, table: Table, values: Decode | None) -> DataFrame:
    """Return records of a log with the columns of a table. Fields without a column get one at the next sync.

    Args:
        records: A frame or a stream with the columns of every table.
        table: Decides which fields are read, and as which types.
        values: Returns the fields of a value. None: values are JSON.

    Raises:
        InvalidArgument: The table's values are decoded by a function, and `values` is None; or it has no typed columns,
            and `values` is a function.
    """
    columns, records = columns_of(table.schema(), table.properties), _with_shown_times(records)
    name = table.name()[-1]
    if not columns.has_typed:
        if values is not None:
            raise InvalidArgument(f"the table {name} has no typed columns; leave out values=")
        return _with_nulls(records, table)
    if values is None and not is_read_as_json(table):
        raise InvalidArgument(f"values of the table {name} are decoded by a function: give it as values=")
    plain = _plain(columns)

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            column = batch.column("value").cast(pa.binary())
            if values is None:
                fields = Block(column).typed(columns.typed, columns.units)
            else:
                fields = typed(decoded(column.to_pylist(), values), columns.typed, columns.units)
            yield with_typed(batch, fields, Columns(plain, columns.typed, has_typed=True))

    return records.mapInArrow(read, from_arrow_schema(plain))


def _with_nulls(records: DataFrame, table: Table) -> DataFrame:
    """Return records with null in columns that another program has added to the table."""
    own = records.columns
    return records.select(
        *(
            F.col(field.name) if field.name in own else F.lit(None).cast(field.dataType).alias(field.name)
            for field in schema_of(table)
        )
    )


def _plain(columns: Columns) -> pa.Schema:
    """Return the columns without field ids, all nullable."""
    return pa.schema([pa.field(field.name, field.type) for field in columns.arrow])
