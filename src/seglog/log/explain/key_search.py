"""Find the records of a key: compare the keys of whole segments, verifying every record. Decides nothing.

A damaged segment is read around its damage, which is reported, because compaction leaves such a segment unchanged.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from seglog.errors import CorruptRecord, InvalidArgument
from seglog.log.view import View
from seglog.segment.reader import SegmentReader


class Occurrences(NamedTuple):
    """The records of one key in one segment.

    number: of the segment in the manifest; offsets: in order; tombstones: the offsets of tombstones among them; damage:
    the first one in the segment.
    """

    number: int
    offsets: list[int]
    tombstones: frozenset[int]
    damage: CorruptRecord | None


class Later(NamedTuple):
    """What supersedes a record.

    counted: the latest record of its key that a compaction would compare it with; uncounted: if there is none, the
    first later one; number: the segment of either; damage: the first one found during the search.
    """

    counted: int | None = None
    uncounted: int | None = None
    number: int = -1
    damage: CorruptRecord | None = None

    @property
    def offset(self) -> int | None:
        """The offset of a later record of the key; None if there is none."""
        return self.uncounted if self.counted is None else self.counted


class Found:
    """The records of one key in some segments, in order. cleanable: number of segments that a compaction may read."""

    def __init__(self, segments: Sequence[Occurrences], cleanable: int) -> None:
        self._records = [(offset, one.number) for one in segments for offset in one.offsets]
        self._damages = [(one.number, one.damage) for one in segments if one.damage is not None]
        sound = [one for one in segments if one.offsets and one.number < cleanable and one.damage is None]
        self._counted = (sound[-1].offsets[-1], sound[-1].number) if sound else (-1, -1)

    def later(self, start: int, number: int) -> Later:
        """Return what supersedes a record of segment `number`, among the records from `start` on."""
        damage = next((error for at, error in self._damages if at >= number), None)
        if self._counted[0] >= start:
            return Later(counted=self._counted[0], number=self._counted[1], damage=damage)
        place = bisect_left(self._records, (start, -1))
        if place == len(self._records):
            return Later(damage=damage)
        return Later(uncounted=self._records[place][0], number=self._records[place][1], damage=damage)


class KeyFinder:
    """Finds the records of keys in one view."""

    def __init__(self, view: View, cleanable: int) -> None:
        """cleanable: see Found."""
        self._view = view
        self._cleanable = cleanable
        entries = view.manifest.segments[:-1]
        self._ends = [*(entry.next_offset or entry.base_offset for entry in entries), view.next_offset]

    def later(self, key: bytes, start: int, number: int) -> Later:
        """Return what supersedes a record of segment `number`, among the records from `start` on.

        Searches first what a compaction compares, from the newest segment back.
        """
        behind = [number for number, end in enumerate(self._ends) if end > start]
        counting = [number for number in reversed(behind) if number < self._cleanable]
        segments: list[Occurrences] = []
        for one in (*counting, *(number for number in behind if number >= self._cleanable)):
            segments.append(self._occurrences(one, key, start))
            if segments[-1].offsets and segments[-1].damage is None:
                break
        return Found(sorted(segments), self._cleanable).later(start, number)

    def everywhere(self, key: bytes) -> list[Occurrences]:
        """Return the key's records in all segments, the oldest first."""
        return [self._occurrences(number, key, self._view.lowest_offset) for number in range(len(self._ends))]

    def damage(self, number: int) -> CorruptRecord | None:
        """Return the first damage of a segment."""
        return self._occurrences(number, b"", 0).damage

    def _occurrences(self, number: int, key: bytes, start: int) -> Occurrences:
        """Return the key's records from `start` on in one segment."""
        start, stop = max(start, self._view.manifest.segments[number].base_offset), self._ends[number]
        if start >= stop:
            return Occurrences(number, [], frozenset(), None)
        try:
            return Occurrences(number, *self._matches(key, start, stop), None)
        except (CorruptRecord, InvalidArgument):  # damaged, or too long for Arrow
            errors: list[CorruptRecord] = []
            scanned = self._reader(number).scan(start, stop, errors.append)
            found = [(record.offset, record.value is None) for record in scanned if record.key == key]
            tombstones = frozenset(offset for offset, tombstone in found if tombstone)
            return Occurrences(number, [offset for offset, _ in found], tombstones, errors[0] if errors else None)

    def _matches(self, key: bytes, start: int, stop: int) -> tuple[list[int], frozenset[int]]:
        offsets: list[int] = []
        tombstones: list[int] = []
        for batch in self._view.batches(start, stop):
            same = pc.equal(batch.column("key").cast(pa.binary()), pa.scalar(key, pa.binary()))
            at = batch.column("offset").filter(same)
            offsets += at.to_pylist()
            tombstones += at.filter(batch.column("value").is_null().filter(same)).to_pylist()
        return offsets, frozenset(tombstones)

    def _reader(self, number: int) -> SegmentReader:
        view, segments = self._view, self._view.manifest.segments
        return view.active if number == len(segments) - 1 else view.cache.get(segments[number])
