"""The tasks of one plan, with every change of the log between two of them; see tests/snapshots.py.

Spark keeps a plan, and so do these tests: without a JVM, as the reader's methods are what Spark calls.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.log import leases
from seglog.spark.read import local_logs
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.reader import SeglogReader
from seglog.spark.read.scan import RangeScan
from tests.snapshots import CHANGES, check, filled, read_beside, state

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.spark
STEPS = (0, 1, 12)


def planned(path: Path, **options: str) -> tuple[SeglogReader, list[Any]]:
    reader = SeglogReader(ReadOptions.parse({"path": str(path), "minPartitions": "8", **options}))
    return reader, reader.partitions()


def records(reader: SeglogReader, partitions: list[Any]) -> Iterator[tuple[int, bytes | None]]:
    for partition in partitions:
        for batch in reader.read(partition):
            yield from zip(batch["offset"].to_pylist(), batch["key"].to_pylist(), strict=True)


def beside_loss(found: Iterator[Any]) -> Iterator[Any]:
    """Yield what a read finds; loss to a truncate or to retention is told as such, unlike that to a compaction."""
    try:
        yield from found
    except (seglog.LogTruncated, seglog.OffsetOutOfRange) as error:
        raise seglog.SnapshotExpired(0, 1) from error


@pytest.mark.parametrize("change", CHANGES)
def test_each_action_on_a_frame_reads_the_log_as_it_was_planned(change: str, tmp_path: Path) -> None:
    for steps in STEPS:
        with filled(tmp_path / f"log{steps}") as log:
            was = state(log)
            plan = planned(tmp_path / f"log{steps}")
            found, expired = read_beside(beside_loss(records(*plan)), steps, lambda log=log: CHANGES[change](log))
            check(found, was, expired=expired)
            if change in ("cut", "expired", "deleted before"):
                continue
            assert not expired
            check(records(*plan), was, expired=False)
            assert list(records(*planned(tmp_path / f"log{steps}"))) == state(log), "and a new frame what is there now"


@pytest.mark.parametrize("ended", ["no right to write", "time has passed"])
@pytest.mark.parametrize("change", [one for one in CHANGES if one not in ("cut", "expired", "deleted before")])
def test_a_frame_whose_files_nothing_keeps_is_right_or_says_that_it_expired(
    change: str, ended: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if ended == "time has passed":
        monkeypatch.setattr(local_logs, "KEEP_SECONDS", 0)
    else:
        monkeypatch.setattr(leases, "_take", lambda *_: None)
    expirations = 0
    for steps in STEPS:
        with filled(tmp_path / f"log{steps}") as log:
            was = state(log)
            plan = planned(tmp_path / f"log{steps}")
            found, expired = read_beside(records(*plan), steps, lambda log=log: CHANGES[change](log))
            check(found, was, expired=expired)
            expirations += expired
    assert bool(expirations) == (change != "appended")


@pytest.mark.usefixtures("nothing_kept")
@pytest.mark.parametrize(("change", "error"), [("cut", seglog.LogTruncated), ("expired", seglog.OffsetOutOfRange)])
def test_loss_to_a_truncate_or_to_retention_is_told_as_such(
    change: str, error: type[Exception], tmp_path: Path
) -> None:
    with filled(tmp_path / "log") as log:
        plan = planned(tmp_path / "log")
        CHANGES[change](log)
        with pytest.raises(error, match="failOnDataLoss"):
            list(records(*plan))


@pytest.fixture
def nothing_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leases, "_take", lambda *_: None)


@pytest.mark.usefixtures("nothing_kept")
def test_without_fail_on_data_loss_an_expired_frame_goes_on_with_what_is_there(tmp_path: Path) -> None:
    with filled(tmp_path / "log") as log:
        plan = planned(tmp_path / "log", failondataloss="false")
        CHANGES["superseded and compacted"](log)
        assert set(records(*plan)) <= set(state(log))


@pytest.mark.usefixtures("nothing_kept")
def test_a_range_of_which_the_first_offsets_were_deleted_is_read_as_planned_from_there_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.spark.read.plan.TASKS", 1)
    monkeypatch.setattr(RangeScan, "_read", lambda _: pytest.fail("this reads what is there now"))
    with filled(tmp_path / "log") as log:
        was = state(log)
        reader, partitions = planned(tmp_path / "log", minPartitions="1", failondataloss="false")
        assert len(partitions) == 1
        log.delete_before(30)
        assert list(records(reader, partitions)) == [one for one in was if one[0] >= 30]


def test_tasks_of_another_user_than_the_driver_keep_what_was_planned_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(tmp_path / "log") as log:
        was = state(log)
        reader, partitions = planned(tmp_path / "log")
        [of_driver] = (tmp_path / "log" / "readers").iterdir()
        told, now = of_driver.read_bytes(), leases.system_clock()
        monkeypatch.setattr(os, "geteuid", lambda: 12345)
        found = list(records(reader, partitions[:2]))
        assert of_driver.read_bytes() == told, "which the other user may not change"
        of_driver.unlink()  # its time has passed
        monkeypatch.setattr(leases, "system_clock", lambda: now + int(local_logs.KEEP_SECONDS * 900_000))
        CHANGES["superseded and compacted"](log)
        assert found + list(records(reader, partitions[2:])) == was


def test_files_that_a_plan_keeps_are_deleted_when_its_time_has_passed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with filled(tmp_path / "log") as log:
        planned(tmp_path / "log")
        CHANGES["superseded and compacted"](log)
        assert len(list((tmp_path / "log").glob("*.store"))) > len(log.segments)
        ahead = leases.system_clock() + 2 * int(local_logs.KEEP_SECONDS * 1_000_000)
        monkeypatch.setattr(leases, "system_clock", lambda: ahead)
        CHANGES["superseded and compacted"](log)
        assert len(list((tmp_path / "log").glob("*.store"))) == len(log.segments)
        assert not list((tmp_path / "log" / "readers").iterdir())
