"""Decide what a compaction will do, before it reads anything: pure functions of segment entries, config and time.

The model is Kafka's proposal "Integrating keyed messages into Kafka" (a clean tail, a dirty head, recopying), with the
clean end stored per segment: `cleaned_to`. Knows neither files nor logs.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from seglog.clock import has_passed
from seglog.config import LogConfig
from seglog.errors import InvalidArgument
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES

LONGEST_MISSED = 365 * 24 * 3600 * 1_000_000
"""A horizon (us) that passed longer ago is not trusted: the clock was behind when it was set, as in a machine without a
battery. A log that nothing compacts for a year keeps its tombstones for one `delete_retention` more.
"""
NEVER = 2**63 - 1  # as a horizon: the run no longer holds tombstones

Runs = tuple[tuple[int, int], ...]
"""Tombstone horizons: (end offset, us), ordered; see SegmentEntry."""


@dataclass(frozen=True, kw_only=True)
class CompactionPlan:
    """A pass over the oldest sealed segments of one log. Plain values that can be sent to another process.

    Attributes:
        log_id: Id of the log.
        epoch: Epoch of the manifest.
        version: Version of the manifest. The outcome is accepted if the sources are still part of the log.
        made_at: Time of the pass in microseconds.
        dirty_from: The keys of the considered sources are compared with the records from this offset on.
        sources: Consecutive sealed entries from the start of the log to the cleanable end.
        config: The log's config.
        passed: File numbers of sources that stay unchanged.
        pinned: Tombstones from this offset on stay.
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
        """The cleanable end: one after the last offset considered."""
        return self.sources[-1].next_offset or 0 if self.sources else self.dirty_from

    @cached_property
    def considered(self) -> tuple[SegmentEntry, ...]:
        """The sources that are not skipped."""
        return tuple(source for source in self.sources if source.file not in self.passed)

    @cached_property
    def dirty(self) -> tuple[SegmentEntry, ...]:
        """The sources whose keys have to be mapped: all others precede them."""
        return tuple(source for source in self.considered if (source.next_offset or 0) > self.dirty_from)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do: every key was considered, and no tombstone's horizon has passed."""
        limits = self.tombstone_limits
        kept = self.config.retention.delete_retention_us
        due = (has_due(source, self.made_at, limits[source.file], longest=kept) for source in self.considered)
        return not self.dirty and not any(due)

    @cached_property
    def tombstone_limits(self) -> dict[int, int]:
        """For every source, by file number: only tombstones before this offset may be removed.

        At or after it a pinned consumer has not read them, or an older segment that this pass skips may still hold a
        record that they delete, which would become visible again.
        """
        limits: dict[int, int] = {}
        limit = self.pinned
        for source in self.sources:
            limits[source.file] = limit
            if source.file in self.passed:
                limit = min(limit, considered_to(source))
        return limits

    def to_json(self) -> dict[str, Any]:
        """Return plain values for a message to another process."""
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
        """Read what `to_json` returned."""
        sources = tuple(SegmentEntry.from_values(dict(source)) for source in values["sources"])
        config, passed = LogConfig.from_json(values["config"]), frozenset(values["passed"])
        return cls(**{**values, "sources": sources, "config": config, "passed": passed})


def record_bytes(entry: SegmentEntry) -> int:
    """Return the size of a sealed segment's records in bytes."""
    return max((entry.bytes or 0) - HEADER_BYTES, 0)


