"""What a truncate leaves of segments: the one it cuts ends earlier than its store, others were compared with less."""

from __future__ import annotations

from dataclasses import replace

from xxhash import xxh64

from seglog.format.manifest import SegmentEntry
from seglog.segment.lookup import DenseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.survey import Tally, survey


def cut_entry(entry: SegmentEntry, reader: SegmentReader, offset: int, now: int) -> SegmentEntry:
    """Return the entry of `entry` with every record at or behind `offset` left out; its files stay as they are.

    Where a damaged record stands before the cut, figures behind it are those of the segment as it was.
    """
    position, _ = reader.seek(offset)
    tally, reason = Tally(4096), None
    digest = xxh64()
    for block in survey(
        reader.store,
        reader.rules,
        position=reader.rules.codec.header_bytes,
        end=position,
        expected=entry.base_offset,
        marks=tally.marks,
    ):
        tally.absorb(block)
        digest.update(block.entries)
        reason = block.reason
    if reason is not None:
        tally.pass_damage()
    if reason is not None and isinstance(reader.lookup, DenseLookup):
        digest = xxh64(reader.lookup.entries(0, offset - entry.base_offset))
    return replace(
        entry,
        next_offset=offset,
        bytes=position,
        records=tally.records,
        tombstones=tally.tombstones,
        min_timestamp=tally.min_timestamp,
        max_timestamp=tally.max_timestamp,
        sealed_at=now if entry.sealed_at is None else entry.sealed_at,
        digest=digest.intdigest(),
    )


def compared_before(entry: SegmentEntry, offset: int) -> SegmentEntry:
    """Return the entry of a segment whose log ends at `offset` now: nothing behind counts as compared with it any more.

    Those offsets will be given again, to records of which this segment knows nothing. What was taken from it because of
    the records that are cut off is gone all the same.
    """
    if entry.cleaned_to is None or entry.cleaned_to <= offset:
        return entry
    return replace(entry, cleaned_to=offset, superseded_to=None if entry.dense else entry.taken_for)
