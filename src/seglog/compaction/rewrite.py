"""One pass: from a plan to the segments that replace its sources. Reads the log's files, changes none.

Works in any process that sees the files, beside the log's writer and its readers. Every source record that affects the
result is verified before the pass ends: when its segment is copied, or, for a dirty segment that is not copied,
separately. A source with a damaged record is skipped, and the pass starts again without it: earlier records then do not
count as compared with the records in it or after it.
"""

from __future__ import annotations

import errno
import json
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seglog.compaction.copying import Desk, GroupCopy, verify
from seglog.compaction.output import Outputs, lookup_bytes
from seglog.compaction.plan import CompactionPlan, Measured, after_pass, group, is_rewritten, record_bytes
from seglog.compaction.rate_limit import Pace, Progress
from seglog.compaction.schedule import joint_decay, observed_decay
from seglog.compaction.superseded import Deaths, Search, pass_bytes
from seglog.compaction.window_reader import SourceReader
from seglog.errors import CorruptRecord, StorageError
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES
from seglog.parallel.ahead import Ahead
from seglog.storage import Storage


@dataclass(frozen=True, kw_only=True)
class Part:
    """What becomes of adjacent sources. sources: their file numbers; entries: what replaces them.

    staged: whether the entries are new segments, named relative to the output storage; else they are the sources with
    other figures.
    """

    sources: tuple[int, ...]
    entries: tuple[SegmentEntry, ...]
    staged: bool

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        entries = [json.loads(entry.line) for entry in self.entries]
        return {"sources": list(self.sources), "entries": entries, "staged": self.staged}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Part:
        """Read what `to_json` returned."""
        entries = tuple(SegmentEntry.from_values(dict(entry)) for entry in values["entries"])
        return cls(sources=tuple(values["sources"]), entries=entries, staged=values["staged"])


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """The result of a pass.

    Attributes:
        parts: In order; every source is in one of them.
        superseded: Records removed because a later one has their key.
        tombstones: Tombstones removed after their horizon.
        unkeyed: Records removed because they have no key.
        keys: Distinct keys of the dirty records.
        rounds: Ranges of keys that were processed.
        damaged: Errors of the sources that stay unchanged.
    """

    parts: tuple[Part, ...]
    superseded: int
    tombstones: int
    unkeyed: int
    keys: int
    rounds: int
    damaged: tuple[CorruptRecord, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a message to another process."""
        damaged = [[error.path, error.offset, error.position, error.reason] for error in self.damaged]
        counts = {name: getattr(self, name) for name in ("superseded", "tombstones", "unkeyed", "keys", "rounds")}
        return {**counts, "parts": [part.to_json() for part in self.parts], "damaged": damaged}

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Outcome:
        """Read what `to_json` returned."""
        parts = tuple(Part.from_json(part) for part in values["parts"])
        damaged = tuple(CorruptRecord(*fields) for fields in values["damaged"])
        return cls(**{**values, "parts": parts, "damaged": damaged})


def rewrite(
    plan: CompactionPlan,
    sources: Storage,
    output: Storage,
    *,
    progress: Progress | None = None,
    abort: Callable[[], bool] | None = None,
    bytes_per_second: float | None = None,
) -> Outcome:
    """Execute a plan: read its sources, write their replacements. After an error the caller clears `output`.

    Args:
        plan: The plan.
        sources: Storage of the log.
        output: An existing empty directory for this pass alone; it is synced when this returns.
        progress: Called with (bytes done, bytes in total).
        abort: Called often; True ends the pass.
        bytes_per_second: Limit for reading and writing together.

    Raises:
        CompactionAborted: If `abort` returned True.
        StorageError: If reading or writing fails; with ENOSPC, before anything is written, if there is too little
            space.
        CorruptLog: If a source is missing.
    """
    damaged: dict[str, CorruptRecord] = {}
    while True:
        left_out = (one.file for one in plan.sources if _path(sources, one) in damaged)
        sound = replace(plan, passed=plan.passed.union(left_out))
        total = 2 * pass_bytes(sound)  # to find what died, and to copy or verify
        pace = Pace(total, progress=progress, abort=abort, bytes_per_second=bytes_per_second)
        try:
            with Ahead() as ahead:
                return _Pass(plan, sound, sources, output, pace, ahead).run(tuple(damaged.values()))
        except CorruptRecord as error:
            damaged[error.path] = _first_damage(plan, sources, error, pace)
            for name in output.names():
                output.unlink(name)


def _path(storage: Storage, entry: SegmentEntry) -> str:
    return f"{storage.path}/{entry.name()}"


def _first_damage(plan: CompactionPlan, sources: Storage, error: CorruptRecord, pace: Pace) -> CorruptRecord:
    """Return the first damage of an error's source: keys are read unverified, so the error may be of a later one."""
    source = next(one for one in plan.sources if _path(sources, one) == error.path)
    try:
        verify(SourceReader(sources, source), pace)
    except CorruptRecord as first:
        return first
    return error


class _Pass:
    """One pass over the sources without known damage."""

    def __init__(
        self,
        plan: CompactionPlan,
        sound: CompactionPlan,
        sources: Storage,
        output: Storage,
        pace: Pace,
        ahead: Ahead,
    ) -> None:
        self._plan = plan
        self._sound = sound
        self._sources = sources
        self._output = output
        self._pace = pace
        self._ahead = ahead
        self._outputs = Outputs(plan, output, ahead.aside)
        self._desk = Desk(self._outputs, pace)
        self._believed = {source.file for source in sound.dirty}  # their keys are used and must be verified
        self._records = sum(source.records or 0 for source in plan.sources)
        unread = [source.base_offset for source in plan.dirty if source.file in sound.passed]
        self._cleaned_to = min(unread, default=plan.end)  # with what follows, not every record was compared

    def run(self, damaged: tuple[CorruptRecord, ...]) -> Outcome:
        """Find what died, then copy the live records of sources with deaths."""
        seed = secrets.randbits(64), secrets.randbits(64)
        search = Search(self._sources, self._sound, seed, self._pace, self._ahead, late=True)
        search.run()
        groups = self._groups(search.deaths)
        self._check_space(groups)
        parts = tuple(part for members in groups for part in self._parts(members, search))
        self._outputs.wait()
        self._output.sync_directory()
        return Outcome(
            parts=parts,
            superseded=search.toll.superseded,
            tombstones=search.toll.tombstones,
            unkeyed=search.toll.unkeyed,
            keys=search.keys,
            rounds=search.rounds,
            damaged=damaged,
        )

    def _groups(self, found: Sequence[Deaths]) -> list[list[Deaths]]:
        """Return the sources in groups that are copied together; a skipped one separates its neighbours."""
        deaths = {one.entry.file: one for one in found}
        groups: list[list[Deaths]] = []
        stretch: list[Measured] = []
        for source in (*self._plan.sources, None):
            if source is not None and source.file in deaths:
                stretch.append(deaths[source.file].measured)
                continue
            grouped = group(stretch, self._plan.config.segment_bytes)
            groups += [[deaths[one.entry.file] for one in members] for members in grouped]
            stretch = []
            if source is not None:
                groups.append([Deaths(source)])
        return groups

    def _check_space(self, groups: Sequence[Sequence[Deaths]]) -> None:
        """Raise ENOSPC if the estimated output does not fit."""
        interval, needed = self._plan.config.index_interval_bytes, 0
        for members in groups:
            if _is_copied(members):
                size = HEADER_BYTES + sum(_most_bytes(one) for one in members)
                needed += size + lookup_bytes(size, interval)
        free = self._output.free_bytes() if needed else 0
        if needed > free:
            message = f"a compaction would write {needed} bytes, {free} are free; free space or raise min_dirty_ratio"
            raise StorageError(errno.ENOSPC, message, self._output.path)

    def _parts(self, members: Sequence[Deaths], search: Search) -> Iterator[Part]:
        if _is_copied(members):
            yield self._copied(members, search)
            return
        for one in members:
            if one.entry.file in self._believed:
                verify(SourceReader(self._sources, one.entry), self._pace)
            else:
                self._pace.skip(record_bytes(one.entry))
            yield self._kept(one)

    def _kept(self, deaths: Deaths) -> Part:
        """Return the part of a source that stays."""
        entry = self._after(deaths.entry)
        if entry.file not in self._sound.passed:
            entry = replace(entry, decay=self._decay(deaths))
        return Part(sources=(entry.file,), entries=(entry,), staged=False)

    def _after(self, entry: SegmentEntry) -> SegmentEntry:
        """Return the entry of a source after the pass, before its dead records are removed."""
        return after_pass(entry, self._sound, self._cleaned_to)

    def _decay(self, deaths: Deaths) -> float | None:
        return observed_decay(deaths.entry, deaths.measured.live, self._cleaned_to, self._records)

    def _copied(self, members: Sequence[Deaths], search: Search) -> Part:
        after = [self._after(one.entry) for one in members]
        copy = GroupCopy(self._plan, after, self._desk)
        sources = [SourceReader(self._sources, one.entry) for one in members]
        copy.run([(source, one, search.pieces(one)) for source, one in zip(sources, members, strict=True)], self._ahead)
        decay = joint_decay((self._decay(one), one.measured.live) for one in members)
        entries = tuple(replace(entry, decay=decay) for entry in copy.sealed)
        return Part(sources=tuple(one.entry.file for one in members), entries=entries, staged=True)


def _most_bytes(deaths: Deaths) -> int:
    """Return the maximum bytes that a source may leave: all, if it was not looked up yet."""
    return deaths.measured.live_bytes if deaths.expected is None else record_bytes(deaths.entry)


def _is_copied(members: Sequence[Deaths]) -> bool:
    return is_rewritten([one.measured for one in members])
