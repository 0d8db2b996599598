"""Spark reads a storage that it does not know by its URL: driver and executors find the scheme's entry point."""

from __future__ import annotations

import sys
import zipfile
from importlib import invalidate_caches
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.spark import register
from seglog.storage import urls

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark

CELLAR = '''
from seglog.storage import LocalStorage

class Cellar:
    """A storage that has the methods of a local one, and is none."""

    def __init__(self, url):
        self._inner, self.path = LocalStorage(url.removeprefix("cellar://")), url

    def __getattr__(self, name):
        return getattr(self._inner, name)
'''


@pytest.fixture
def cellar(spark: Any, tmp_path: Path) -> Iterator[None]:
    """The scheme cellar://, in a distribution that the executors get with addPyFile."""
    archive = tmp_path / "cellar.zip"
    with zipfile.ZipFile(archive, "w") as files:
        files.writestr("cellar_storage.py", CELLAR)
        files.writestr("cellar-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: cellar\nVersion: 1\n")
        files.writestr("cellar-1.dist-info/entry_points.txt", "[seglog.storages]\ncellar = cellar_storage:Cellar\n")
    spark.sparkContext.addPyFile(str(archive))
    register(spark)  # again: Spark adds files only to what is registered later
    invalidate_caches()
    yield
    sys.path[:] = [path for path in sys.path if not path.endswith("cellar.zip")]
    urls._registered.pop("cellar", None)


def test_a_topic_in_a_foreign_storage_is_read_by_executors(spark: Any, cellar: None, tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        orders = broker.create_topic("orders", partitions=2)
        for number in range(1000):
            orders.append(b"%d" % number, key=b"%d" % (number % 7))
    rows = spark.read.format("seglog").load(f"cellar://{tmp_path}/shop/orders")
    assert rows.count() == 1000
    assert {bytes(row.value) for row in rows.select("value").collect()} == {b"%d" % number for number in range(1000)}
    one = spark.read.format("seglog").option("subscribe", "orders").load(f"cellar://{tmp_path}/shop")
    assert one.count() == 1000
