"""The segments of a manifest in blocks: readers see a tuple, and successive manifests share what does not change."""

from __future__ import annotations

from bisect import bisect_right

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.format.segment_entry import SegmentEntry
from seglog.format.segment_list import BLOCK_SEGMENTS, Segments

ENTRIES = tuple(
    SegmentEntry(base_offset=10 * number, file=number, salt=number, created=0, bytes=number, records=2 * number)
    for number in range(3 * BLOCK_SEGMENTS + 7)
)
NUMBERS = st.integers(0, len(ENTRIES))
MORE = tuple(SegmentEntry(base_offset=10**6, file=10**6 + number, salt=0, created=0) for number in range(700))


@given(NUMBERS, NUMBERS, st.sampled_from([1, 2, -1]))
def test_a_slice_is_that_of_a_tuple(start: int, stop: int, step: int) -> None:
    found = Segments.of(ENTRIES)[start:stop:step]
    assert found == ENTRIES[start:stop:step]
    assert len(found) == len(ENTRIES[start:stop:step])
    assert list(reversed(found)) == list(reversed(ENTRIES[start:stop:step]))


@given(NUMBERS, NUMBERS)
def test_totals_are_those_of_the_entries_in_it(start: int, stop: int) -> None:
    found = Segments.of(ENTRIES)[start:stop]
    assert found.total_bytes == sum(entry.bytes or 0 for entry in ENTRIES[start:stop])
    assert found.total_records == sum(entry.records or 0 for entry in ENTRIES[start:stop])


@given(st.integers(-5, 10 * len(ENTRIES) + 5), NUMBERS)
def test_the_segment_of_an_offset_is_the_last_one_that_begins_before_it(offset: int, first: int) -> None:
    segments = Segments.of(ENTRIES)[min(first, len(ENTRIES) - 1) :]
    assert segments.find(offset) == max(bisect_right([one.base_offset for one in segments], offset) - 1, 0)


@given(st.integers(-len(ENTRIES) - 3, len(ENTRIES) + 3))
def test_a_number_finds_the_entry_of_a_tuple_or_none(number: int) -> None:
    segments = Segments.of(ENTRIES)
    if -len(ENTRIES) <= number < len(ENTRIES):
        assert segments[number] is ENTRIES[number]
    else:
        with pytest.raises(IndexError):
            segments[number]


@given(st.lists(st.tuples(NUMBERS, NUMBERS, st.integers(0, 700)), max_size=5))
def test_a_splice_says_how_any_state_became_any_other(changes: list[tuple[int, int, int]]) -> None:
    """Also after many changes, which leave blocks of any length."""
    before, expected = Segments.of(ENTRIES), ENTRIES
    for at, gone, come in changes:
        place = min(at, len(expected))
        after = before.spliced(place, min(gone, len(expected) - place), MORE[:come])
        expected = (*expected[:place], *MORE[:come], *expected[place + min(gone, len(expected) - place) :])
        assert after == expected
        assert before.spliced(*before.splice_to(after)) == after
        before = after


def test_what_a_roll_and_an_expiry_change_is_told_in_a_few_entries() -> None:
    segments = Segments.of(ENTRIES)
    rolled = segments[:-1].followed_by(MORE[:2])
    assert segments.splice_to(rolled) == (len(ENTRIES) - 1, 1, MORE[:2])
    assert segments.splice_to(segments[3:]) == (0, 3, ())
    assert segments.splice_to(segments) == (len(ENTRIES), 0, ())
    assert Segments().splice_to(segments[:2]) == (0, 0, ENTRIES[:2])


def test_blocks_that_do_not_change_are_shared() -> None:
    segments = Segments.of(ENTRIES)
    later = segments[1:-1].followed_by(MORE[:2])
    shared = set(map(id, segments._blocks)) & set(map(id, later._blocks))
    assert len(shared) >= len(segments._blocks) - 2
    assert Segments.of(later) is later
