from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pytest

import seglog
from seglog import Topic
from seglog.table import sync
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
