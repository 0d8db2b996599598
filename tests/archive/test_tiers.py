"""A log with little local retention is read as a whole: what was deleted here comes from its archive."""

from __future__ import annotations

import shutil
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import ArchiveMismatch, Archiver, LogConfig, Retention
from seglog.archive import storage as archive_storage
from seglog.errors import InvalidArgument, OffsetOutOfRange, StorageError
from seglog.log import tiers
from tests.archive.conftest import filled
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from seglog import Log
    from tests.conftest import Served

FEW = Retention(bytes=4096)
CONFIG = LogConfig(segment_bytes=1024, retention=FEW)


def archived(path: Path, url: str, count: int = 300) -> list[seglog.Record]:
    """Make a log of which only the last segments are here, and all are archived; return its records."""
    with filled(path, count) as log, Archiver(path, url) as archiver:
        archiver.step()
        everything = list(log.scan())
        log.alter(retention=FEW)
        log.expire()
        archiver.step()
        assert log.lowest_offset > count // 2
    return everything


def check(log: Log, everything: list[seglog.Record]) -> None:
    """Check that every way of reading shows everything."""
    assert list(log.scan()) == everything
    assert [log.read(record.offset) for record in everything[::7]] == everything[::7]
    assert log.to_arrow()["offset"].to_pylist() == [record.offset for record in everything]
    assert list(log.scan(100, 250)) == everything[100:250]
    assert (log.lowest_offset, log.next_offset, len(log)) == (0, len(everything), len(everything))
    assert log.records_from(50) == len(everything) - 50
    assert log.offset_at(everything[42].timestamp) == 42
    assert log.tail(10).poll(most=5) == everything[10:15]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_what_retention_deleted_is_read_from_the_archive(url: str, mode: Any, tmp_path: Path) -> None:
    everything = archived(tmp_path / "log", url)
    with seglog.open(tmp_path / "log", mode=mode, archive=url) as log:
        check(log, everything)
        assert log.size < 6000
        assert log.segments[0].base_offset > 150
    with seglog.open(tmp_path / "log", mode=mode) as log, pytest.raises(OffsetOutOfRange):
        log.read(0)


def test_appending_rolling_and_expiring_go_on_while_everything_stays_readable(place: str, tmp_path: Path) -> None:
    path = tmp_path / "log"
    everything = archived(path, place)
    with (
        seglog.open(path, archive=place) as log,
        seglog.open(path, mode="r", archive=place) as reader,
        Archiver(path, place) as archiver,
    ):
        for number in range(20):
            for _ in range(50):
                offset = log.append(b"later %d" % log.next_offset, timestamp=10**8 + log.next_offset)
                everything.append(log.read(offset))
            archiver.step()
            log.expire()
            assert log.segments[0].base_offset > 200 + 50 * number
            for one in (log, reader):
                assert list(one.scan()) == everything
                assert one.lowest_offset == 0


