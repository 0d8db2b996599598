"""Read the rows of a table's files as they are written now: with all columns of the table, without deleted rows."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import types
from pyiceberg.expressions import AlwaysTrue
from pyiceberg.io.pyarrow import ArrowScan
from pyiceberg.table import Table

from seglog.table.columns import columns_of
from seglog.table.schema import ARROW
from seglog.table.warehouse import TableFile

_ID = b"PARQUET:field_id"


def read_rows(table: Table, file: TableFile) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file of the present snapshot, with the present columns of the table.

    A row group is in memory at a time; a file of which another program has marked rows as deleted is there as a whole.
    """
    schema = columns_of(table.schema()).arrow
    batches = _present(table, file) if file.has_deletes else _stored(table, file)
    for batch in batches:
        yield pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def _stored(table: Table, file: TableFile) -> Iterator[pa.RecordBatch]:
    with table.io.new_input(file.location).open() as source, pq.ParquetFile(source) as parquet:
        yield from parquet.iter_batches()


def _present(table: Table, file: TableFile) -> Iterator[pa.RecordBatch]:
    """Let pyiceberg leave out what is deleted; it returns the columns under their present names."""
    return ArrowScan(table.metadata, table.io, table.schema(), AlwaysTrue()).to_record_batches([file.task])


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    index = _index(list(batch.schema), field)
    return pa.nulls(batch.num_rows, field.type) if index < 0 else _as(batch.column(index), batch.field(index), field)


def _index(found: list[pa.Field], field: pa.Field) -> int:
    """Return the position of a column by its id, which it keeps under another name; else by its name."""
    number = (field.metadata or {}).get(_ID)
    for index, one in enumerate(found):
        if one.metadata and _ID in one.metadata:
            if one.metadata[_ID] == number:
                return index
        elif one.name == field.name:
            return index
    return -1


def _as(array: pa.Array, found: pa.Field, field: pa.Field) -> pa.Array:
    """Return an array as the type of a field: with null for the fields that it lacks, and wider numbers."""
    if types.is_struct(field.type) and types.is_struct(array.type):
        inner = list(found.type)
        children = array.flatten()
        parts = []
        for one in field.type:
            index = _index(inner, one)
            parts.append(pa.nulls(len(array), one.type) if index < 0 else _as(children[index], inner[index], one))
        return pa.StructArray.from_arrays(parts, fields=list(field.type), mask=pc.is_null(array))
    if types.is_list(field.type) and types.is_list(array.type):
        elements = _as(array.values, found.type.value_field, field.type.value_field)
        offsets = array.offsets
        return pa.ListArray.from_arrays(offsets, elements, type=field.type, mask=pc.is_null(array))
    return array.cast(field.type)


def rows_before(table: Table, file: TableFile, offset: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with lower offsets."""
    for batch in read_rows(table, file):
        kept = batch.filter(pc.less(batch.column("offset"), offset))
        if kept.num_rows:
            yield kept


def rows_between(table: Table, file: TableFile, start: int, stop: int, batch_rows: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with offsets start .. stop (exclusive), with the columns of every table.

    batch_rows: of a batch at most. Row groups without such rows are not read.
    """
    for batch in _present(table, file) if file.has_deletes else _groups_between(table, file, start, stop):
        offset = batch.column("offset")
        inside = batch.select(ARROW.names).filter(pc.and_(pc.greater_equal(offset, start), pc.less(offset, stop)))
        for first in range(0, inside.num_rows, batch_rows):
            yield inside.slice(first, batch_rows)


def _groups_between(table: Table, file: TableFile, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    with table.io.new_input(file.location).open() as source, pq.ParquetFile(source) as parquet:
        groups = [number for number in range(parquet.num_row_groups) if _may_hold(parquet, number, start, stop)]
        if groups:
            yield from parquet.iter_batches(row_groups=groups, columns=ARROW.names)


def _may_hold(parquet: pq.ParquetFile, group: int, start: int, stop: int) -> bool:
    """Whether a row group may hold offsets of a range, by its statistics. offset is the first column."""
    statistics = parquet.metadata.row_group(group).column(0).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.max >= start and statistics.min < stop)
