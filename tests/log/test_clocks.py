"""A clock that was ahead, or behind, for some time: ages count again once it is right."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Retention
from seglog import clock as clocks

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000
DAY = 24 * 3600 * SECOND
NOW = 1_700_000_000 * SECOND
AHEAD = NOW + 50 * 365 * DAY


class Clock:
    def __init__(self, now: int) -> None:
        self.now = now

    def __call__(self) -> int:
        return self.now


@pytest.mark.parametrize("reopened", [False, True], ids=["running", "opened again"])
def test_segments_roll_and_expire_by_age_after_the_clock_was_ahead(path: Path, reopened: bool) -> None:
    clock = Clock(AHEAD)
    config = LogConfig(segment_age=3600, retention=Retention(age=7 * 24 * 3600))
    log = seglog.open(path, config, clock=clock)
    log.append(b"v")
    clock.now = NOW
    if reopened:
        log.close()
        log = seglog.open(path, config, clock=clock)
    for _ in range(30):
        log.append(b"v")
        log.expire()
        clock.now += DAY
    assert len(log.segments) > 5
    assert log.lowest_offset > 10
    log.close()


@pytest.mark.parametrize("wrong", [AHEAD, NOW - 30 * DAY], ids=["ahead", "behind"])
def test_how_long_a_log_is_quiet_does_not_depend_on_a_clock_that_is_set(
    path: Path, monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    wall, passed = Clock(wrong), Clock(0)
    monkeypatch.setattr(clocks, "time_ns", lambda: wall() * 1000)
    monkeypatch.setattr(clocks, "monotonic_ns", lambda: passed() * 1000)
    with seglog.open(path, LogConfig(retention=Retention(age=7 * 24 * 3600))) as log:
        log.append(b"v")
        for wall.now in (NOW, wrong, NOW + 60 * SECOND):
            log.expire()
            assert log.lowest_offset == 0, "a minute has passed"
        wall.now, passed.now = NOW + 8 * DAY, 8 * DAY
        log.expire()
        assert log.lowest_offset == log.next_offset == 1


def test_a_compaction_is_due_by_its_lag_after_the_clock_was_ahead(path: Path) -> None:
    clock = Clock(AHEAD)
    compact = Retention(compact=True, max_compaction_lag=3600, min_dirty_ratio=1.0)
    with seglog.open(path, LogConfig(segment_age=60, retention=compact), clock=clock) as log:
        log.append(b"old", key=b"k")
        clock.now = NOW
        log.append(b"new", key=b"k")
        clock.now += 2 * DAY
        log.append(b"newest", key=b"k")
        assert "compaction is due" in log.explain(0).text.lower()
        log.compact()
        assert [record.value for record in log.scan()][-1] == b"newest"
        assert log.lowest_offset <= 2


def tombstones(log: seglog.Log) -> int:
    return sum(record.value is None for record in log.scan())


def compacted(log: seglog.Log, clock: Clock, now: int) -> int:
    """Compact twice at a time, as a Cleaner would while a compaction is due; return how many tombstones are left."""
    clock.now = now
    log.compact(roll=True)
    log.compact(roll=True)
    return tombstones(log)


def test_a_tombstone_first_compacted_with_the_clock_ahead_goes_when_its_time_has_passed_by_the_right_one(
    path: Path,
) -> None:
    clock = Clock(NOW)
    config = LogConfig(retention=Retention(compact=True, delete_retention=24 * 3600))
    with seglog.open(path, config, clock=clock) as log:
        log.append(b"v", key=b"k")
        log.append(None, key=b"k")
        assert compacted(log, clock, AHEAD) == 1
        assert compacted(log, clock, NOW + SECOND) == 1
        assert compacted(log, clock, NOW + DAY) == 1, "the time counts from the first pass with a right clock"
        assert compacted(log, clock, NOW + DAY + 2 * SECOND) == 0


@pytest.mark.parametrize("passes", [1, 2])
def test_a_tombstone_first_compacted_with_the_clock_behind_is_kept_for_its_time(path: Path, passes: int) -> None:
    clock = Clock(0)
    config = LogConfig(retention=Retention(compact=True, delete_retention=24 * 3600))
    with seglog.open(path, config, clock=clock) as log:
        log.append(b"v", key=b"k")
        log.append(None, key=b"k")
        for _ in range(passes):
            assert compacted(log, clock, 0) == 1
        assert compacted(log, clock, NOW) == 1, "not at once"
        assert compacted(log, clock, NOW + DAY - SECOND) == 1
        assert compacted(log, clock, NOW + DAY) == 0


@pytest.mark.parametrize("batch", [False, True], ids=["append", "append_batch"])
def test_an_append_while_the_clock_is_behind_lets_retention_delete_nothing_early(path: Path, batch: bool) -> None:
    clock = Clock(NOW)
    config = LogConfig(segment_age=3600, retention=Retention(age=7 * 24 * 3600))
    with seglog.open(path, config, clock=clock) as log:
        for clock.now in (NOW, NOW - 30 * DAY, NOW + 60 * SECOND):
            if batch:
                log.append_batch(pa.table({"value": [b"v"]}))
            else:
                log.append(b"v")
            log.expire()
        assert [record.offset for record in log.scan()] == [0, 1, 2]