def test_what_was_just_deleted_stays_readable_while_the_archive_is_away(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, away = tmp_path / "log", threading.Event()
    everything = archived(path, place)
    known = tiers.storage_at_url

    def storage_at_url(url: str) -> Any:
        if away.is_set():
            raise StorageError(5, "away", url)
        return known(url)

    monkeypatch.setattr(tiers, "storage_at_url", storage_at_url)
    monkeypatch.setattr(tiers, "RETRY_SECONDS", 0.0)
    with seglog.open(path, archive=place) as log, Archiver(path, place) as archiver:
        log.view()
        away.set()
        for _ in range(3):
            for _ in range(200):
                everything.append(log.read(log.append(b"later %d" % log.next_offset)))
            archiver.step()
            log.expire()
            assert list(log.scan()) == everything
        stores = len(list(path.glob("*.store")))
        away.clear()

        def is_released() -> bool:
            assert list(log.scan()) == everything
            log.expire()
            return len(list(path.glob("*.store"))) < stores

        until(is_released)


def test_the_cache_on_disk_is_bounded(place: str, tmp_path: Path) -> None:
    everything = archived(tmp_path / "log", place)
    shown = archive_storage.storage_at_url(place)
    shown.cache._limit = 4096  # type: ignore[attr-defined] # of this test
    with seglog.open(tmp_path / "log", mode="r", archive=place) as log:
        assert list(log.scan()) == everything
        assert shown.cache.bytes < 8192  # type: ignore[attr-defined] # as above


def test_an_archive_that_does_not_exist_yet_is_used_once_it_does(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "RETRY_SECONDS", 0.0)
    with seglog.open(tmp_path / "log", CONFIG, archive=place) as log:
        for number in range(20):
            log.append(b"first %d" % number)
        with Archiver(tmp_path / "log", place) as archiver:
            for _ in range(300):
                log.append(b"value %d" % log.next_offset)
            archiver.step()
        log.expire()
        assert log.segments[0].base_offset > 100
        until(lambda: log.lowest_offset == 0)
        assert [record.value for record in log.scan(0, 2)] == [b"first 0", b"first 1"]


def test_an_archive_of_another_log_and_what_is_no_url_are_refused(place: str, tmp_path: Path) -> None:
    archived(tmp_path / "log", place)
    filled(tmp_path / "other", 5).close()
    with pytest.raises(ArchiveMismatch, match="another log"):
        seglog.open(tmp_path / "other", archive=place)
    with pytest.raises(InvalidArgument, match="must be a URL"):
        seglog.open(tmp_path / "other", archive=str(tmp_path / "log"))
    seglog.open(tmp_path / "other").close()


def test_a_backup_and_a_verification_are_of_the_log_itself(place: str, tmp_path: Path) -> None:
    archived(tmp_path / "log", place)
    with seglog.open(tmp_path / "log", archive=place) as log:
        log.backup(tmp_path / "backup")
        assert log.verify().ok
        assert log.explain(log.segments[0].base_offset) is not None
        lowest = log.segments[0].base_offset
    with seglog.open(tmp_path / "backup", mode="r") as backup:
        assert backup.lowest_offset == lowest


def test_a_consumer_of_a_server_reads_what_only_the_archive_has(serve: Callable[..., Served], tmp_path: Path) -> None:
    url = f"file://{tmp_path}/archive"
    served = serve("--archive", url, "--archive-interval", "50ms", "--archive-reads")
    with seglog.Client(served.url) as client:
        topic = client.create_topic("orders", config=CONFIG)
        values = [b"value %d" % number for number in range(2000)]
        topic.append_batch(pa.table({"value": pa.array(values, pa.binary())}), ack="archived")
        for _ in range(2):
            topic.append(b"the last one", ack="archived")
        topic.expire()
        with seglog.open(tmp_path / "served" / "orders" / "0", mode="r") as log:
            assert log.lowest_offset > 1500
        with client.consumer("billing", ["orders"], start="earliest") as consumer:
            found: list[bytes | None] = []
            while len(found) < 2002:
                polled = consumer.poll(timeout=HANG_SECONDS)
                assert polled, len(found)
                found += [record.value for record in polled]
        assert found[:2000] == values
        assert topic.read(0, 0).value == values[0]
    served.stop()
    shutil.rmtree(tmp_path / "archive")


class Unreachable:
    """The tiers of a log whose archive must not be asked."""

    def extend(self, own: object) -> None:
        raise StorageError(5, "the archive was asked")

    def close(self) -> None:
        pass


def test_what_a_log_knows_of_itself_needs_no_archive(url: str, tmp_path: Path) -> None:
    archived(tmp_path / "log", url)
    with seglog.open(tmp_path / "log", archive=url) as log:
        log._tiers = Unreachable()  # type: ignore[assignment] # only what a log calls
        assert log.epoch == 0
        assert log.mirrored_offset() == 0
        with pytest.raises(seglog.NotMirrored):
            log.mirrored(log.append(b"1"), timeout=0)
