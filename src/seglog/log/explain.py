"""Explaining a record: why it is still in the log, or why it is not. Gathers the facts; `reasons` judges them.

Reads the segments behind a record for a later one of its key, so that an answer may cost a walk through the log.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import Literal

from seglog.errors import OffsetCompacted
from seglog.log.later import Found, KeyFinder
from seglog.log.reasons import WAITING, Because, Facts, Situation, Verdict, What, verdict, why_missing
from seglog.log.view import View
from seglog.record import Record


@dataclass(frozen=True, kw_only=True)
class SegmentPlace:
    """The segment an offset falls to. name: its store's file name; state: see keyed.schedule.SegmentStanding; "sealed"
    where the log is not compacted by key.
    """

    base_offset: int
    name: str
    state: Literal["active", "sealed", "fresh", "dirty", "clean"]


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """Why a record is in the log, or not. key: its key; what: what it is; because: what holds it, or took it away.

    segment: where it stands, or stood; None outside the log. until: when (us) time alone lets go of it or changes the
    reason, None where something else has to happen. superseded_by: the offset of a later record of its key.
    next_offset: of one that is gone: the next record. text: all that for people, in a sentence or two.
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
        """Return why a record is there, or not; CorruptRecord where it does not verify."""
        number = bisect_right(self._view.bases, offset) - 1
        record = self._record(offset) if self._view.lowest_offset <= offset < self._log.end else None
        if record is None:
            return self._missing(offset)
        facts = Facts(self._log, number, offset, record.key, record.value is None)
        if self._keyed and record.key is not None:
            later = self._finder.later(record.key, self._compared_from(number, offset), number)
            facts = replace(facts, later=later)
        found = verdict(facts)
        if found.because in (*WAITING, "no clock yet"):  # unless its segment is one that a compaction leaves alone
            facts = replace(facts, damage=self._finder.damage(number))
            found = verdict(facts)
        return self._told(facts, found)

    def explain_key(self, key: bytes) -> tuple[Explanation, ...]:
        """Return the same for every record of a key, the oldest first."""
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
        """Return from where on a later record of the key may stand: with those before, a compaction has compared it."""
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
        number = bisect_right(self._view.bases, offset) - 1 if inside else -1
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
        return SegmentPlace(base_offset=entry.base_offset, name=entry.name(), state=state)
