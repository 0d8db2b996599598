"""Typed columns of records that a table lacks yet: as the next sync of the table would write them, in Spark's tasks."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyiceberg.table import Table
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.types import StructType

from seglog.errors import InvalidArgument
from seglog.table.columns import Columns, columns_of
from seglog.table.typer import is_read_as_json, with_typed
from seglog.table.values.json_blocks import Block


def schema_of(table: Table) -> StructType:
    """Return the columns of a table as Spark has them."""
    return from_arrow_schema(_plain(columns_of(table.schema())))


def with_typed_columns(records: DataFrame, table: Table) -> DataFrame:
    """Return records of a log with the typed columns of a table. Fields without a column get one at the next sync.

    Raises InvalidArgument if the table's values are decoded by a function: only `sync` has it.
    """
    columns = columns_of(table.schema())
    if not columns.has_typed:
        return records
    if not is_read_as_json(table):
        raise InvalidArgument(
            f"values of the table {table.name()[-1]} are decoded by a function: the log after the table has no typed "
            "columns. Read the table's files with spark.read.parquet, or sync first"
        )
    plain = _plain(columns)

    def typed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            values = Block(batch.column("value").cast(pa.binary())).typed(columns.typed)
            yield with_typed(batch, values, Columns(plain, columns.typed, has_typed=True))

    return records.mapInArrow(typed, from_arrow_schema(plain))


def _plain(columns: Columns) -> pa.Schema:
    """Return the columns without field ids, all nullable."""
    return pa.schema([pa.field(field.name, field.type) for field in columns.arrow])
