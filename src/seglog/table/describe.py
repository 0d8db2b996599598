"""What the tables of a warehouse hold."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from pyiceberg.table import Table

from seglog.table.warehouse import Warehouse, files_of, held_by, source_of


@dataclass(frozen=True, slots=True)
class TableState:
    """A table. source: path of its log or topic; held: partition -> the offset before which it holds every record."""

    table: str
    source: str
    rows: int
    files: int
    bytes: int
    snapshots: int
    held: dict[int, int]


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
    )
