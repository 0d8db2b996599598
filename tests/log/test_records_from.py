"""How many records there are to read from an offset on: exact without gaps; with gaps about, and never 0 too soon."""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog import InvalidType, LogConfig, MemoryStorage, Record, Retention

if TYPE_CHECKING:
    from collections.abc import Sequence

SEGMENT = LogConfig(segment_bytes=512)
keys = st.lists(st.integers(0, 6), max_size=80)


def fill(log: seglog.Log, keys: Sequence[int]) -> None:
    for key in keys:
        log.append(b"v" * 20, key=b"%d" % key)


def check(log: seglog.Log) -> None:
    """Compare with a count by reading, at every offset and beyond both ends."""
    there = [record.offset for record in log.scan()]
    infos, seen = log.segments, len(there)
    bases = [info.base_offset for info in infos]
    for offset in range(log.lowest_offset - 2, log.next_offset + 2):
        told, true = log.records_from(offset), sum(one >= offset for one in there)
        info = infos[max(bisect_right(bases, offset) - 1, 0)]
        if info.dense or offset in bases or offset <= log.lowest_offset:
            assert told == true
        assert abs(told - true) <= info.records
        assert (told > 0) >= (true > 0)
        assert told <= seen
        seen = told
    assert log.records_from(log.next_offset) == 0


@pytest.mark.parametrize("buffer_bytes", [0, 200])
def test_without_gaps_it_is_exact_across_segments(place: Any, buffer_bytes: int) -> None:
    config = LogConfig(segment_bytes=512, initial_offset=40, buffer_bytes=buffer_bytes)
    with seglog.open(place, config) as log:
        assert log.records_from(0) == log.records_from(40) == 0
        fill(log, range(50))
        assert len(log.segments) > 3
        assert [log.records_from(offset) for offset in (0, 40, 41, 77, 89, 90, 2**60)] == [50, 50, 49, 13, 1, 0, 0]
        with seglog.open(place, mode="r") as reader:
            check(reader)
            fill(log, range(3))
            log.sync()
            assert reader.records_from(89) == log.records_from(89) == 4
        with pytest.raises(InvalidType):
            log.records_from("7")  # type: ignore[arg-type] # what is refused


@given(rounds=st.lists(keys, min_size=1, max_size=3), cut=st.integers(0, 200))
def test_a_compacted_log_is_counted_alike_by_writer_and_follower(rounds: list[list[int]], cut: int) -> None:
    storage = MemoryStorage()
    config = LogConfig(segment_bytes=512, retention=Retention(compact=True, min_dirty_ratio=0))
    with seglog.open(storage, config) as log:
        for some in rounds:
            fill(log, some)
            log.compact()
            check(log)
        log.truncate(min(cut, log.next_offset))
        check(log)
        with seglog.open(storage, mode="r") as reader:
            check(reader)


@given(steps=st.lists(st.integers(1, 5), min_size=1, max_size=60))
def test_gaps_in_the_active_segment_are_counted_as_it_grows(steps: list[int]) -> None:
    storage, offset = MemoryStorage(), 0
    with seglog.open(storage, SEGMENT) as log, seglog.open(storage, mode="r") as reader:
        for step in steps:
            offset += step
            log.append_at(offset, Record(offset, 0, b"k", b"v" * 20))
        log.sync()
        check(log)
        check(reader)
    with seglog.open(storage) as log:
        check(log)


def test_of_a_compacted_log_only_what_is_left_counts(place: Any) -> None:
    config = LogConfig(segment_bytes=4096, retention=Retention(compact=True, min_dirty_ratio=0))
    with seglog.open(place, config) as log:
        fill(log, [number % 50 for number in range(5000)])
        log.compact()
        left = sum(1 for _ in log.scan())
        assert left < 200
        assert log.records_from(0) == left
