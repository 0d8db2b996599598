"""When a segment ends and the next begins: by size, by age, and what the overflow is for."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig

RECORD = 89  # bytes of a record with a value of 57: five of them and the file header are 509
VALUE = b"v" * 57


def counts(log: seglog.Log) -> list[int]:
    return [segment.records for segment in log.segments]


def table(rows: int) -> pa.Table:
    return pa.table({"value": pa.array([VALUE] * rows, pa.binary())})


def test_a_segment_rolls_when_the_next_record_would_pass_its_size(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        for _ in range(5):
            log.append(VALUE)
        assert counts(log) == [5]
        for _ in range(6):
            log.append(VALUE)
        assert counts(log) == [5, 5, 1]
        assert [segment.bytes for segment in log.segments] == [509, 509, 64 + RECORD]


def test_a_segment_is_filled_to_the_last_byte(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, segment_overflow_bytes=64)) as log:
        log.append(b"v" * (512 - 64 - 32))
        assert (counts(log), log.size) == ([1], 512)
        log.append(b"")
        assert counts(log) == [1, 1]


def test_one_record_may_pass_the_size_by_the_overflow(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, segment_overflow_bytes=1000)) as log:
        log.append(b"v" * (512 + 1000 - 64 - 32))
        assert (counts(log), log.size) == ([1], 1512)
        log.append(VALUE)
        assert counts(log) == [1, 1]
        log.append(b"v" * 1400)  # does not fit after the small one: the log rolls first, then uses the overflow
        assert counts(log) == [1, 1, 1]


def test_without_overflow_a_segment_is_the_limit(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, segment_overflow_bytes=0)) as log:
        log.append(b"v" * (512 - 64 - 32))
        with pytest.raises(seglog.RecordTooLarge):
            log.append(b"v" * (512 - 64 - 31))
        log.append(VALUE)
        log.append_stream([b"v" * (512 - 64 - RECORD - 32)])
        assert counts(log) == [1, 2]
        log.append_stream([b"v" * (512 - 64 - 32)])
        assert counts(log) == [1, 2, 1]


def test_a_stream_passes_the_size_and_the_next_record_rolls(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        log.append(VALUE)
        log.append_stream([b"v" * 500])
        assert (counts(log), log.size) == ([2], 64 + RECORD + 532)
        log.append_stream([b"v"])
        assert counts(log) == [2, 1]


def test_a_batch_goes_into_one_segment_where_one_can_take_it(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        log.append_batch(table(3))
        log.append_batch(table(2))
        log.append_batch(table(1))
        log.append_batch(table(5))
        assert counts(log) == [5, 1, 5]


def test_a_longer_batch_fills_segment_after_segment(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        log.append(VALUE)
        assert log.append_batch(table(23)) == range(1, 24)
        assert counts(log) == [5, 5, 5, 5, 4]
        assert [record.offset for record in log.scan()] == list(range(24))


def test_a_batch_of_records_wider_than_a_segment_uses_the_overflow(place: Any) -> None:
    wide = pa.table({"value": pa.array([b"v" * 600] * 3, pa.binary())})
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        log.append_batch(wide)
        assert counts(log) == [1, 1, 1]


def test_a_segment_rolls_by_age_once_it_holds_something(place: Any, clock: Any) -> None:
    with seglog.open(place, LogConfig(segment_age=60), clock=clock) as log:
        clock.advance(3600)
        log.append(VALUE)
        assert counts(log) == [1], "an empty segment does not roll, however old"


@pytest.mark.parametrize("way", ["append", "append_stream", "append_batch", "expire"])
def test_an_old_segment_rolls_with_the_next_write_of_any_kind(place: Any, clock: Any, way: str) -> None:
    ways: dict[str, Any] = {
        "append": lambda log: log.append(VALUE),
        "append_stream": lambda log: log.append_stream([VALUE]),
        "append_batch": lambda log: log.append_batch(table(1)),
        "expire": lambda log: log.expire(),
    }
    with seglog.open(place, LogConfig(segment_age=60), clock=clock) as log:
        log.append(VALUE)
        clock.advance(59.999)
        ways[way](log)
        assert len(counts(log)) == 1
        clock.advance(0.001)
        ways[way](log)
        assert len(counts(log)) == 2
        assert log.segments[0].sealed_at == clock.now
        assert log.segments[1].created == clock.now


def test_the_age_of_a_segment_survives_a_restart(place: Any, clock: Any) -> None:
    for _ in range(3):
        with seglog.open(place, LogConfig(segment_age=60), clock=clock) as log:
            log.append(VALUE)
            assert counts(log)[-1] >= 1
        clock.advance(30)
    with seglog.open(place, clock=clock) as log:
        assert counts(log) == [2, 1]


def test_age_is_the_logs_own_and_not_that_of_its_records(place: Any, clock: Any) -> None:
    with seglog.open(place, LogConfig(segment_age=60), clock=clock) as log:
        for timestamp in (0, clock.now - 10**12, clock.now + 10**12):
            log.append(VALUE, timestamp=timestamp)
        assert counts(log) == [3]


def test_a_clock_that_jumps_back_rolls_once_and_deletes_nothing_early(place: Any, clock: Any) -> None:
    keeps_a_day = LogConfig(segment_age=60, retention=seglog.Retention(age=24 * 3600))
    with seglog.open(place, keeps_a_day, clock=clock) as log:
        log.append(VALUE)
        clock.advance(-(10**6))
        log.append(VALUE)
        assert counts(log) == [1, 1]
        clock.advance(10**6 + 60)
        log.expire()
        assert sum(counts(log)) == 2


def test_file_numbers_only_grow_and_no_name_comes_twice(path: Any) -> None:
    seen: list[str] = []
    for _ in range(3):
        with seglog.open(path, LogConfig(segment_bytes=512)) as log:
            for _ in range(12):
                log.append(VALUE)
            log.truncate(3)
            names = [segment.name for segment in log.segments if segment.name not in seen]
            numbers = [int(name.split("-")[1].split(".")[0]) for name in [*seen, *names]]
            assert numbers == sorted(set(numbers))
            seen += names


def test_the_figures_of_an_open_segment_are_those_of_a_sealed_one(place: Any, clock: Any) -> None:
    with seglog.open(place, clock=clock) as log:
        log.append(VALUE, timestamp=7)
        log.append(None, key=b"k", timestamp=-3)
        log.append_batch(pa.table({"value": pa.array([None, b"v"], pa.binary()), "timestamp": [5, 99]}))
        active = log.segments[-1]
        expected = (0, 4, log.size, 4, 2, -3, 99, True)
        for info in (active, _sealed(log)):
            got = (
                info.base_offset,
                info.next_offset,
                info.bytes,
                info.records,
                info.tombstones,
                info.min_timestamp,
                info.max_timestamp,
                info.dense,
            )
            assert got == expected


def _sealed(log: seglog.Log) -> seglog.SegmentInfo:
    log.append_at(log.next_offset + 1, seglog.Record(0, 0, None, b"v"))  # a gap needs a segment of its own
    return log.segments[0]


SMALL_SEGMENTS = LogConfig(segment_bytes=100_000)


def test_a_streamed_value_of_known_length_rolls_when_it_does_not_fit(place: Any) -> None:
    with seglog.open(place, SMALL_SEGMENTS) as log:
        log.append(b"x" * 90_000)
        assert log.append_stream(iter([b"x" * 70_000] * 2), length=140_000) == 1
        assert [segment.records for segment in log.segments] == [1, 1]
        with pytest.raises(seglog.RecordTooLarge):
            log.append_stream(iter([b""]), length=150_000)
        for wrong in (1, 3):
            with pytest.raises(seglog.InvalidArgument, match="length"):
                log.append_stream(iter([b"xx"]), length=wrong)
        assert log.next_offset == 2
