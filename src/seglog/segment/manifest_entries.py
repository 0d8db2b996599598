"""The effect of a truncate on segments: one ends before the end of its store, others were compared with less."""

from __future__ import annotations

from dataclasses import replace

from xxhash import xxh64

from seglog.format.manifest import SegmentEntry
from seglog.segment.lookup import DenseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.stats import Tally, survey


def cut_entry(entry: SegmentEntry, reader: SegmentReader, offset: int, now: int) -> SegmentEntry:
    """Return an entry without the records at or after `offset`; the files stay unchanged.

    If a damaged record precedes the cut, the figures after it are those of the segment before.
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
    """Return the entry of a segment whose log now ends at `offset`: no later record counts as compared with it.

    Those offsets will be assigned again, to records that this segment was not compared with. What was removed from it
    because of records that are cut off now stays removed.
    """
    if entry.cleaned_to is None or entry.cleaned_to <= offset:
        return entry
    return replace(entry, cleaned_to=offset, superseded_to=None if entry.dense else entry.taken_for)
