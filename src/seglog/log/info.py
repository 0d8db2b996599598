"""Public figures of a log: of its segments, and of a compaction."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from seglog.errors import CorruptRecord
from seglog.format.manifest import SegmentEntry
from seglog.segment.reader import SegmentReader
from seglog.segment.stats import Tally


@dataclass(frozen=True, kw_only=True)
class SegmentInfo:
    """Figures of one segment.

    Attributes:
        base_offset: First offset it can hold.
        next_offset: First offset after it.
        bytes: Size of its store on the disk.
        records: Number of records.
        tombstones: Number of tombstones.
        min_timestamp: Lowest timestamp in microseconds; None without records.
        max_timestamp: Highest timestamp in microseconds; None without records.
        created: Creation time in microseconds.
        sealed_at: Time of sealing in microseconds; None for the active segment.
        dense: Whether its offsets have no gaps.
        name: File name of its store.
        codec: Codec of its store, "lz4" or "zstd"; None: it is plain.
        plain_bytes: Size of its store before compression.
    """

    base_offset: int
    next_offset: int
    bytes: int
    records: int
    tombstones: int
    min_timestamp: int | None
    max_timestamp: int | None
    created: int
    sealed_at: int | None
    dense: bool
    name: str
    codec: str | None = None
    plain_bytes: int = 0


def sealed_info(entry: SegmentEntry) -> SegmentInfo:
    """Return the figures of a sealed segment from its manifest entry."""
    return SegmentInfo(
        base_offset=entry.base_offset,
        next_offset=entry.next_offset or entry.base_offset,
        bytes=entry.disk_bytes,
        records=entry.records or 0,
        tombstones=entry.tombstones or 0,
        min_timestamp=entry.min_timestamp,
        max_timestamp=entry.max_timestamp,
        created=entry.created,
        sealed_at=entry.sealed_at,
        dense=entry.dense,
        name=entry.name(),
        codec=entry.codec if entry.compressed else None,
        plain_bytes=entry.bytes or 0,
    )


def active_info(entry: SegmentEntry, reader: SegmentReader, tally: Tally) -> SegmentInfo:
    """Return the present figures of the active segment."""
    return SegmentInfo(
        base_offset=entry.base_offset,
        next_offset=max(reader.next_offset, entry.base_offset),  # a poisoned log may end before it
        bytes=reader.size,
        records=tally.records,
        tombstones=tally.tombstones,
        min_timestamp=tally.min_timestamp,
        max_timestamp=tally.max_timestamp,
        created=entry.created,
        sealed_at=None,
        dense=entry.dense,
        name=entry.name(),
        codec=None,
        plain_bytes=reader.size,
    )


class SegmentInfos(Sequence[SegmentInfo]):
    """Figures of all segments at one moment, the active one last; each is made when it is asked for.

    So `len(log.segments)` and `log.segments[-1]` cost the same with any number of segments. Compares as a tuple.
    """

    __slots__ = ("_active", "_entries")

    def __init__(self, entries: Sequence[SegmentEntry], active: SegmentInfo) -> None:
        """entries: of all segments; active: the figures of the last one."""
        self._entries = entries
        self._active = active

    def __len__(self) -> int:
        return len(self._entries)

    @overload
    def __getitem__(self, number: int) -> SegmentInfo: ...
    @overload
    def __getitem__(self, number: slice) -> tuple[SegmentInfo, ...]: ...
    def __getitem__(self, number: int | slice) -> SegmentInfo | tuple[SegmentInfo, ...]:
        if isinstance(number, slice):
            return tuple(self[one] for one in range(*number.indices(len(self))))
        entry = self._entries[number]
        return self._active if entry is self._entries[-1] else sealed_info(entry)

    def __iter__(self) -> Iterator[SegmentInfo]:
        yield from map(sealed_info, self._entries[:-1])
        yield self._active

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (SegmentInfos, tuple)) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@dataclass(frozen=True, kw_only=True)
class CompressionReport:
    """The result of a pass that compresses the sealed segments of a log.

    Attributes:
        segments: Segments that were not stored as the config requires; of a pass with `max_bytes` those of that pass.
        rewritten: Segments that were written again; the others would not have become an eighth smaller.
        bytes_before: Bytes on the disk before the pass of the stores that are as the config requires now.
        bytes_after: Bytes of the same stores after it.
        damaged: One error for each segment left unchanged because a record in it does not verify.
    """

    segments: int
    rewritten: int
    bytes_before: int
    bytes_after: int
    damaged: tuple[CorruptRecord, ...] = ()


@dataclass(frozen=True, kw_only=True)
class CompactionReport:
    """The result of a compaction.

    Attributes:
        end: The cleanable end: records before this offset were considered.
        segments_before: Segments before `end`, before the compaction.
        segments_after: Segments before `end`, after it.
        records_before: Records in `segments_before`.
        records_after: Records in `segments_after`.
        bytes_before: Store bytes of `segments_before`.
        bytes_after: Store bytes of `segments_after`.
        superseded: Records removed because a later one has their key.
        tombstones: Tombstones removed because `delete_retention` has passed.
        unkeyed: Records removed because they have no key.
        rewritten: Segments that were copied.
        keys: Distinct keys among the records that had not been considered before.
        rounds: Passes over ranges of keys; more than one if the key map was full.
        damaged: One error for each segment left unchanged because a record in it does not verify.
    """

    end: int
    segments_before: int
    segments_after: int
    records_before: int
    records_after: int
    bytes_before: int
    bytes_after: int
    superseded: int = 0
    tombstones: int = 0
    unkeyed: int = 0
    rewritten: int = 0
    keys: int = 0
    rounds: int = 0
    damaged: tuple[CorruptRecord, ...] = ()
