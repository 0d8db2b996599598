"""What a compaction will do, decided before anything is read: pure functions of segment entries, config and time.

The model is Kafka's proposal "Integrating keyed messages into Kafka" (a clean tail, a dirty head, recopying), with the
clean end kept per segment: `cleaned_to`. Knows neither files nor logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from seglog.config import LogConfig
from seglog.errors import InvalidArgument
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES

NEVER = 2**63 - 1  # as a horizon: the run holds no tombstones any more

Runs = tuple[tuple[int, int], ...]
"""Tombstone horizons: (end offset, us), ordered; see SegmentEntry."""


@dataclass(frozen=True, kw_only=True)
class CompactionPlan:
    """A pass over the oldest sealed segments of one log. Plain values: it can be sent to another process.

    sources: consecutive sealed entries, the log's first ones, up to the cleanable end. passed: file numbers of those
    that stay as they are. dirty_from: the keys of the others are compared with the records from this offset on.
    pinned: tombstones from this offset on stay. made_at, in us, is the pass's time. version, epoch: the manifest's;
    what counts when the outcome is swapped in is that the sources are still the log's.
    """

    log_id: int
    epoch: int
    version: int
    made_at: int
    dirty_from: int
    sources: tuple[SegmentEntry, ...]
    config: LogConfig
    passed: frozenset[int] = frozenset()
    pinned: int = NEVER

    @property
    def end(self) -> int:
        """The cleanable end: one behind the last offset considered."""
        return self.sources[-1].next_offset or 0 if self.sources else self.dirty_from

    @cached_property
    def considered(self) -> tuple[SegmentEntry, ...]:
        """The sources that are not passed over."""
        return tuple(source for source in self.sources if source.file not in self.passed)

    @cached_property
    def dirty(self) -> tuple[SegmentEntry, ...]:
        """The sources whose keys have to be mapped: all others stand before them."""
        return tuple(source for source in self.considered if (source.next_offset or 0) > self.dirty_from)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do: every key was considered, and no tombstone's time has come."""
        limits = self.tombstone_limits
        due = (has_due(source, self.made_at, limits[source.file]) for source in self.considered)
        return not self.dirty and not any(due)

    @cached_property
    def tombstone_limits(self) -> dict[int, int]:
        """For every source, by its file number: a tombstone there may go if its offset is less.

        Else a pinned consumer has not passed it, or what it deletes may still stand in an older segment that this pass
        does not look at, and would come to life again.
        """
        limits: dict[int, int] = {}
        limit = self.pinned
        for source in self.sources:
            limits[source.file] = limit
            if source.file in self.passed:
                limit = min(limit, considered_to(source))
        return limits

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
            "passed": sorted(self.passed),
            "pinned": self.pinned,
        }

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> CompactionPlan:
        """Read what `to_json` gave."""
        sources = tuple(SegmentEntry.from_values(dict(source)) for source in values["sources"])
        config, passed = LogConfig.from_json(values["config"]), frozenset(values["passed"])
        return cls(**{**values, "sources": sources, "config": config, "passed": passed})


def record_bytes(entry: SegmentEntry) -> int:
    """Return the bytes of a sealed segment's records."""
    return max((entry.bytes or 0) - HEADER_BYTES, 0)


def considered_to(entry: SegmentEntry) -> int:
    """Return up to where (exclusive) later records were compared with those of a segment; its base: none were."""
    return entry.cleaned_to or entry.base_offset


def make_plan(
    manifest: Manifest,
    now: int,
    *,
    durable: int | None = None,
    pinned: int = NEVER,
    passed: frozenset[int] = frozenset(),
) -> CompactionPlan:
    """Return the plan for a log at time `now` (us).

    durable: no segment with an offset at or behind it is touched; None: what is sealed is durable, as a roll sees to.
    pinned: the least offset that a registered follower reads next. passed: segments to pass over; see keyed.schedule.
    """
    sources = cleanable(manifest.segments[:-1], manifest.config, now, durable)
    compared = [considered_to(source) for source in sources if source.file not in passed]
    dirty_from = min(compared, default=(sources[-1].next_offset or 0) if sources else manifest.start)
    if any(source.file in passed and (source.next_offset or 0) > dirty_from for source in sources):
        raise InvalidArgument(f"no segment with offsets from {dirty_from} on may be passed over: its keys are compared")
    return CompactionPlan(
        log_id=manifest.log_id,
        epoch=manifest.epoch,
        version=manifest.version,
        made_at=now,
        dirty_from=dirty_from,
        sources=sources,
        config=manifest.config,
        passed=passed,
        pinned=pinned,
    )


