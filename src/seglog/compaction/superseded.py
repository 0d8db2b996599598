"""Find the records that died: map the dirty keys, range by range, and record what they supersede, one bit per record.

A dirty record is found dead while its successor is mapped, a clean one when it is looked up: every clean record
precedes every dirty one, so it is superseded if its key is in the map at all.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seglog.compaction.keymap import KeyMap, Keys
from seglog.compaction.plan import CompactionPlan, Measured, has_due, is_over, record_bytes
from seglog.compaction.rate_limit import Pace
from seglog.compaction.schedule import expected_garbage, is_sure
from seglog.compaction.window_reader import ROWS, KeyReader, Run, SourceReader, Stretch, Window
from seglog.errors import CorruptRecord
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES
from seglog.kernels.keymap import set_bits
from seglog.kernels.keys import TOMBSTONE, UNKEYED
from seglog.parallel.ahead import Ahead
from seglog.storage import Storage

Array = np.ndarray[Any, Any]
NONE_DIED = np.empty(0, np.uint8)


@dataclass
class Toll:
    """Number of records that died, by cause."""

    superseded: int = 0
    tombstones: int = 0
    unkeyed: int = 0


class Deaths:
    """The records of one source that died.

    bits: one per record, least significant first; empty if none can have died. stretches: where its records begin, as
    found by reading it; empty if it was not read. expected: the share assumed dead of a source that is looked up only
    while it is copied; None: it was looked up.
    """

    def __init__(self, entry: SegmentEntry, bits: Array = NONE_DIED) -> None:
        self.entry = entry
        self.bits = bits
        self.stretches: list[Stretch] = []
        self.expected: float | None = None

    def add(self, first: int, dead: Array) -> int:
        """Record deaths (bool) among the records from number `first` on; return how many are new."""
        if not dead.any():
            return 0
        if not self.bits.size:
            self.bits = np.zeros(bit_bytes(self.entry), np.uint8)
        return int(set_bits(dead, first, self.bits))

    @property
    def measured(self) -> Measured:
        """The source's figures; the live bytes are estimated from the number of records."""
        records, dead = self.entry.records or 0, int(np.bitwise_count(self.bits).sum(dtype=np.int64))
        if self.expected is not None:
            dead = max(int(records * self.expected), 1)
        live_bytes = record_bytes(self.entry) * (records - dead) // max(records, 1)
        return Measured(entry=self.entry, live_bytes=live_bytes, dead=dead)


def bit_bytes(entry: SegmentEntry) -> int:
    """Return the size in bytes of one bit per record."""
    return ((entry.records or 0) + 7) // 8


class Piece(NamedTuple):
    """A stretch of a source to copy, with its bytes if they are in memory."""

    stretch: Stretch
    window: Window | None = None


