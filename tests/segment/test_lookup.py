"""The contract of every lookup: a position is exact, or near and never after the record; unknown is reported."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.errors import OffsetCompacted
from seglog.format.index import DENSE_ENTRY, encode_dense_header
from seglog.record import Record
from seglog.segment.lookup import DenseLookup, Lookup, SparseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.sealed import dense_entries
from seglog.storage import MemoryStorage

Known = list[tuple[int, int]]
"""(relative offset, position) of the records noted in a lookup."""

LENGTHS = st.lists(st.integers(32, 90), max_size=30)


def dense(lengths: list[int], flushed: int, *, hold: bool = False) -> tuple[Lookup, Known]:
    entries, known, position = [], [], 64
    for relative, length in enumerate(lengths):
        entries.append(DENSE_ENTRY.pack(relative * 7, length, position))
        known.append((relative, position))
        position += length
    flushed = min(flushed, len(entries))
    storage = MemoryStorage()
    storage.make([])
    index = storage.create("index")
    index.pwrite(encode_dense_header(0, 0, 0) + b"".join(entries[:flushed]), 0)
    return DenseLookup(index, flushed, b"".join(entries[flushed:]), hold=hold), known


def sparse(lengths: list[int], every: int) -> tuple[Lookup, Known]:
    relatives, position, known = iter(range(0, 1000, 3)), 64, []
    for number, length in enumerate(lengths):
        relative = next(relatives)
        if number % every == 0:
            known.append((relative, position))
        position += length
    lookup = SparseLookup(known[:2])
    lookup.extend(known[2:])
    return lookup, known


MAKERS: dict[str, Any] = {
    "dense, all in memory": lambda lengths: dense(lengths, 0),
    "dense, all in the file": lambda lengths: dense(lengths, 1000),
    "dense, some of each": lambda lengths: dense(lengths, 5),
    "dense, all in the file, held": lambda lengths: dense(lengths, 1000, hold=True),
    "dense, some of each, held": lambda lengths: dense(lengths, 5, hold=True),
    "sparse, every record": lambda lengths: sparse(lengths, 1),
    "sparse, every fourth": lambda lengths: sparse(lengths, 4),
}


@pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())
class TestLookup:
    @given(lengths=LENGTHS, relative=st.integers(-1, 110))
    def test_an_exact_place_is_that_of_the_record_or_unknown(
        self, make: Any, lengths: list[int], relative: int
    ) -> None:
        lookup, known = make(lengths)
        place = lookup.exact(relative)
        if isinstance(lookup, DenseLookup):
            assert (place is not None) == (0 <= relative < len(lengths))
        if place is not None:
            assert (relative, place[2]) in known
            assert place == (relative * 7, lengths[relative], place[2])

    @given(lengths=LENGTHS, relative=st.integers(0, 110))
    def test_the_floor_is_a_known_record_at_or_before(self, make: Any, lengths: list[int], relative: int) -> None:
        lookup, known = make(lengths)
        floor, before = lookup.floor(relative), [one for one in known if one[0] <= relative]
        if isinstance(lookup, SparseLookup):
            assert floor == (before[-1] if before else None), "the nearest one"
        elif floor is not None:
            assert floor in before

    @given(lengths=LENGTHS, relative=st.integers(-1, 110), position=st.integers(0, 3000))
    def test_what_comes_after_lies_behind_offset_and_position(
        self, make: Any, lengths: list[int], relative: int, position: int
    ) -> None:
        lookup, known = make(lengths)
        least = position if isinstance(lookup, DenseLookup) else position + 1
        behind = [one for one in known if one[0] > relative and one[1] >= least]
        assert lookup.after(relative, position) == (behind[0] if behind else None)


def test_moving_what_is_pending_to_the_file_changes_no_answer() -> None:
    lookup, _ = dense([40] * 9, 4)
    assert isinstance(lookup, DenseLookup)
    before, entries = [lookup.exact(relative) for relative in range(9)], lookup.entries(0, 9)
    storage = MemoryStorage()
    storage.make([])
    index = storage.create("whole")
    index.pwrite(bytes(16) + entries, 0)
    lookup.move_pending(index)
    assert (lookup.flushed, len(lookup.pending), len(lookup)) == (9, 0, 9)
    assert [lookup.exact(relative) for relative in range(9)] == before
    lookup.pending.extend(DENSE_ENTRY.pack(1, 2, 3))
    assert lookup.exact(9) == (1, 2, 3)


@given(st.integers(0, 9), st.integers(0, 9), st.integers(0, 9))
def test_packed_entries_come_from_file_and_memory_alike(flushed: int, start: int, stop: int) -> None:
    lookup, _ = dense([40] * 9, flushed)
    assert isinstance(lookup, DenseLookup)
    whole = b"".join(DENSE_ENTRY.pack(*(lookup.exact(relative) or ())) for relative in range(9))
    assert lookup.entries(start, stop) == whole[start * 16 : stop * 16]


def test_a_shorter_index_file_than_promised_knows_less_and_says_so() -> None:
    lookup, _ = dense([40] * 3, 3)
    assert isinstance(lookup, DenseLookup)
    longer = DenseLookup(lookup._index, 9)
    assert longer.exact(2) is not None
    assert longer.exact(3) is None
    assert longer.floor(7) is None


def test_a_sparse_lookup_that_leads_behind_the_end_hides_no_record(workshop: Any) -> None:
    made = workshop.store([Record(1000, 0, None, b"first"), Record(1003, 0, None, b"second")], dense=False)
    lying = SparseLookup([(3, made.end), (4, made.end + 9)])
    reader = SegmentReader(made.store, lying, made.rules, next_offset=1010, size=made.end, marks=list)
    assert reader.read(1003).value == b"second"
    with pytest.raises(OffsetCompacted):
        reader.read(1005)


def test_a_forged_record_far_behind_damage_asks_for_no_more_entries_than_there_are_records(workshop: Any) -> None:
    made = workshop.store([Record(1000, 0, None, b"damaged"), Record(1000 + 2**32 - 2, 0, None, b"far")])
    made.store.pwrite(b"\xff", made.positions[0])
    assert dense_entries(made.store, made.rules, end=made.end, next_offset=1002) == bytes(32)


def test_an_index_that_lies_is_made_anew_once_whoever_meets_it(workshop: Any) -> None:
    made = workshop.store([Record(1000, 0, None, b"value")])
    calls = []

    def mend() -> DenseLookup:
        calls.append(1)
        time.sleep(0.1)
        return DenseLookup(None, 0, dense_entries(made.store, made.rules, end=made.end, next_offset=1001))

    lying = DenseLookup(None, 0, bytes(16))
    reader = SegmentReader(made.store, lying, made.rules, next_offset=1001, size=made.end, marks=list, mend=mend)
    threads = [threading.Thread(target=reader.read, args=(1000,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1
    assert reader.read(1000).value == b"value"
