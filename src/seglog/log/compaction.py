"""Compact a log that is open for writing: plan under the mutex, rewrite without it, swap with one manifest.

Appends, readers and followers continue meanwhile. `seglog.compaction` decides which records are kept.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from seglog.clock import Clock
from seglog.compaction.plan import CompactionPlan, make_plan
from seglog.compaction.schedule import Standing, least_pin, scheduled_plan, standing
from seglog.errors import (
    CompactionAborted,
    ConfigError,
    CorruptLog,
    InvalidArgument,
    InvalidType,
    PlanStale,
    StorageError,
)
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.log.holds import in_tables
from seglog.log.info import CompactionReport
from seglog.log.pins import read_pins
from seglog.log.staging import StagedSegment, compaction_batch, remove_stages, stage_directory
from seglog.log.view import View
from seglog.log.writer_state import OPEN, WriterState, change
from seglog.record import checked_callable, checked_text
from seglog.storage import Storage, Subdirectory

if TYPE_CHECKING:
    from seglog.compaction.rate_limit import Progress
    from seglog.compaction.rewrite import Outcome


@dataclass(frozen=True)
class Swap:
    """The change that an outcome makes to a manifest.

    segments: the log's sealed ones afterwards; joining: staged ones with their entries in the log; retired: the ones
    that they replace.
    """

    segments: tuple[SegmentEntry, ...]
    joining: tuple[tuple[StagedSegment, SegmentEntry], ...]
    retired: tuple[SegmentEntry, ...]


def is_current(manifest: Manifest, plan: CompactionPlan) -> bool:
    """Whether the log still begins with a plan's sources, each unchanged, and has the same retention."""
    sealed, same_rules = manifest.segments[:-1], manifest.config.retention == plan.config.retention
    return manifest.log_id == plan.log_id and same_rules and sealed[: len(plan.sources)] == plan.sources


def make_swap(
    manifest: Manifest, plan: CompactionPlan, outcome: Outcome, directory: str, new_number: Callable[[], int]
) -> Swap:
    """Return the swap. Raises PlanStale if the plan's sources are no longer part of the log."""
    if not is_current(manifest, plan):
        raise PlanStale("the log was truncated, expired, compacted, repaired or altered meanwhile; make a new plan")
    if [number for part in outcome.parts for number in part.sources] != [source.file for source in plan.sources]:
        raise InvalidArgument("the outcome belongs to another plan")
    segments: list[SegmentEntry] = []
    joining: list[tuple[StagedSegment, SegmentEntry]] = []
    replaced: set[int] = set()
    for part in outcome.parts:
        if not part.staged:
            segments += part.entries
            continue
        replaced.update(part.sources)
        for entry in part.entries:
            segments.append(replace(entry, file=new_number()))
            joining.append((StagedSegment(directory=directory, entry=entry), segments[-1]))
    retired = tuple(source for source in plan.sources if source.file in replaced)
    return Swap((*segments, *manifest.segments[len(plan.sources) : -1]), tuple(joining), retired)


def report_of(plan: CompactionPlan, after: Sequence[SegmentEntry]) -> CompactionReport:
    """Return the figures of a pass that follow from its sources and what it left of them."""
    return CompactionReport(
        end=plan.end,
        segments_before=len(plan.sources),
        segments_after=len(after),
        records_before=sum(source.records or 0 for source in plan.sources),
        records_after=sum(entry.records or 0 for entry in after),
        bytes_before=sum(source.bytes or 0 for source in plan.sources),
        bytes_after=sum(entry.bytes or 0 for entry in after),
    )


def full_report(plan: CompactionPlan, outcome: Outcome) -> CompactionReport:
    """Return the report of a pass."""
    return replace(
        report_of(plan, [entry for part in outcome.parts for entry in part.entries]),
        superseded=outcome.superseded,
        tombstones=outcome.tombstones,
        unkeyed=outcome.unkeyed,
        rewritten=sum(len(part.sources) for part in outcome.parts if part.staged),
        keys=outcome.keys,
        rounds=outcome.rounds,
        damaged=outcome.damaged,
    )


def checked_rate(bytes_per_second: object) -> None:
    """Raise InvalidType or InvalidArgument unless this is a rate of a pass, or None."""
    if isinstance(bytes_per_second, bool) or not isinstance(bytes_per_second, (int, float, type(None))):
        raise InvalidType(f"bytes_per_second must be a number or None, not {type(bytes_per_second).__name__}")
    if bytes_per_second is not None and not bytes_per_second > 0:
        raise InvalidArgument(f"bytes_per_second is {bytes_per_second}; it must be greater than 0, or None")


def remove_stage(state: WriterState, storage: Storage, batch: str) -> None:
    """Remove the staged files of a pass, unless the next opening needs them to recognize files that were linked."""
    if state.closed or state.live.settled:
        with suppress(StorageError):  # it is removed once it has expired
            remove_stages(storage, batch)


