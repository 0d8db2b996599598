from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table

import seglog
from seglog import Log, Topic
from seglog.table import TableReport, sync
from seglog.table.warehouse import Warehouse, files_of, local_path

Row = tuple[int, int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]


@dataclass
class Shop:
    """A topic of two partitions, and a warehouse for it."""

    topic: Topic
    place: Path
    warehouse: Path

    def append(self, count: int, text: str = "v") -> None:
        for number in range(count):
            headers = [("source", b"test")] if number % 3 == 0 else []
            self.topic.append(f"{text}{number}".encode(), key=f"k{number % 7}".encode(), headers=headers)
        self.topic.sync()

    def sync(self, **options: Any) -> Any:
        (report,) = sync(self.place, self.warehouse, **{"active": True, **options})
        return report

    def records(self) -> list[Row]:
        """What the logs hold."""
        return logged(self.topic)

    def rows(self) -> list[Row]:
        """What DuckDB reads in the table's files."""
        return stored(self.warehouse, "orders")


def logged(topic: Topic) -> list[Row]:
    return sorted(
        (number, one.offset, one.timestamp, one.key, one.value, tuple(one.headers))
        for number in range(topic.partitions)
        for one in topic.partition(number).scan()
    )


def files(warehouse: Path, name: str) -> list[str]:
    opened = Warehouse(warehouse)
    try:
        return [str(local_path(file.location)) for file in files_of(opened.table(name))]
    finally:
        opened.close()


def stored(warehouse: Path, name: str) -> list[Row]:
    query = 'SELECT partition, "offset", epoch_us("timestamp"), key, value, headers FROM read_parquet(?)'
    paths = files(warehouse, name)
    found = duckdb.execute(query, [paths]).fetchall() if paths else []
    return sorted((*row[:5], tuple((one["key"], one["value"]) for one in row[5] or ())) for row in found)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with seglog.Topic.create(tmp_path / "shop" / "orders", partitions=2) as topic:
        yield Shop(topic, tmp_path / "shop" / "orders", tmp_path / "warehouse")


class Orders:
    """A log of JSON and its table."""

    def __init__(self, log: Log, place: Path, warehouse: Path) -> None:
        self.log, self.place, self.warehouse = log, place, warehouse

    def append(self, *values: dict[str, Any] | bytes | None, key: bytes | None = None) -> None:
        for value in values:
            self.log.append(json.dumps(value).encode() if isinstance(value, dict) else value, key=key)
        self.log.sync()

    def sync(self, **options: Any) -> TableReport:
        return sync(self.place, self.warehouse, active=True, **options)[0]

    def table(self, name: str = "orders") -> Table:
        return SqlCatalog("seglog", uri=f"sqlite:///{self.warehouse}/catalog.db").load_table(f"seglog.{name}")

    def rows(self, *columns: str, name: str = "orders") -> list[tuple[Any, ...]]:
        found = self.table(name).scan(selected_fields=("offset", *columns)).to_arrow().sort_by("offset")
        return [tuple(row[one] for one in columns) for row in found.to_pylist()]

    def values(self) -> list[bytes | None]:
        return [row[0] for row in self.rows("value")]


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Orders]:
    with seglog.open(tmp_path / "orders") as log:
        yield Orders(log, tmp_path / "orders", tmp_path / "warehouse")
