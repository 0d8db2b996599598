"""From a time to an offset: the first record of that time or later, however the timestamps lie."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, Record

INT64 = st.integers(-(2**63), 2**63 - 1)
TIMESTAMPS = st.lists(
    st.one_of(
        st.integers(0, 30),
        st.integers(-5, 300),
        INT64,
        st.sampled_from([-(2**63), -(2**63) + 1, -1, 0, 1, 2**63 - 1]),
    ),
    max_size=60,
)


def at(log: seglog.Log, wanted: int) -> int | None:
    return log.offset_at(wanted, force_timestamp=True)


def first_at(timestamps: list[int], wanted: int) -> int | None:
    return next((offset for offset, timestamp in enumerate(timestamps) if timestamp >= wanted), None)


def test_ten_times_the_offset(place: Any) -> None:
    """acceptance/compaction.md, 16: timestamps 10*offset for 40..49."""
    with seglog.open(place, LogConfig(initial_offset=40)) as log:
        for offset in range(40, 50):
            log.append(b"v", timestamp=10 * offset)
        found = {wanted: log.offset_at(wanted) for wanted in (420, 421, 399, 400, 490, 491, -(2**63), 2**63 - 1)}
    assert found == {420: 42, 421: 43, 399: 40, 400: 40, 490: 49, 491: None, -(2**63): 40, 2**63 - 1: None}


def test_an_empty_log_has_no_time(place: Any) -> None:
    with seglog.open(place) as log:
        assert log.offset_at(0) is None
        assert log.offset_at(-(2**63)) is None


def test_time_that_runs_backwards_gives_the_first_that_is_late_enough(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, index_interval_bytes=64)) as log:
        for timestamp in range(100, 0, -1):
            log.append(b"v", timestamp=timestamp)
        assert [log.offset_at(wanted) for wanted in (1, 50, 100, 101)] == [0, 0, 0, None]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_single_late_record_far_behind_is_found(place: Any, mode: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=4096, index_interval_bytes=128)) as log:
        for offset in range(1000):
            log.append(b"v", timestamp=99 if offset == 777 else 5)
    with seglog.open(place, mode=mode) as log:
        assert [log.offset_at(wanted) for wanted in (5, 6, 99, 100)] == [0, 777, 777, None]


def test_time_indexes_that_are_lost_cost_nothing_but_time(path: Any) -> None:
    with seglog.open(path, LogConfig(segment_bytes=512, index_interval_bytes=64)) as log:
        for offset in range(50):
            log.append(b"v" * 20, timestamp=offset)
    for index in path.glob("*.times"):
        index.unlink()
    for mode in ("r", "a"):
        with seglog.open(path, mode=mode) as log:
            assert [log.offset_at(wanted) for wanted in range(50)] == list(range(50))


def test_records_in_the_buffer_are_found(place: Any) -> None:
    with seglog.open(place, LogConfig(buffer_bytes=100_000)) as log:
        for offset in range(10):
            log.append(b"v", timestamp=10 * offset)
        assert log.offset_at(41) == 5


@settings(max_examples=150)
@given(timestamps=TIMESTAMPS, probes=st.lists(INT64, max_size=5), data=st.data())
def test_it_is_what_looking_at_every_record_gives(timestamps: list[int], probes: list[int], data: Any) -> None:
    storage = seglog.MemoryStorage()
    interval = data.draw(st.sampled_from([64, 100, 256]), "interval")
    probes += timestamps + [min(timestamp + 1, 2**63 - 1) for timestamp in timestamps]
    cut = data.draw(st.integers(0, len(timestamps)), "cut")
    config = LogConfig(segment_bytes=512, index_interval_bytes=interval)
    with seglog.open(storage, config) as log, seglog.open(storage, mode="r") as reader:
        for timestamp in timestamps:
            log.append(b"v" * 9, timestamp=timestamp, force_timestamp=True)
        for wanted in probes:
            assert at(log, wanted) == at(reader, wanted) == first_at(timestamps, wanted)
        log.truncate(cut)
        for wanted in probes:
            assert at(log, wanted) == at(reader, wanted) == first_at(timestamps[:cut], wanted)
    with seglog.open(storage) as log:
        for wanted in probes:
            assert at(log, wanted) == first_at(timestamps[:cut], wanted)


@settings(max_examples=60)
@given(gaps=st.lists(st.tuples(st.integers(0, 20), st.integers(0, 40)), max_size=40), probe=st.integers(0, 45))
def test_gaps_do_not_disturb_it(gaps: list[tuple[int, int]], probe: int) -> None:
    storage, placed = seglog.MemoryStorage(), []
    with seglog.open(storage, LogConfig(segment_bytes=512, index_interval_bytes=64)) as log:
        for gap, timestamp in gaps:
            offset = log.next_offset + gap
            log.append_at(offset, Record(offset, timestamp, None, b"v" * 9))
            placed.append((offset, timestamp))
        expected = next((offset for offset, timestamp in placed if timestamp >= probe), None)
        assert log.offset_at(probe) == expected
    with seglog.open(storage, mode="r") as log:
        assert log.offset_at(probe) == expected
