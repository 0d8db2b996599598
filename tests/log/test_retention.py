"""What retention deletes, by size and by age, and what it never deletes. Figures: acceptance/compaction.md."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, Retention

if TYPE_CHECKING:
    from collections.abc import Callable

RECORD = 89  # bytes: five of them and the file header are 509
VALUE = b"v" * 57
DAY = 86_400


def config(**retention: Any) -> LogConfig:
    return LogConfig(segment_bytes=512, retention=Retention(**retention))


def fill(log: seglog.Log, records: int = 15, **options: Any) -> None:
    for _ in range(records):
        log.append(VALUE, **options)


def bases(log: seglog.Log) -> list[int]:
    return [segment.base_offset for segment in log.segments]


# --- by size -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "left"), [(10 * RECORD, 2), (15 * RECORD, 3), (2 * 509, 2), (0, 1), (10**9, 3)])
def test_17_by_size_fifteen_records_five_a_segment(place: Any, keep: int, left: int) -> None:
    """acceptance/compaction.md, 17: keep 10 records' bytes -> 2 segments; 15 -> 3."""
    with seglog.open(place, config()) as log:
        fill(log)
        assert [segment.records for segment in log.segments] == [5, 5, 5]
    with seglog.open(place, config(bytes=keep)) as log:
        assert log.expire() == 3 - left
        assert len(log.segments) == left
        assert (log.lowest_offset, log.next_offset) == (15 - 5 * left, 15)
        assert [record.offset for record in log.scan()] == list(range(15 - 5 * left, 15))
        assert log.expire() == 0
    with seglog.open(place, mode="r") as log:
        assert (log.lowest_offset, log.next_offset) == (15 - 5 * left, 15)


def test_size_is_kept_by_every_roll(place: Any) -> None:
    with seglog.open(place, config(bytes=1000)) as log:
        for _ in range(200):
            log.append(VALUE)
            assert log.size < 1000 + 2 * 512
        assert log.size >= 1000 - 512
        assert log.next_offset == 200


def test_the_files_of_what_expired_are_gone(path: Any) -> None:
    with seglog.open(path, config()) as log:
        fill(log)
        gone = [segment.name for segment in log.segments[:2]]
    with seglog.open(path, config(bytes=0)) as log:
        log.expire()
        assert not any((path / name).exists() for name in gone)
        assert len(list(path.glob("*.store"))) == 1
        assert len(list(path.glob("*.index"))) == 1


def test_offsets_before_the_start_say_where_the_log_begins(place: Any) -> None:
    with seglog.open(place, config(bytes=0)) as log:
        fill(log, 11)
        assert log.lowest_offset == 10
        with pytest.raises(seglog.OffsetOutOfRange) as caught:
            log.read(9)
        assert (caught.value.lowest_offset, caught.value.next_offset) == (10, 11)
        assert [record.offset for record in log.scan(3)] == [10], "a scan begins at the first record there is"
        with pytest.raises(seglog.OffsetOutOfRange):
            log.truncate(9)
        with pytest.raises(seglog.OffsetOutOfRange):
            log.tail(9)


# --- by age ------------------------------------------------------------------------------------------------------


def test_17_by_time_a_segment_goes_when_it_was_sealed_long_enough_ago(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        for _ in range(3):
            fill(log, 5)
            clock.advance(3600)
        fill(log, 1)  # sealed at 1 h, 2 h and 3 h
        clock.advance(DAY - 2 * 3600 - 0.000_001)
        assert log.expire() == 0
        clock.advance(0.000_001)
        assert log.expire() == 1
        assert bases(log) == [5, 10, 15]
        clock.advance(3600)
        assert log.expire() == 1
        assert bases(log) == [10, 15]


def test_17_when_all_is_expired_one_empty_segment_stays_at_the_same_offset(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log)
        clock.advance(DAY)
        assert log.expire() == 3
        assert (len(log.segments), log.segments[0].records) == (1, 0)
        assert (log.lowest_offset, log.next_offset, log.size) == (15, 15, 64)
        assert list(log.scan()) == []
        assert log.offset_at(0) is None
        assert log.expire() == 0
    with seglog.open(place, clock=clock) as log:
        assert (log.lowest_offset, log.next_offset) == (15, 15)
        assert log.append(VALUE) == 15


def test_the_time_of_sealing_survives_a_restart(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log, 11)
        sealed = [segment.sealed_at for segment in log.segments]
        assert sealed == [clock.now, clock.now, None]
    clock.advance(DAY / 2)
    with seglog.open(place, clock=clock) as log:
        assert [segment.sealed_at for segment in log.segments] == sealed
        clock.advance(DAY / 2)
        assert log.expire() == 2
        assert bases(log) == [10]


@pytest.mark.parametrize("age", [-50 * 365 * DAY, -7 * DAY, 50 * 365 * DAY])
def test_the_timestamps_of_records_neither_hasten_nor_delay(place: Any, clock: Any, age: int) -> None:
    """A backfill of old data does not expire at once, and a timestamp far ahead pins nothing."""
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log, 11, timestamp=clock.now + age * 1_000_000)
        assert log.expire() == 0
        clock.advance(DAY - 1)
        assert log.expire() == 0
        clock.advance(1)
        assert log.expire() == 3
        assert log.lowest_offset == 11