class Compactor:
    """Compacts one log by key: one compaction at a time. `running` is held meanwhile."""

    def __init__(self, state: WriterState, storage: Storage, clock: Clock) -> None:
        self._state = state
        self._storage = storage
        self._clock = clock
        self.running = threading.Lock()

    def plan(self, *, generational: bool = False) -> CompactionPlan:
        """Return what a compaction would do at present; see Log.plan_compaction."""
        manifest, durable = self._compactable()
        durable = self._reachable(manifest, durable)
        make = scheduled_plan if generational else make_plan  # not under the mutex: there may be 10,000 segments
        return make(manifest, self._clock(), durable=durable, pinned=least_pin(read_pins(self._storage)))

    def _reachable(self, manifest: Manifest, durable: int) -> int:
        """Return the offset up to which compaction may read: what is durable and, if retention waits, in the tables."""
        stored = in_tables(self._storage, manifest)
        return durable if stored is None else min(durable, stored)

    def _keyed(self) -> bool:
        return self._state.live.config.retention.compact

    @change
    def _compactable(self) -> tuple[Manifest, int]:
        """Return manifest and durable offset of one moment. Raises ConfigError unless the log is compacted by key."""
        if not self._keyed():
            raise ConfigError("the log is not compacted by key: open it with Retention(compact=True)")
        return self._state.live.catalog.current, self._state.durability.durable_offset

    def standing(self) -> Standing:
        """Return the state of compaction; see Log.standing."""
        manifest, durable, size, records = self._figures()
        return standing(
            manifest,
            self._clock(),
            durable=self._reachable(manifest, durable),
            active_bytes=size,
            active_records=records,
            pins=read_pins(self._storage),
        )

    @change
    def _figures(self) -> tuple[Manifest, int, int, int]:
        """Return manifest, durable offset, and size and records of the active segment, of the same moment."""
        active = self._state.live.active
        return self._state.live.catalog.current, self._state.durability.durable_offset, active.size, active.records

    def finish(self, plan: CompactionPlan, outcome: Outcome, directory: str) -> CompactionReport:
        """Swap in the result of `rewrite`; see Log.finish_compaction."""
        from seglog.compaction.rewrite import Outcome  # noqa: PLC0415 - a caller with an outcome has loaded it

        for thing, kind in ((plan, CompactionPlan), (outcome, Outcome)):
            if not isinstance(thing, kind):
                raise InvalidType(f"finish_compaction takes a {kind.__name__}, not {type(thing).__name__}")
        self._swap_in(plan, outcome, checked_text(directory, "directory"))
        return full_report(plan, outcome)

    @change
    def _swap_in(self, plan: CompactionPlan, outcome: Outcome, directory: str) -> None:
        if outcome.tombstones and least_pin(read_pins(self._storage)) < min(plan.pinned, plan.end):
            raise PlanStale("a follower registered meanwhile that may not have read the tombstones; make a new plan")
        catalog = self._state.live.catalog
        swap = make_swap(catalog.current, plan, outcome, directory, catalog.new_file_number)
        if swap.segments != catalog.current.segments[:-1]:
            self._state.live.swap(swap.segments, swap.joining, retire=swap.retired)

    def compact(
        self,
        *,
        roll: bool = False,
        generational: bool = False,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompactionReport:
        """Keep only the latest record of each key; see Log.compact."""
        checked_rate(bytes_per_second)
        checked_callable(progress, "progress")
        checked_callable(abort, "abort")
        if not self.running.acquire(blocking=False):
            raise CompactionAborted("another compaction of this log is running; wait for its end")
        try:
            if roll:
                self._end_active()
            plan = self.plan(generational=generational)
            if plan.idle:
                return report_of(plan, plan.sources)
            return self._carry_out(plan, progress, abort, bytes_per_second)
        finally:
            self.running.release()

    @change
    def _end_active(self) -> None:
        """Roll the active segment if it holds records."""
        if self._keyed() and not self._state.live.active.empty:
            self._state.live.roll()

    def _carry_out(
        self,
        plan: CompactionPlan,
        progress: Progress | None,
        abort: Callable[[], bool] | None,
        bytes_per_second: float | None,
    ) -> CompactionReport:
        batch = compaction_batch(own=True)
        directory = stage_directory(batch, plan.made_at)
        try:
            outcome = self._rewrite(plan, directory, progress, abort, bytes_per_second)
            return self.finish(plan, outcome, directory)
        except (StorageError, CorruptLog) as error:
            self._refuse_if_gone(plan)  # raises the cause, if the log was closed or changed meanwhile
            raise error
        finally:
            remove_stage(self._state, self._storage, batch)

    def _rewrite(
        self,
        plan: CompactionPlan,
        directory: str,
        progress: Progress | None,
        abort: Callable[[], bool] | None,
        bytes_per_second: float | None,
    ) -> Outcome:
        from seglog.compaction.rewrite import rewrite  # noqa: PLC0415 - numba loads when first used

        def stopped() -> bool:
            self._refuse_if_gone(plan)
            return abort is not None and abort()

        output = Subdirectory(self._storage, directory)
        view = self._view_to_compact(output)  # prevents the sources from being unlinked while they are read
        outcome = rewrite(
            plan, self._storage, output, progress=progress, abort=stopped, bytes_per_second=bytes_per_second
        )
        del view
        return outcome

    @change
    def _view_to_compact(self, output: Subdirectory) -> View:
        """Create the output directory and return the present view; raise if the log is closed or removed."""
        output.make([])
        return self._state.live.present

    def _refuse_if_gone(self, plan: CompactionPlan) -> None:
        """Raise if the log was closed or its segments have changed: the pass is useless then."""
        if self._state.phase is not OPEN:
            raise self._state.refusal()
        self._state.live.catalog.ownership.check()
        if not is_current(self._state.live.catalog.current, plan):
            raise PlanStale(
                "the log was truncated, expired, repaired or altered while it was compacted; nothing was compacted"
            )
