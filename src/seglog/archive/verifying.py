"""Verify stores on their way into an archive and out of it: every byte against the manifest's entry."""

from __future__ import annotations

from dataclasses import replace

from xxhash import xxh64

from seglog.errors import CorruptRecord
from seglog.format.index import MarkBuilder
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.segment.sealed import rules_of
from seglog.segment.stats import Tally, survey
from seglog.storage import File

NO_MARKS = 2**31


def check_sealed(store: File, entry: SegmentEntry) -> None:
    """Check a sealed segment's store. Raises CorruptRecord if it is not what the entry describes."""
    _check_header(store, entry)
    end, digest, records = entry.bytes or HEADER_BYTES, xxh64(), 0
    position, expected, reason = HEADER_BYTES, entry.base_offset, None
    for block in survey(
        store, rules_of(entry), position=position, end=end, expected=expected, marks=MarkBuilder(NO_MARKS)
    ):
        digest.update(block.entries)
        records += block.records
        position, expected, reason = block.position, block.next_offset, block.reason
    if reason is not None or position != end:
        raise CorruptRecord(store.path, expected, position, reason or "the store ends before it")
    if records != entry.records or (entry.digest is not None and digest.intdigest() != entry.digest):
        raise CorruptRecord(store.path, None, HEADER_BYTES, "its records are not those that the manifest names")


def sealed_tail(
    store: File, active: SegmentEntry, *, end: int, next_offset: int, interval: int, now: int
) -> SegmentEntry:
    """Check the archived part of an active segment, and return it as a sealed one. Raises CorruptRecord.

    end: position in the store; next_offset: offset after it; interval: of the log's index; now: us.
    """
    _check_header(store, active)
    tally, digest = Tally(interval), xxh64()
    position, expected, reason = HEADER_BYTES, active.base_offset, None
    for block in survey(store, rules_of(active), position=position, end=end, expected=expected, marks=tally.marks):
        tally.absorb(block)
        digest.update(block.entries)
        position, expected, reason = block.position, block.next_offset, block.reason
    wrong_end = expected != next_offset if active.dense else expected > next_offset
    if reason is not None or position != end or wrong_end:
        raise CorruptRecord(store.path, expected, position, reason or "the store ends before it")
    return replace(
        active,
        next_offset=next_offset,
        bytes=end,
        records=tally.records,
        tombstones=tally.tombstones,
        min_timestamp=tally.min_timestamp,
        max_timestamp=tally.max_timestamp,
        sealed_at=now,
        digest=digest.intdigest(),
    )


def _check_header(store: File, entry: SegmentEntry) -> None:
    header = decode_header(store.pread(HEADER_BYTES, 0), store.path)
    if header is None or header.salt != entry.salt or header.blocks != entry.compressed:
        raise CorruptRecord(store.path, None, 0, "the store's header is damaged, or this is another store")