def test_a_log_that_is_written_to_keeps_its_active_segment(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log, 5)
        clock.advance(DAY - 1)
        fill(log, 1)
        clock.advance(DAY - 1)
        assert log.expire() == 0
        assert bases(log) == [0, 5]
        clock.advance(1)
        assert log.expire() == 2
        assert log.lowest_offset == 6


def test_a_clock_that_jumps_back_loses_nothing(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log)
        clock.advance(-10 * 365 * DAY)
        assert log.expire() == 0
        fill(log)
        assert log.next_offset == 30
        assert log.lowest_offset == 0
    with seglog.open(place, clock=clock) as log:
        assert log.expire() == 0
        clock.advance(10 * 365 * DAY + DAY)
        assert log.expire() == 6


def test_a_clock_that_was_ahead_for_a_while_pins_nothing(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log, 6)
        clock.advance(100 * 365 * DAY)
        fill(log, 5)  # seals one segment a hundred years ahead
        clock.advance(-100 * 365 * DAY)
        fill(log, 5)
        clock.advance(DAY)
        log.append(VALUE)
        log.expire()
        assert bases(log) == [15]


def test_a_clock_that_was_behind_for_a_while_hastens_nothing(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log, 6)
        clock.advance(-50 * 365 * DAY)
        fill(log, 5)  # seals one segment fifty years ago
        clock.advance(50 * 365 * DAY + DAY / 2)
        log.append(VALUE)
        assert log.expire() == 0
        clock.advance(DAY / 2)
        log.append(VALUE)
        assert log.expire() == 2


def test_a_clock_that_begins_at_zero_is_a_clock(place: Any, clock: Any) -> None:
    clock.now = 0
    with seglog.open(place, config(age=DAY), clock=clock) as log:
        fill(log, 11)
        clock.advance(DAY)
        assert log.expire() == 3


def test_an_age_of_zero_keeps_nothing_sealed(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=0), clock=clock) as log:
        fill(log, 11)
        assert log.lowest_offset == 10
        assert log.expire() == 1
        assert log.lowest_offset == 11


def test_an_age_may_be_a_timedelta(place: Any, clock: Any) -> None:
    with seglog.open(place, config(age=timedelta(days=1)), clock=clock) as log:
        fill(log)
        clock.advance(DAY)
        assert log.expire() == 3


# --- together, and not at all ------------------------------------------------------------------------------------


@pytest.mark.parametrize(("keep", "wait", "left"), [(10**6, DAY, 1), (1000, 0, 3), (1000, DAY, 1), (10**6, 0, 4)])
def test_17_policies_combine_the_stricter_decides(place: Any, clock: Any, keep: int, wait: float, left: int) -> None:
    with seglog.open(place, config(), clock=clock) as log:
        fill(log, 16)
    with seglog.open(place, config(bytes=keep, age=DAY), clock=clock) as log:
        clock.advance(wait)
        log.expire()
        assert len(log.segments) == left


def test_limits_that_do_not_apply_are_kept_and_delete_nothing(place: Any, clock: Any) -> None:
    with seglog.open(place, config(compact=True, age=5.0, bytes=0, expire=False), clock=clock) as log:
        fill(log, key=b"k")
        clock.advance(DAY)
        assert log.expire() == 0
        with pytest.raises(seglog.ConfigError, match="expire"):
            log.alter(retention=Retention(age=9.0))
        log.alter(retention=Retention(age=5.0, min_dirty_ratio=0.1))  # the same limit
        log.alter(retention=Retention(compact=False))
        assert log.expire() == 0
    with seglog.open(place, config(age=9.0), clock=clock) as log:  # an application has its own age
        assert log.config.retention.age == 9.0
        assert log.expire() == 0
        log.alter(retention=Retention(expire=True))
        assert log.expire() > 0


def test_without_a_policy_nothing_goes(place: Any, clock: Any) -> None:
    with seglog.open(place, config(), clock=clock) as log:
        fill(log)
        clock.advance(100 * 365 * DAY)
        assert log.expire() == 0
        assert log.lowest_offset == 0


def test_who_still_reads_goes_on_reading_what_expired(path: Any, process: Callable[..., Any]) -> None:
    with seglog.open(path, config()) as log:
        fill(log)
    with seglog.open(path, config(bytes=0)) as log:
        gone = path / log.segments[0].name
        records = log.scan()
        assert next(records).offset == 0
        assert log.expire() == 2
        assert gone.exists()
        assert [record.offset for record in records] == list(range(1, 15))
        del records
        log.expire()
        assert not gone.exists()
