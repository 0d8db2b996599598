"""What the tables of a warehouse hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from pyiceberg.table import Table

from seglog.table.columns import columns_of
from seglog.table.schema import UNFIT
from seglog.table.typer import SCHEMA_PROPERTY
from seglog.table.values.fields import column_of
from seglog.table.warehouse import TableFile, Warehouse, files_of, held_by, source_of


@dataclass(frozen=True, slots=True)
class TableState:
    """A table.

    source: path of its log or topic; held: partition -> the offset before which it holds every record; schema: whether
    typed columns are "infer"red or "given", None: there are none; typed: their names; unfit: rows whose value does not
    fit.
    """

    table: str
    source: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    held: dict[int, int]
    schema: str | None
    typed: list[str]
    unfit: int


def describe(place: str | os.PathLike[str], catalog: dict[str, str] | None = None) -> Iterator[TableState]:
    """Yield the tables of a warehouse, in order of their names."""
    with closing(Warehouse(place, catalog)) as warehouse:
        for name in warehouse.names():
            yield _state(name, warehouse.table(name))


def _state(name: str, table: Table) -> TableState:
    files = list(files_of(table))
    return TableState(
        name,
        source_of(table),
        sum(file.rows for file in files),
        len(files),
        sum(file.bytes for file in files),
        len(table.snapshots()),
        {number: one.end for number, one in sorted(held_by(table).items())},
        table.properties.get(SCHEMA_PROPERTY),
        [column_of(field.name) for field in columns_of(table.schema()).typed],
        sum(_unfit(table, file) for file in files),
    )


def _unfit(table: Table, file: TableFile) -> int:
    """Return how many rows of a file have no typed columns. A file without the column has none of these."""
    column = next((field.field_id for field in table.schema().fields if field.name == UNFIT), None)
    nulls = None if column is None else (file.entry.null_value_counts or {}).get(column)
    return 0 if nulls is None else file.rows - nulls
