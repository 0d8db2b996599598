"""Missing offsets in a segment with gaps: removed by compaction, or lost after a record at too low a position."""

from __future__ import annotations

from typing import Any

import pytest

from seglog.errors import CorruptRecord, OffsetCompacted
from seglog.record import Record
from seglog.segment.lookup import SparseLookup
from seglog.segment.reader import SegmentReader

OFFSETS = [1000, 1003, 1005, 1009, 1012]


def reader_of(workshop: Any, order: list[int], known: list[int]) -> SegmentReader:
    """Read a store whose records stand in this order; the lookup knows the true places of some, all being as long."""
    made = workshop.store([Record(offset, offset, None, b"%d" % offset) for offset in order], dense=False)
    places = dict(zip(OFFSETS, made.positions, strict=False))
    lookup = SparseLookup([(offset - made.rules.base_offset, places[offset]) for offset in known])
    return SegmentReader(made.store, lookup, made.rules, next_offset=1013, size=made.end, marks=list)


KNOWN = pytest.mark.parametrize("known", [[], [1005], [1003, 1009], OFFSETS], ids=str)


@KNOWN
def test_what_compaction_took_is_told_from_what_is_lost(workshop: Any, known: list[int]) -> None:
    reader = reader_of(workshop, OFFSETS, known)
    assert [record.offset for record in reader.scan(1000, 1013)] == OFFSETS
    assert [record.offset for record in reader.scan(1001, 1009)] == [1003, 1005]
    for offset in set(range(1000, 1013)) - set(OFFSETS):
        with pytest.raises(OffsetCompacted):
            reader.read(offset)
        assert list(reader.scan(offset, offset + 1)) == []
        assert reader.offset_at(offset) == min(one for one in OFFSETS if one > offset)


@KNOWN
def test_a_record_that_was_moved_before_its_place_makes_no_gap(workshop: Any, known: list[int]) -> None:
    reader = reader_of(workshop, [1000, 1009, 1005, 1003, 1012], known)
    assert [reader.read(offset).offset for offset in OFFSETS] == OFFSETS, "each is there"
    for start, stop in ((1000, 1013), (1003, 1004), (1001, 1006)):
        with pytest.raises(CorruptRecord):
            list(reader.scan(start, stop))
    with pytest.raises(CorruptRecord):
        reader.offset_at(1004)


@KNOWN
def test_a_copy_over_the_records_before_it_does_not_pass_for_compaction(workshop: Any, known: list[int]) -> None:
    reader = reader_of(workshop, [1000, 1009, 1009, 1009, 1012], known)
    for offset in (1003, 1005):
        with pytest.raises(CorruptRecord):
            reader.read(offset)
        with pytest.raises(CorruptRecord):
            list(reader.scan(offset, offset + 1))


@pytest.mark.parametrize("lie", [(1001, 1005), (1004, 1009), (1000, 1012)], ids=str)
@pytest.mark.parametrize("rest", [[], [1012], [1009, 1012]], ids=str)
def test_a_lookup_that_leads_behind_records_hides_none(workshop: Any, lie: tuple[int, int], rest: list[int]) -> None:
    told, place = lie
    made = workshop.store([Record(offset, offset, None, b"%d" % offset) for offset in OFFSETS], dense=False)
    at = dict(zip(OFFSETS, made.positions, strict=True))
    pairs = [(told - 1000, at[place]), *((offset - 1000, at[offset]) for offset in rest if offset > place)]
    reader = SegmentReader(made.store, SparseLookup(pairs), made.rules, next_offset=1013, size=made.end, marks=list)
    assert [reader.read(offset).offset for offset in OFFSETS] == OFFSETS
    for start in range(1000, 1013):
        assert [record.offset for record in reader.scan(start, 1013)] == [one for one in OFFSETS if one >= start]
