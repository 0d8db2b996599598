"""Local retention beside an archive: nothing is deleted here before it is archived."""

from __future__ import annotations

import errno
import secrets
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Archiver, LogConfig, Retention
from seglog.archive.holding import release
from seglog.archive.urls import store_at
from seglog.cli import main
from seglog.errors import StorageError
from seglog.log.holds import drop_hold, held_from, holds, set_hold
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from tests.archive.conftest import filled
from tests.archive.faulty_store import FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from seglog import Log
    from tests.conftest import Served

FEW = Retention(bytes=4096)


def content(place: object) -> list[seglog.Record]:
    with seglog.open(place, mode="r") as log:  # type: ignore[arg-type] # a path or a URL
        return list(log.scan())


def more(log: Log, count: int) -> None:
    for _ in range(count):
        log.append(b"another value %d" % log.next_offset, key=b"k")


def test_retention_waits_for_an_archiver_that_died(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 100) as log:
        log.alter(retention=FEW)
        store = FaultyStore(store_at(place), "refused", 10**9)
        archiver = Archiver(tmp_path / "log", store)
        archiver.step()
        store._at = store.calls  # the next call fails
        more(log, 300)
        with pytest.raises(StorageError):
            archiver.step()
        archiver.close()  # it dies: nothing of the last records was archived
        everything = list(log.scan())
        assert everything[-1].offset == 399
        log.expire()
        assert list(log.scan())[-300:] == everything[-300:]
        with Archiver(tmp_path / "log", place) as archiver:
            assert log.expire() == 0
            assert not archiver.step().gaps
        assert log.expire() > 0
        assert content(place)[-len(everything) :] == everything


def test_a_log_without_an_archive_does_not_wait(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 300) as log:
        log.alter(retention=FEW)
        assert log.expire() > 0


def test_records_appended_after_a_cut_are_held_although_the_archive_had_others_there(
    place: str, tmp_path: Path
) -> None:
    with filled(tmp_path / "log", 300) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        log.truncate(20)
        more(log, 300)
        expected = list(log.scan())
        log.alter(retention=FEW)
        log.expire()
        assert log.lowest_offset <= 20
        archiver.step()
        log.expire()
        assert log.lowest_offset > 200
        assert content(place) == expected


def test_holds_move_although_the_archiver_saw_an_earlier_state(tmp_path: Path) -> None:
    with filled(tmp_path / "log", 300) as log:
        storage = seglog.LocalStorage(tmp_path / "log")
        before = log.view().manifest
        log.truncate(20)
        set_hold(storage, "archive-1", before.active.base_offset, before.epoch)  # it comes late
        assert held_from(storage, log.view().manifest) == 20


def test_a_damaged_hold_holds_everything_and_the_next_round_repairs_it(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 100) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        (hold,) = (tmp_path / "log" / "pins").iterdir()
        hold.write_bytes(hold.read_bytes()[:-30] + b"x" * 30)
        log.alter(retention=FEW)
        assert log.expire() == 0
        more(log, 100)
        archiver.step()
        assert log.expire() > 0


@pytest.mark.parametrize("error", [errno.EIO, None])
def test_every_call_of_setting_a_hold_may_fail_and_then_nothing_more_is_deleted(
    error: int | None, tmp_path: Path
) -> None:
    with filled(tmp_path / "log", 300) as log:
        manifest = log.view().manifest
    end, plain, failures = manifest.active.base_offset, seglog.LocalStorage(tmp_path / "log"), 0
    for before in (None, 50):
        for number in range(1, 12):
            drop_hold(plain, "archive-1")
            if before is not None:
                set_hold(plain, "archive-1", before, manifest.epoch)
            faulty = FaultyStorage(plain, Fault(at=number, error=error, keep=0.5))
            try:
                set_hold(faulty, "archive-1", end, manifest.epoch)
            except (StorageError, Crashed):
                failures += 1
            assert held_from(plain, manifest) in (before, 0, end)
            set_hold(plain, "archive-1", end, manifest.epoch)
            assert held_from(plain, manifest) == end
    assert failures


def test_another_archive_takes_over_the_hold_and_release_removes_it(tmp_path: Path) -> None:
    first, second = f"memory://{secrets.token_hex(4)}/a", f"memory://{secrets.token_hex(4)}/b"
    storage = seglog.LocalStorage(tmp_path / "log")
    with filled(tmp_path / "log", 100) as log:
        with Archiver(tmp_path / "log", first) as archiver:
            archiver.step()
        (one,) = holds(storage)
        with Archiver(tmp_path / "log", second) as archiver:
            archiver.step()
        (other,) = holds(storage)
        assert one != other
        more(log, 100)
        log.alter(retention=FEW)
        lowest = log.expire()
        assert release(storage) == 1
        assert log.expire() > 0 or lowest > 0
        with Archiver(tmp_path / "log", second, hold=False) as archiver:
            archiver.step()
        assert holds(storage) == []


def test_the_command_releases_a_topic(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders", partitions=2)
    url = f"file://{tmp_path}/archive"
    assert main(["archive", str(tmp_path / "shop"), url, "--once"]) == 0
    assert main(["archive", str(tmp_path / "shop"), url, "--release"]) == 0
    assert capsys.readouterr().out.endswith("retention no longer waits for an archive in 3 logs\n")


def test_a_backup_does_not_wait_for_the_archive_of_its_log(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 300) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        log.backup(tmp_path / "backup")
    assert holds(seglog.LocalStorage(tmp_path / "backup")) == []


def test_retention_of_a_new_topic_of_a_server_waits_for_the_archive_from_its_first_record(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve("--archive", f"file://{tmp_path}/archive", "--archive-interval", "1h")  # it sees no round
    with seglog.Client(served.url) as client:
        config = LogConfig(segment_bytes=1024, retention=Retention(bytes=2048))
        topic = client.create_topic("orders", config=config)
        for number in range(100):
            topic.append(b"value %d" % number * 5)
        topic.expire()
        assert topic.read(0, 0).value == b"value 0" * 5
        topic.append(b"the last one", ack="archived")
        topic.expire()
    with seglog.Broker(f"file://{tmp_path}/archive", mode="r") as archived:
        assert archived.topic("orders").partition(0).lowest_offset == 0
        assert archived.topic("orders").partition(0).next_offset == 101


class Full(LocalStorage):
    """A disk without space for a new directory until `full` is False."""

    full = True

    def make(self, directories: Any) -> None:
        if self.full:
            raise StorageError(errno.ENOSPC, "no space left", self.path)
        super().make(directories)


def test_a_hold_that_could_not_be_written_is_written_in_the_next_round(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 10), Archiver(tmp_path / "log", place) as archiver:
        disk = Full(tmp_path / "log")
        assert release(disk) == 1  # as a log that the archiver has not seen yet
        with pytest.raises(StorageError, match="no space"):
            archiver._log("", disk)
        disk.full = False
        archiver._log("", disk)
        assert holds(disk)
