"""Reading an archive: ranges only, through a bounded cache, also in Spark's planning and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Archiver
from seglog.archive.cache import BLOCK_BYTES, Cache
from seglog.archive.storage import ArchiveStorage
from seglog.archive.urls import store_at
from seglog.spark.read.local_logs import LocalSite
from seglog.spark.read.options import Selection
from tests.archive.conftest import filled

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.archive.objects import ObjectStore

MIB = 1024 * 1024


class Counting:
    """Counts the bytes that are read of stores."""

    def __init__(self, store: ObjectStore) -> None:
        self.url = store.url
        self.bytes = 0
        self._store = store

    def __getattr__(self, name: str) -> object:
        return getattr(self._store, name)

    def read(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        data = self._store.read(key, start, stop)
        self.bytes += len(data) if key.endswith(".store") else 0
        return data


@pytest.fixture
def large(place: str, tmp_path: Path) -> list[bytes]:
    """Archive a log of two sealed segments of 8 MiB and return its values."""
    values = [bytes([number % 256]) * 8192 for number in range(2100)]
    with seglog.open(tmp_path / "large", seglog.LogConfig(segment_bytes=8 * MIB)) as log:
        for value in values:
            log.append(value)
        with Archiver(tmp_path / "large", place) as archiver:
            archiver.step()
    return values


def test_a_read_fetches_a_block_and_not_the_segment(place: str, large: list[bytes]) -> None:
    store = Counting(store_at(place))
    with seglog.open(ArchiveStorage(store), mode="r") as log:
        assert log.read(1000).value == large[1000]
        assert store.bytes <= 4 * BLOCK_BYTES
        before = store.bytes
        assert log.read(1000).value == large[1000]
        assert store.bytes == before, "it is in the cache"


def test_batches_and_tables_of_a_range_fetch_that_range(place: str, large: list[bytes]) -> None:
    store = Counting(store_at(place))
    with seglog.open(ArchiveStorage(store), mode="r") as log:
        assert log.to_arrow(500, 520)["value"].to_pylist() == large[500:520]
        assert store.bytes < 2 * MIB
        assert log.to_arrow(1000, 1100)["value"].to_pylist() == large[1000:1100]
        assert log.to_arrow()["value"].to_pylist() == large
        assert [record.value for record in log.scan(1500)] == large[1500:]


def test_the_cache_stays_within_its_bound_and_what_is_mapped_stays_readable(place: str, large: list[bytes]) -> None:
    storage = ArchiveStorage(store_at(place), cache_bytes=9 * MIB)
    with seglog.open(storage, mode="r") as log:
        first = log.to_arrow(0, 1000, values="view")
        assert log.to_arrow()["value"].to_pylist() == large
        assert storage.cache.bytes <= 18 * MIB
        log.read(5)
        assert storage.cache.bytes <= 18 * MIB
        assert first["value"].to_pylist() == large[:1000]


def test_the_least_recently_used_file_leaves_the_cache(tmp_path: Path) -> None:
    cache = Cache(limit=3 * BLOCK_BYTES, directory=str(tmp_path))
    for key in "abcabd":
        data = key.encode() * BLOCK_BYTES
        assert cache.get(key).read(0, 10, BLOCK_BYTES, lambda start, stop, d=data: d[start:stop]) == data[:10]
    assert list(cache._files) == ["a", "b", "d"] or list(cache._files) == ["c", "a", "b", "d"]
    assert list(tmp_path.iterdir()) == [], "a process that dies leaves no files"


def test_an_archive_that_is_opened_again_shows_its_newest_state_however_many_commits_were_made(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.archive.history.KEPT_COMMITS", 3)
    with filled(tmp_path / "log", 1) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        with seglog.open(place, mode="r") as reader:
            assert reader.next_offset == 1
            for _ in range(10):
                log.append(b"x")
                archiver.step()
            with seglog.open(place, mode="r") as again:
                assert again.next_offset == 11


def test_records_are_found_by_time(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 100) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        with seglog.open(place, mode="r") as archived:
            for timestamp in (0, 1, 49_999_999, 50_000_000, 99_000_001):
                assert archived.offset_at(timestamp) == log.offset_at(timestamp)


def test_spark_plans_and_reads_the_ranges_of_an_archive(place: str, tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker, Archiver(tmp_path / "shop", place) as archiver:
        broker.create_topic("orders", partitions=2)
        for number in range(50):
            broker.topic("orders").append(b"value %d" % number, partition=number % 2)
        archiver.step()
    with LocalSite(place) as site:
        with pytest.raises(seglog.InvalidArgument, match="select some"):
            site.places(Selection())
        found = site.places(Selection(option="subscribe", topics=("orders",)))
        assert [(one.topic, one.partition) for one in found] == [("orders", 0), ("orders", 1)]
    with LocalSite(f"{place}/orders") as site:
        found = site.places(Selection())
        snapshots = site.look_at_all(found)
        assert [one.next_offset for one in snapshots] == [25, 25]
        held = site.hold(found[1])
        values = [value for batch, _ in held.batches(10, 13) for value in batch["value"].to_pylist()]
        assert values == [b"value 21", b"value 23", b"value 25"]
    with LocalSite(place + "-missing") as site, pytest.raises(seglog.LogNotFound, match="no archive at"):
        site.places(Selection())
