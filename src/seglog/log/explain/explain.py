"""Explain why a record is still in the log, or why it is not. Collects the facts; `reasons` judges them.

Searches the following segments for a later record of the same key, so one answer may read the whole log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from seglog.errors import OffsetCompacted
from seglog.log.explain.key_search import Found, KeyFinder
from seglog.log.explain.verdicts import WAITING, Because, Facts, Situation, Verdict, What, verdict, why_missing
from seglog.log.view import View
from seglog.record import Record


@dataclass(frozen=True, kw_only=True)
class SegmentPlace:
    """The segment that holds an offset.

    Attributes:
        base_offset: Its first offset.
        name: File name of its store.
        state: See keyed.schedule.SegmentStanding; "sealed" if the log is not compacted by key.
        codec: Codec of its store, "lz4" or "zstd"; None: it is plain.
        times_smaller: How many times smaller than its plain bytes the store is; 1.0 if it is plain.
    """

    base_offset: int
    name: str
    state: Literal["active", "sealed", "fresh", "dirty", "clean"]
    codec: str | None = None
    times_smaller: float = 1.0

    @property
    def text(self) -> str:
        """The segment in words: "clean segment 00000000000000000000-4.store (zstd, 4.8 times smaller)"."""
        stored = "" if self.codec is None else f" ({self.codec}, {self.times_smaller:.1f} times smaller)"
        return f"{self.state} segment {self.name}{stored}"


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a record is in the log, or is not.

    Attributes:
        offset: Offset of the record.
        key: Its key.
        what: What it is.
        because: Why it is kept, or why it was removed.
        text: All of this in one or two sentences.
        until: Time (us) at which the record is removed or the reason changes without any other event; None if another
            event is needed.
        segment: The segment that holds, or held, the offset; None outside of the log.
        superseded_by: Offset of a later record of the same key.
        next_offset: For a removed record, the offset of the next record.
    """

    offset: int
    key: bytes | None
    what: What
    because: Because
    text: str
    until: int | None = None
    segment: SegmentPlace | None = None
    superseded_by: int | None = None
    next_offset: int | None = None


class Explainer:
    """Explains the records of one log at one moment."""

    def __init__(self, view: View, log: Situation) -> None:
        self._view = view
        self._log = log
        self._keyed = log.manifest.config.retention.compact
        self._finder = KeyFinder(view, len(log.sources) if self._keyed else 0)

    def explain(self, offset: int) -> Explanation:
        """Explain one offset. Raises CorruptRecord if the record does not verify."""
        number = self._view.manifest.segments.find(offset)
        record = self._record(offset) if self._view.lowest_offset <= offset < self._log.end else None
        if record is None:
            return self._missing(offset)
        facts = Facts(self._log, number, offset, record.key, record.value is None)
        if self._keyed and record.key is not None:
            later = self._finder.later(record.key, self._compared_from(number, offset), number)
            facts = replace(facts, later=later)
        found = verdict(facts)
        if found.because in (*WAITING, "no clock yet"):  # unless compaction skips its segment because of damage
            facts = replace(facts, damage=self._finder.damage(number))
            found = verdict(facts)
        return self._told(facts, found)

    def explain_key(self, key: bytes) -> tuple[Explanation, ...]:
        """Explain every record of a key, the oldest first."""
        segments = self._finder.everywhere(key)
        found = Found(segments, len(self._log.sources))
        told = []
        for one in segments:
            for offset in one.offsets:
                later = found.later(self._compared_from(one.number, offset), one.number)
                facts = Facts(self._log, one.number, offset, key, offset in one.tombstones, later, one.damage)
                told.append(self._told(facts, verdict(facts)))
        return tuple(told)

    def _compared_from(self, number: int, offset: int) -> int:
        """Return where to start the search for a later record of the key: compaction has compared those before."""
        return max(offset + 1, self._log.manifest.segments[number].cleaned_to or 0)

    def _record(self, offset: int) -> Record | None:
        reader = self._view.reader_of(offset)
        try:
            return reader.read(offset) if offset < reader.next_offset else None
        except OffsetCompacted:
            return None

    def _missing(self, offset: int) -> Explanation:
        inside = self._view.lowest_offset <= offset < self._log.end
        following = self._view.next_record(offset) if inside else self._log.end
        found = why_missing(self._log, offset, following)
        number = self._view.manifest.segments.find(offset) if inside else -1
        return Explanation(
            offset=offset,
            key=None,
            **found._asdict(),
            segment=None if number < 0 else self._place(number),
            next_offset=following if inside else None,
        )

    def _told(self, facts: Facts, found: Verdict) -> Explanation:
        return Explanation(
            offset=facts.offset,
            key=facts.key,
            **found._asdict(),
            segment=self._place(facts.number),
            superseded_by=facts.later.offset if self._keyed else None,
        )

    def _place(self, number: int) -> SegmentPlace:
        entry = self._view.manifest.segments[number]
        state = self._log.standing.segments[number].state if self._keyed or not entry.sealed else "sealed"
        return SegmentPlace(
            base_offset=entry.base_offset,
            name=entry.name(),
            state=state,
            codec=None if entry.stored is None else entry.codec,
            times_smaller=(entry.bytes or 0) / max(entry.disk_bytes, 1) if entry.stored is not None else 1.0,
        )