def cleanable(
    sealed: Iterable[SegmentEntry], config: LogConfig, now: int, durable: int | None = None
) -> tuple[SegmentEntry, ...]:
    """Return the sealed segments up to the first that is not durable, or was sealed less than the minimum lag ago."""
    chosen: list[SegmentEntry] = []
    for entry in sealed:
        if is_fresh(entry, config, now) or (durable is not None and (entry.next_offset or 0) > durable):
            break
        chosen.append(entry)
    return tuple(chosen)


def is_fresh(entry: SegmentEntry, config: LogConfig, now: int) -> bool:
    """Whether a segment was sealed less than the minimum lag ago; not one from when the clock was ahead."""
    return entry.sealed_at is not None and 0 <= now - entry.sealed_at < config.retention.min_compaction_lag_us


# --- tombstones -----------------------------------------------------------------------------------------------------


def has_due(entry: SegmentEntry, now: int, limit: int = NEVER, *, part: float = 0.0) -> bool:
    """Whether a segment may hold tombstones before the offset `limit` whose time has come.

    part: of the offsets of a run, that has to lie before the limit at least.
    """
    due = (
        start < limit and horizon <= now and min(limit, end) - start >= part * (end - start)
        for start, end, horizon in _runs_of(entry)
    )
    return bool(entry.tombstones) and any(due)


def next_horizon(entries: Iterable[SegmentEntry], now: int) -> int | None:
    """Return when (us, after `now`) the next tombstones may go, None where none waits: for a timer."""
    waiting = [horizon for entry in entries if entry.tombstones for _, horizon in entry.horizons if horizon != NEVER]
    return min((horizon for horizon in waiting if horizon > now), default=None)


def _runs_of(entry: SegmentEntry) -> list[tuple[int, int, int]]:
    """Return the runs of a segment as (first offset, end offset, horizon)."""
    starts = [entry.base_offset, *(end for end, _ in entry.horizons)]
    return [(start, end, horizon) for start, (end, horizon) in zip(starts, entry.horizons, strict=False)]


def runs_after(entry: SegmentEntry, now: int, delete_retention: int, limit: int = NEVER) -> Runs:
    """Return a segment's runs after a pass that saw all of it at `now`, and let no tombstone from `limit` on go.

    The due ones have lost their tombstones, so their range falls to the run behind them; tombstones that had no time
    yet get theirs: the clock starts at the first compaction that sees them.
    """
    end = entry.next_offset or entry.base_offset
    kept: list[tuple[int, int]] = []
    covered = entry.base_offset
    for start, stop, horizon in _runs_of(entry):
        covered = min(stop, end)
        if horizon > now or start >= limit:
            kept.append((covered, horizon))
        elif covered > limit:
            kept += [(limit, NEVER), (covered, horizon)]
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

    @property
    def live(self) -> int:
        """How many records live."""
        return (self.entry.records or 0) - self.dead


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
    if entry.file in plan.passed or cleaned_to <= entry.base_offset:  # of the latter nobody knows all that came before
        return entry
    retention, limit = plan.config.retention.delete_retention_us, plan.tombstone_limits[entry.file]
    return replace(
        entry,
        cleaned_to=max(entry.cleaned_to or 0, cleaned_to),  # damage found since makes nothing unclean again
        superseded_to=None if entry.dense else entry.taken_for,  # what was unknown stays so, though cleaned_to is set
        horizons=runs_after(entry, plan.made_at, retention, limit) if entry.tombstones else (),
    )
