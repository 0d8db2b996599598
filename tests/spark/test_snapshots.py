"""The tasks of one plan, with every change of the log between two of them; see tests/snapshots.py.

Spark keeps a plan, and so do these tests: most without a JVM, as the reader's methods are what Spark calls.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.log import follower, leases
from seglog.spark.read import local_logs
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.reader import SeglogReader
from seglog.spark.read.scan import RangeScan
from seglog.spark.read.stream import SeglogStreamReader
from tests.snapshots import CHANGES, KEYS, check, filled, read_beside, state

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
STEPS = (0, 1, 12)


def planned(path: Path, **options: str) -> tuple[SeglogReader, list[Any]]:
    reader = SeglogReader(ReadOptions.parse({"path": str(path), "minPartitions": "8", **options}))
    return reader, reader.partitions()


def records(reader: SeglogReader | SeglogStreamReader, partitions: list[Any]) -> Iterator[tuple[int, bytes | None]]:
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


def test_a_task_that_begins_keeps_what_was_planned_for_as_long_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun = leases.system_clock()

    def after(times: float) -> None:
        now = begun + int(times * local_logs.KEEP_SECONDS * 1_000_000)
        for module in (leases, follower):
            monkeypatch.setattr(module, "system_clock", lambda: now)

    with filled(tmp_path / "log") as log:
        was = state(log)
        reader, partitions = planned(tmp_path / "log")
        after(0.9)
        found = list(records(reader, partitions[:1]))
        after(1.8)
        CHANGES["superseded and compacted"](log)
        assert found + list(records(reader, partitions[1:])) == was


def keys_of(frame: Any) -> list[tuple[int, bytes]]:
    return sorted((row.offset, bytes(row.key)) for row in frame.select("offset", "key").toLocalIterator())


@pytest.mark.parametrize("change", ["superseded and compacted", "compressed", "published and compacted"])
def test_a_data_frame_has_the_same_records_in_each_action_and_to_its_last_task(
    spark: SparkSession, change: str, tmp_path: Path
) -> None:
    def load() -> Any:
        return spark.read.format("seglog").option("minPartitions", "8").load(str(tmp_path / "log"))

    with filled(tmp_path / "log") as log:
        was, frame = state(log), load()
        assert frame.select("key").distinct().count() == KEYS
        rows = frame.select("offset", "key").toLocalIterator()  # a job for each task
        first = next(rows)
        CHANGES[change](log)
        rest = [(row.offset, bytes(row.key)) for row in rows]
        assert sorted([(first.offset, bytes(first.key)), *rest]) == was
        assert frame.select("key").distinct().count() == KEYS
        assert keys_of(frame) == was
        assert keys_of(load()) == state(log)


MOMENTS = pytest.mark.parametrize(
    "moments", [(2, 9), pytest.param(range(1, 30), marks=pytest.mark.proof)], ids=["few", "all"]
)


@MOMENTS
@pytest.mark.parametrize("change", [one for one in CHANGES if one not in ("cut", "expired", "deleted before")])
def test_a_stream_passes_each_position_once_and_gets_the_newest_record_of_every_key(
    change: str, tmp_path: Path, moments: Iterable[int]
) -> None:
    for at in moments:
        with filled(tmp_path / f"log{at}") as log:
            found = streamed(tmp_path / f"log{at}", at, lambda log=log: CHANGES[change](log))
            assert [offset for offset, _ in found] == sorted({offset for offset, _ in found})
            newest = {key: offset for offset, key in state(log)}
            assert newest.items() <= {key: offset for offset, key in found}.items()


def streamed(path: Path, at: int, change: Callable[[], object]) -> list[tuple[int, bytes]]:
    """Return what a stream reads until there is no more, in micro-batches of some records.

    The change comes before the step `at`, or at the end if there are fewer: a step plans a micro-batch, or reads a task
    of one.
    """
    options = {"path": str(path), "startingOffsets": "earliest", "maxOffsetsPerTrigger": "7"}
    reader = SeglogStreamReader(ReadOptions.parse(options, "stream"))
    left, found, offset = at, [], reader.initialOffset()

    def step() -> None:
        nonlocal left
        left -= 1
        if left == 0:
            change()

    while True:
        step()
        end = reader.latestOffset(offset, reader.getDefaultReadLimit())
        if end == offset and left <= 0:
            return found
        for part in reader.partitions(offset, end) if end != offset else ():
            step()
            found += records(reader, [part])
        offset = end


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