def considered_to(entry: SegmentEntry) -> int:
    """Return up to where (exclusive) later records were compared with a segment's; its base offset: none were."""
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

    durable: consider no segment with an offset at or after it; None: sealed segments are durable, as a roll ensures.
    pinned: lowest next offset of the registered followers. passed: segments to skip; see keyed.schedule.
    """
    sources = cleanable(manifest.segments[:-1], manifest.config, now, durable)
    compared = [considered_to(source) for source in sources if source.file not in passed]
    dirty_from = min(compared, default=(sources[-1].next_offset or 0) if sources else manifest.start)
    if any(source.file in passed and (source.next_offset or 0) > dirty_from for source in sources):
        raise InvalidArgument(
            f"a segment with offsets from {dirty_from} on cannot be skipped, because its keys are compared"
        )
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
    """Return the sealed segments before the first that is not durable, or was sealed within the minimum lag."""
    chosen: list[SegmentEntry] = []
    for entry in sealed:
        if is_fresh(entry, config, now) or (durable is not None and (entry.next_offset or 0) > durable):
            break
        chosen.append(entry)
    return tuple(chosen)


def is_fresh(entry: SegmentEntry, config: LogConfig, now: int) -> bool:
    """Whether a segment was sealed within the minimum lag; False if the clock was ahead then."""
    return entry.sealed_at is not None and not has_passed(entry.sealed_at, config.retention.min_compaction_lag_us, now)


# --- tombstones -----------------------------------------------------------------------------------------------------


def has_due(
    entry: SegmentEntry, now: int, limit: int = NEVER, *, part: float = 0.0, longest: int | None = None
) -> bool:
    """Whether a segment may hold tombstones before the offset `limit` whose horizon has passed.

    part: minimum fraction of a run's offsets that must be before the limit. longest: a horizon that is further away
    (us) counts, too: the clock was ahead when it was set, or `delete_retention` was longer; a pass sets it again.
    """
    due = (
        start < limit
        and (horizon <= now or _is_too_late(entry, horizon, now, longest))
        and min(limit, end) - start >= part * (end - start)
        for start, end, horizon in _runs_of(entry)
    )
    return bool(entry.tombstones) and any(due)


def is_over(horizon: int, now: int) -> bool:
    """Whether tombstones with this horizon may be removed.

    False if it passed very long ago: the clock was behind when it was set, and it is set again.
    """
    return now - LONGEST_MISSED <= horizon <= now


def _is_too_late(entry: SegmentEntry, horizon: int, now: int, longest: int | None) -> bool:
    """Whether a horizon is further away than tombstones are kept. Not if the clock seems to be behind at present."""
    if longest is None or now < (entry.sealed_at or now) <= now + LONGEST_MISSED:
        return False
    return now + longest < horizon < NEVER


def next_horizon(entries: Iterable[SegmentEntry], now: int) -> int | None:
    """Return the time (us, after `now`) of the next horizon of tombstones; None without one. For a timer."""
    waiting = [horizon for entry in entries if entry.tombstones for _, horizon in entry.horizons if horizon != NEVER]
    return min((horizon for horizon in waiting if horizon > now), default=None)


def _runs_of(entry: SegmentEntry) -> list[tuple[int, int, int]]:
    """Return the runs of a segment as (first offset, end offset, horizon)."""
    starts = [entry.base_offset, *(end for end, _ in entry.horizons)]
    return [(start, end, horizon) for start, (end, horizon) in zip(starts, entry.horizons, strict=False)]


def runs_after(entry: SegmentEntry, now: int, delete_retention: int, limit: int = NEVER) -> Runs:
    """Return a segment's runs after a pass that saw all of it at `now`, and removed no tombstone from `limit` on.

    A run whose horizon has passed has lost its tombstones, so its range joins the following run. Tombstones without a
    horizon get one: the time counts from the first compaction that sees them. It is set again if a clock that was ahead
    or behind has set it.
    """
    end = entry.next_offset or entry.base_offset
    seen = now + delete_retention
    kept: list[tuple[int, int]] = []
    covered = entry.base_offset
    for start, stop, horizon in _runs_of(entry):
        covered = min(stop, end)
        if _is_too_late(entry, horizon, now, delete_retention) or (horizon <= now and not is_over(horizon, now)):
            kept.append((covered, seen))
        elif horizon > now or start >= limit:
            kept.append((covered, horizon))
        elif covered > limit:
            kept += [(limit, NEVER), (covered, horizon)]
    return joined([*kept, (end, seen)] if covered < end or not kept else kept)


def joined(runs: Iterable[tuple[int, int]]) -> Runs:
    """Return runs in order, merging neighbours with the same horizon."""
    found: list[tuple[int, int]] = []
    for stop, horizon in runs:
        if found and found[-1][1] == horizon:
            found.pop()
        found.append((stop, horizon))
    return tuple(found)


def runs_between(runs: Iterable[tuple[int, int]], start: int, stop: int) -> Runs:
    """Return the parts of the runs within start..stop."""
    inside: list[tuple[int, int]] = []
    for end, horizon in runs:
        if end > start:
            inside.append((min(end, stop), horizon))
        if end >= stop:
            break
    return tuple(inside)


# --- groups that are rewritten together -------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Measured:
    """A source and what remains of it. live_bytes: of its records; dead: number of records to remove."""

    entry: SegmentEntry
    live_bytes: int
    dead: int

    @property
    def live(self) -> int:
        """Number of live records."""
        return (self.entry.records or 0) - self.dead


def group(measured: Sequence[Measured], segment_bytes: int) -> list[list[Measured]]:
    """Return groups of adjacent segments that become one run of outputs; a single segment without deaths stays.

    A segment without deaths joins a group only if it fills up to half a segment, so that a grown segment is not copied
    again for each small neighbour.
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
    """Return a source's entry after a pass that considered every record before `cleaned_to`."""
    if entry.file in plan.passed or cleaned_to <= entry.base_offset:  # then not all earlier records were considered
        return entry
    retention, limit = plan.config.retention.delete_retention_us, plan.tombstone_limits[entry.file]
    return replace(
        entry,
        cleaned_to=max(entry.cleaned_to or 0, cleaned_to),  # damage found later makes nothing dirty again
        superseded_to=None if entry.dense else entry.taken_for,  # what was unknown stays so, although cleaned_to is set
        horizons=runs_after(entry, plan.made_at, retention, limit) if entry.tombstones else (),
    )
