"""Logs with gaps, as followers of a compacted log keep them: reads report a gap and the offset after it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, OffsetCompacted, Record


def record(offset: int) -> Record:
    return Record(offset, 10 * offset % 2**40, b"k%d" % (offset % 3), b"v%d" % offset)


def put(log: seglog.Log, *offsets: int) -> None:
    for offset in offsets:
        assert log.append_at(offset, record(offset)) == offset


def offsets(log: seglog.Log, start: int | None = None) -> list[int]:
    found = [one.offset for one in log.scan(start)]
    assert log.to_arrow(start).column("offset").to_pylist() == found
    assert log.to_arrow(start, values="binary").column("offset").to_pylist() == found
    return found


def test_base_40_holding_50_51_60_61(place: Any) -> None:
    """acceptance/compaction.md, 14."""
    with seglog.open(place, LogConfig(initial_offset=40)) as log:
        put(log, 50, 51, 60, 61)
    for mode in ("a", "r"):
        with seglog.open(place, mode=mode) as log:
            assert (log.lowest_offset, log.next_offset) == (40, 62)
            assert offsets(log, 41) == [50, 51, 60, 61]
            assert offsets(log, 55) == [60, 61]
            assert offsets(log, 62) == []
            assert [log.read(offset) for offset in (50, 51, 60, 61)] == [record(o) for o in (50, 51, 60, 61)]
            with pytest.raises(OffsetCompacted, match="offset 55 no longer holds a record") as caught:
                log.read(55)
            assert caught.value.next_offset == 60
            assert isinstance(caught.value, IndexError)


def test_a_gap_at_the_very_start_leads_to_the_first_record(place: Any) -> None:
    with seglog.open(place, LogConfig(initial_offset=40)) as log:
        put(log, 50, 2**40, 2**50)
        for mode in ("a", "r"):
            reader = log if mode == "a" else seglog.open(place, mode="r")
            assert offsets(reader, 41) == offsets(reader) == [50, 2**40, 2**50]
            with pytest.raises(OffsetCompacted) as caught:
                reader.read(45)
            assert caught.value.next_offset == 50


def test_every_missing_offset_names_the_next_record(place: Any) -> None:
    there = [0, 1, 5, 6, 20, 100, 101, 102, 5000]
    with seglog.open(place, LogConfig(segment_bytes=512, index_interval_bytes=64)) as log:
        put(log, *there)
        for missing in sorted(set(range(5000)) - set(there))[::7]:
            with pytest.raises(OffsetCompacted) as caught:
                log.read(missing)
            assert caught.value.next_offset == min(offset for offset in there if offset > missing)


def test_after_a_gap_ordinary_appends_go_on(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        log.append(b"a")
        put(log, 10)
        assert log.append(b"b") == 11
        assert log.append_stream([b"c"]) == 12
        assert log.append_batch(log.to_arrow(0, 1)) == range(13, 14)
        assert log.append(b"d", expected_offset=14) == 14
        assert offsets(log) == [0, 10, 11, 12, 13, 14]
        assert [segment.dense for segment in log.segments] == [True, False]


def test_without_a_gap_append_at_is_an_append(place: Any) -> None:
    with seglog.open(place) as log:
        put(log, 0, 1, 2)
        assert [segment.dense for segment in log.segments] == [True]
        assert list(log.scan()) == [record(0), record(1), record(2)]


@pytest.mark.parametrize("offset", [2, 1, 0, -1])
def test_an_offset_that_was_given_out_is_a_conflict(path: Any, contents: Any, offset: int) -> None:
    with seglog.open(path) as log:
        put(log, 0, 1, 2)
        before = contents(path)
        with pytest.raises(seglog.OffsetConflict) as caught:
            log.append_at(offset, record(offset))
        assert caught.value.next_offset == 3
        assert contents(path) == before


def test_a_gap_wider_than_a_segment_reaches_begins_another(place: Any) -> None:
    far = [0, 1, 2**32 - 2, 2**32 - 1, 2**32, 2**33, 2**33 + 5, 2**62, 2**62 + 1]
    with seglog.open(place) as log:
        put(log, *far)
        assert offsets(log) == far
        for offset in (0, 2**32 - 1, 2**33 + 5, 2**62):
            assert log.read(offset) == record(offset)
        with pytest.raises(OffsetCompacted) as caught:
            log.read(2**61)
        assert caught.value.next_offset == 2**62
    with seglog.open(place) as log:
        assert offsets(log) == far
        assert log.verify().ok


def test_appends_go_on_behind_a_gap_as_wide_as_a_segment_reaches(place: Any) -> None:
    base = 10
    with seglog.open(place) as log:
        put(log, base, base + 2**32 - 1)
        expected = [base, base + 2**32 - 1]
        expected += [log.append(b"v") for _ in range(3)]
        expected += log.append_batch(log.to_arrow(base, base + 1))
        expected.append(log.append_stream([b"v"]))
        assert expected[2:] == list(range(base + 2**32, base + 2**32 + 5))
        assert offsets(log) == expected


def test_a_cut_in_a_gap_and_behind_it(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        put(log, 50, 51, 60, 61)
        for cut, left in ((61, [50, 51, 60]), (55, [50, 51]), (51, [50]), (20, []), (0, [])):
            log.truncate(cut)
            assert log.next_offset == cut
            assert offsets(log) == left
            with seglog.open(place, mode="r") as reader:
                assert (reader.next_offset, offsets(reader)) == (cut, left)
        assert log.append(b"v") == 0


def test_a_cut_in_a_gap_survives_reopening_and_takes_records_again(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        put(log, 50, 51, 60, 61)
        log.truncate(55)
    with seglog.open(place) as log:
        assert (log.next_offset, offsets(log)) == (55, [50, 51])
        with pytest.raises(OffsetCompacted) as caught:
            log.read(52)
        assert caught.value.next_offset >= 53
        put(log, 58)
        assert log.append(b"v") == 59
        assert offsets(log) == [50, 51, 58, 59]
    with seglog.open(place) as log:
        assert offsets(log) == [50, 51, 58, 59]
        assert log.verify().ok


def test_a_reader_follows_gaps_live(place: Any) -> None:
    with seglog.open(place) as log, seglog.open(place, mode="r") as reader:
        tail = reader.tail(0)
        for offset in (3, 4, 9, 2**33, 2**33 + 1):
            put(log, offset)
            assert [one.offset for one in tail.poll()] == [offset]
            assert reader.next_offset == offset + 1
        assert offsets(reader) == [3, 4, 9, 2**33, 2**33 + 1]


@settings(max_examples=100)
@given(
    gaps=st.lists(st.one_of(st.just(0), st.integers(0, 5), st.sampled_from([1000, 2**32, 2**40])), max_size=40),
    closed=st.integers(0, 40),
)
def test_whatever_the_gaps_it_reads_as_a_dict_would(gaps: list[int], closed: int) -> None:
    storage, model = seglog.MemoryStorage(), {}
    log = seglog.open(storage, LogConfig(segment_bytes=512, index_interval_bytes=64))
    for number, gap in enumerate(gaps):
        if number == closed:
            log.close()
            log = seglog.open(storage)
        offset = log.next_offset + gap
        put(log, offset)
        model[offset] = record(offset)
    assert list(log.scan()) == list(model.values())
    for offset, one in model.items():
        assert log.read(offset) == one
        assert offsets(log, offset) == [other for other in model if other >= offset]
        if offset + 1 not in model and offset + 1 < log.next_offset:
            with pytest.raises(OffsetCompacted) as caught:
                log.read(offset + 1)
            assert caught.value.next_offset == min(other for other in model if other > offset)
    assert log.verify().ok
    log.close()


def test_records_behind_a_cut_gap_are_read_together(place: Any) -> None:
    with seglog.open(place) as log:
        for offset in (1, 3, 50):
            log.append_at(offset, Record(offset, 5, b"%d" % offset, b"value", ()))
        log.truncate(30)
        assert [record.offset for record in log.read_many([1, 3] * 8)] == [1, 3] * 8
        log.truncate(10)  # cuts nothing but a gap
        for number in range(8):
            log.append(b"new", key=b"n%d" % number)
        assert [record.offset for record in log.read_many([3, *range(10, 18)])] == [3, *range(10, 18)]
        assert len(log.read_keys([b"n%d" % number for number in range(8)])) == 8