class Search:
    """Finds the deaths of one pass. deaths: per source, in order; toll: of all; keys: mapped; rounds: ranges."""

    def __init__(
        self,
        storage: Storage,
        plan: CompactionPlan,
        seed: tuple[int, int],
        pace: Pace,
        ahead: Ahead,
        *,
        late: bool = False,
    ) -> None:
        """late: look up a clean source only while it is copied, if it is practically certain to be copied."""
        self.toll = Toll()
        self.keys = 0
        self.rounds = 0
        self._storage = storage
        self._plan = plan
        self._limits = plan.tombstone_limits
        self._pace = pace
        self._ahead = ahead
        self._reader = KeyReader(seed)
        self._known = np.empty(ROWS, np.bool_)
        self._late = late
        self._records = sum(source.records or 0 for source in plan.sources)
        dirty = plan.dirty
        records = sum(source.records or 0 for source in dirty)
        self._map = KeyMap(records, plan.config.retention.dedupe_bytes)
        self._bits = np.zeros(sum(bit_bytes(source) for source in dirty), np.uint8)  # of all dirty sources
        clean = plan.considered[: len(plan.considered) - len(dirty)]
        self._clean = [Deaths(source) for source in clean]
        self._dirty = list(self._shares(dirty))

    def _shares(self, dirty: tuple[SegmentEntry, ...]) -> Iterator[Deaths]:
        """Yield the dirty sources with their parts of the bits: whole bytes, so that a record's number is its bit."""
        start = 0
        for source in dirty:
            stop = start + bit_bytes(source)
            yield Deaths(source, self._bits[start:stop])
            start = stop

    @property
    def deaths(self) -> list[Deaths]:
        """The deaths of every source, in order."""
        return [*self._clean, *self._dirty]

    def run(self) -> None:
        """Process all ranges of keys. Raises CorruptRecord if a source cannot be read."""
        while True:
            byte = 0
            for deaths in self._dirty:
                for stretch, keys, _ in self._runs(deaths):
                    self._note_others(deaths, stretch.number, keys)
                    self.toll.superseded += self._map.add(keys, 8 * byte + stretch.number, self._bits)
                byte += deaths.bits.size
            for deaths in self._clean:
                if not self._is_left(deaths):
                    deque(self._looked_up(deaths), maxlen=0)
            self.keys += self._map.count
            self.rounds += 1
            if not self._map.next_range():
                return
            self._pace.total += pass_bytes(self._plan)

    def _is_left(self, deaths: Deaths) -> bool:
        """Whether a clean source is not looked up now: nothing can have died, or it is looked up while it is copied."""
        entry, plan = deaths.entry, self._plan
        alive = not self._map.count and not has_due(entry, plan.made_at, self._limits[entry.file])
        sure = not alive and self._late and self._map.whole and is_sure(entry, plan.end, self._records)
        if sure and self._dies(entry):
            deaths.expected = expected_garbage(entry, plan.end, self._records)
        left = alive or deaths.expected is not None
        if left:
            self._pace.skip(record_bytes(entry))
        return left

    def _dies(self, entry: SegmentEntry) -> bool:
        """Whether any of the first records of a clean source died."""
        first = next(self._reader.runs(SourceReader(self._storage, entry)), None)
        return first is not None and bool(self._map.holds(first.keys, self._known).any())

    def _looked_up(self, deaths: Deaths) -> Iterator[Piece]:
        """Yield the pieces of a clean source, each after its deaths are known."""
        for stretch, keys, window in self._runs(deaths):
            self.toll.superseded += deaths.add(stretch.number, self._map.holds(keys, self._known))
            self._note_others(deaths, stretch.number, keys)
            yield Piece(stretch, window)

    def pieces(self, deaths: Deaths) -> Iterator[Piece]:
        """Yield the pieces by which a source is copied; afterwards its deaths are known in any case."""
        if deaths.expected is not None:
            yield from self._looked_up(deaths)
            deaths.expected = None
            return
        for stretch in deaths.stretches or SourceReader(self._storage, deaths.entry).stretches():
            yield Piece(stretch)

    def _runs(self, deaths: Deaths) -> Iterator[Run]:
        """Yield every run of a source's records."""
        source, stretches = SourceReader(self._storage, deaths.entry), []
        for run in self._ahead.steps(self._reader.runs(source)):
            if run.stretch.number + run.keys.kinds.size > (deaths.entry.records or 0):
                raise CorruptRecord(source.path, None, HEADER_BYTES, "it holds more records than the manifest counts")
            stretches.append(run.stretch)
            yield run
            self._pace.step(run.stretch.end - run.stretch.position)
        deaths.stretches = stretches

    def _note_others(self, deaths: Deaths, number: int, keys: Keys) -> None:
        """Record the deaths that have another cause than a successor."""
        if self._plan.config.retention.needs_keys:
            self.toll.unkeyed += deaths.add(number, keys.kinds == UNKEYED)
        if deaths.entry.horizons:
            self.toll.tombstones += deaths.add(number, self._expired(deaths.entry, keys))

    def _expired(self, entry: SegmentEntry, keys: Keys) -> Array:
        """Return which records are tombstones whose horizon has passed."""
        ends = np.array([end for end, _ in entry.horizons], np.int64)
        due = np.array([is_over(horizon, self._plan.made_at) for _, horizon in entry.horizons] + [False])
        due_there = due[ends.searchsorted(keys.offsets, side="right")]
        expired: Array = (keys.kinds == TOMBSTONE) & due_there & (keys.offsets < self._limits[entry.file])
        return expired


def pass_bytes(plan: CompactionPlan) -> int:
    """Return how many bytes a pass reads for one range of keys."""
    return sum(record_bytes(source) for source in plan.considered)
