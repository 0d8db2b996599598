"""What a compaction will do, decided before anything is read: pure functions of segment entries, config and time.

The model is Kafka's proposal "Integrating keyed messages into Kafka" (a clean tail, a dirty head, recopying), with the
clean end kept per segment: `cleaned_to`. Knows neither files nor logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from seglog.config import LogConfig
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES

MICROSECONDS = 1_000_000

Runs = tuple[tuple[int, int], ...]
"""Tombstone horizons: (end offset, us), ordered; see SegmentEntry."""


@dataclass(frozen=True, kw_only=True)
class CompactionPlan:
    """A pass over the oldest sealed segments of one log. Plain values: it can be sent to another process.

    sources: consecutive sealed entries, the log's first ones, up to the cleanable end. dirty_from: records from this
    offset on were not considered yet. made_at, in us, is the pass's time. version, epoch: the manifest's; what counts
    when the outcome is swapped in is that the sources are still the log's.
    """

    log_id: int
    epoch: int
    version: int
    made_at: int
    dirty_from: int
    sources: tuple[SegmentEntry, ...]
    config: LogConfig

    @property
    def end(self) -> int:
        """The cleanable end: one behind the last offset considered."""
        return self.sources[-1].next_offset or 0 if self.sources else self.dirty_from

    @property
    def dirty(self) -> tuple[SegmentEntry, ...]:
        """The sources whose keys have to be mapped."""
        return tuple(source for source in self.sources if (source.next_offset or 0) > self.dirty_from)

    @property
    def dirty_bytes(self) -> int:
        """Bytes of store not considered yet."""
        return sum(source.bytes or 0 for source in self.dirty)

    @property
    def dirty_ratio(self) -> float:
        """Dirty bytes / all bytes that can be compacted, 0 where there are none."""
        return self.dirty_bytes / max(sum(source.bytes or 0 for source in self.sources), 1)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do: every key was considered, and no tombstone's time has come."""
        return not self.dirty and not any(has_due(source, self.made_at) for source in self.sources)

    @property
    def delete_retention_us(self) -> int:
        """How long a tombstone outlives its first compaction."""
        return round(float(self.config.retention.delete_retention) * MICROSECONDS)  # type: ignore[arg-type] # settled to float

    def to_json(self) -> dict[str, Any]:
        """Return plain values, for a message to another process."""
        return {
            "log_id": self.log_id,
            "epoch": self.epoch,
            "version": self.version,
            "made_at": self.made_at,
            "dirty_from": self.dirty_from,
            "sources": [json.loads(source.line) for source in self.sources],
            "config": self.config.to_json(),
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CompactionPlan:
        """Read what `to_json` gave."""
        sources = tuple(SegmentEntry.from_values(dict(source)) for source in values["sources"])
        return cls(**{**values, "sources": sources, "config": LogConfig.from_json(values["config"])})


def record_bytes(entry: SegmentEntry) -> int:
    """Return the bytes of a sealed segment's records."""
    return max((entry.bytes or 0) - HEADER_BYTES, 0)


def make_plan(manifest: Manifest, now: int, *, durable: int | None = None) -> CompactionPlan:
    """Return the plan for a log at time `now` (us).

    durable: no segment with an offset at or behind it is touched; None: what is sealed is durable, as a roll sees to.
    """
    sources = cleanable(manifest.segments[:-1], manifest.config, now, durable)
    return CompactionPlan(
        log_id=manifest.log_id,
        epoch=manifest.epoch,
        version=manifest.version,
        made_at=now,
        dirty_from=min((source.cleaned_to or source.base_offset for source in sources), default=manifest.start),
        sources=sources,
        config=manifest.config,
    )


def cleanable(
    sealed: Iterable[SegmentEntry], config: LogConfig, now: int, durable: int | None = None
) -> tuple[SegmentEntry, ...]:
    """Return the sealed segments up to the first that is not durable, or was sealed less than the minimum lag ago."""
    lag = round(float(config.retention.min_compaction_lag) * MICROSECONDS)  # type: ignore[arg-type] # settled to float
    chosen: list[SegmentEntry] = []
    for entry in sealed:
        # A segment that was sealed while the clock was ahead holds up nothing.
        fresh = entry.sealed_at is not None and 0 <= now - entry.sealed_at < lag
        if fresh or (durable is not None and (entry.next_offset or 0) > durable):
            break
        chosen.append(entry)
    return tuple(chosen)


# --- tombstones -----------------------------------------------------------------------------------------------------


def has_due(entry: SegmentEntry, now: int) -> bool:
    """Whether a segment may hold tombstones whose time has come."""
    return bool(entry.tombstones) and any(horizon <= now for _, horizon in entry.horizons)


def next_horizon(entries: Iterable[SegmentEntry]) -> int | None:
    """Return when (us) the next tombstones may go, None where none waits: what a timer has to be set to."""
    waiting = [horizon for entry in entries if entry.tombstones for _, horizon in entry.horizons]
    return min(waiting, default=None)


def runs_after(entry: SegmentEntry, now: int, delete_retention: int) -> Runs:
    """Return a segment's runs after a pass that saw all of it at `now`.

    The due ones have lost their tombstones, so their range falls to the run behind them; tombstones that had no time
    yet get theirs: the clock starts at the first compaction that sees them.
    """
    end = entry.next_offset or entry.base_offset
    waiting = [(min(stop, end), horizon) for stop, horizon in entry.horizons]
    covered = waiting[-1][0] if waiting else entry.base_offset
    kept = [(stop, horizon) for stop, horizon in waiting if horizon > now]
    return joined([*kept, (end, now + delete_retention)] if covered < end or not kept else kept)


def joined(runs: Iterable[tuple[int, int]]) -> Runs:
    """Return runs in order with neighbours of one time made one."""
    found: list[tuple[int, int]] = []
    for stop, horizon in runs:
        if found and found[-1][1] == horizon:
            found.pop()
        found.append((stop, horizon))
    return tuple(found)


def runs_between(runs: Iterable[tuple[int, int]], start: int, stop: int) -> Runs:
    """Return the runs as far as they cover start..stop."""
    inside: list[tuple[int, int]] = []
    for end, horizon in runs:
        if end > start:
            inside.append((min(end, stop), horizon))
        if end >= stop:
            break
    return tuple(inside)


# --- what is rewritten together -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A source and what of it lives. live_bytes: of its records; dead: how many records are to go."""

    entry: SegmentEntry
    live_bytes: int
    dead: int


def group(measured: Sequence[Measured], segment_bytes: int) -> list[list[Measured]]:
    """Return neighbours that become one run of outputs; a group of one in which nothing died stays as it is.

    A segment in which nothing died is taken along only where it fills at most half a segment, so that what has grown
    is not copied again for each small neighbour.
    """
    groups: list[list[Measured]] = []
    size = 0
    for one in measured:
        alone = one.dead == 0 and 2 * one.live_bytes > segment_bytes
        if alone or not groups or size < 0 or size + one.live_bytes > segment_bytes:
            groups.append([])
            size = 0
        groups[-1].append(one)
        size = -1 if alone else size + one.live_bytes
    return groups


def is_rewritten(members: Sequence[Measured]) -> bool:
    """Whether a group is copied at all."""
    return len(members) > 1 or members[0].dead > 0


def after_pass(entry: SegmentEntry, plan: CompactionPlan, cleaned_to: int) -> SegmentEntry:
    """Return a source's entry as it stands after a pass that considered every record before `cleaned_to`."""
    if cleaned_to <= entry.base_offset:  # behind a damaged segment: nobody knows all that came before
        return entry
    runs = runs_after(entry, plan.made_at, plan.delete_retention_us) if entry.tombstones else ()
    return replace(
        entry,
        cleaned_to=max(entry.cleaned_to or 0, cleaned_to),  # damage found since makes nothing unclean again
        superseded_to=None if entry.dense else entry.taken_for,  # what was unknown stays so, though cleaned_to is set
        horizons=runs,
    )
