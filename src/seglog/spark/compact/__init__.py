"""Compaction by key on executors: the same pass as `log.compact()`, one task for each log, swapped in by the driver.

    for done in compact(spark, "orders"):
        print(done.partition, done.report)

A pass is planned under the log's lock, carried out without it, so that others append meanwhile, and swapped in under it
again in one step. Executors read the log's segments and write whole ones beside them, by the kernels and with the
figures of the local compactor; whatever fails or is done twice stays in a stage that nobody takes, and goes.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from seglog.clock import system_clock
from seglog.errors import SeglogError
from seglog.keyed.plan import CompactionPlan
from seglog.log.compaction import report_of
from seglog.log.leases import Lease
from seglog.log.opening import open_log, storage_at
from seglog.log.staging import compaction_batch, remove_stages, stage_directory
from seglog.spark.jobs.failures import named
from seglog.spark.jobs.pins import logs_behind
from seglog.spark.jobs.tasks import spread
from seglog.spark.write.destination import patiently
from seglog.storage import Subdirectory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import Row, SparkSession

    from seglog.log.info import CompactionReport
    from seglog.topic.places import Place

SCHEMA = "number int, directory string, outcome string, error string, message string"


Made = tuple[str, str]
"""A stage's directory, and the outcome of the pass that filled it, as JSON."""


@dataclass(frozen=True, kw_only=True)
class CompactedLog:
    """What the compaction of one log came to."""

    topic: str
    partition: int
    report: CompactionReport


@dataclass(frozen=True, slots=True)
class Pass:
    """One log's pass for a task. batch: below which its stage stands; bytes_per_second: of reading and writing."""

    number: int
    path: str
    batch: str
    plan: CompactionPlan
    bytes_per_second: float | None


def compact(spark: SparkSession, path: str | Path, *, bytes_per_second: float | None = None) -> list[CompactedLog]:
    """Keep the latest record of every key in the sealed segments of a log, a topic or a broker's topics.

    bytes_per_second: limits each task. Every log is compacted as far as its retention says (see `Log.compact`); one
    that has nothing to do is told with its figures as they are. Raises ConfigError for a log that is not compacted by
    key, LogLocked while a writer keeps one open, PlanStale where one was truncated or expired meanwhile, what reading
    and writing raises: the first of these errors, once the other logs are compacted; a later run does the rest.
    """
    places = logs_behind(path)
    batch = compaction_batch()
    with ExitStack() as stages:
        for place in places:
            stages.callback(remove_stages, storage_at(place.path), batch)
        with ExitStack() as leases:
            for place in places:  # what is read on executors must not be unlinked meanwhile
                leases.callback(Lease(storage_at(place.path)).release)
            plans = [_plan(place) for place in places]
            passes = [
                Pass(number, place.path, batch, plan, bytes_per_second)
                for number, (place, plan) in enumerate(zip(places, plans, strict=True))
                if not isinstance(plan, SeglogError) and not plan.idle
            ]
            rows = spread(spark, passes, rewrite_log, SCHEMA).collect() if passes else []
        return _finish(places, plans, {row["number"]: _outcome(row) for row in rows})


def _plan(place: Place) -> CompactionPlan | SeglogError:
    """Return a log's plan, or why it has none: the others do not wait for it."""
    try:
        with patiently(partial(open_log, place.path)) as log:
            return log.plan_compaction()
    except SeglogError as error:
        return error


def rewrite_log(one: Pass) -> Iterator[pa.RecordBatch]:
    """Carry out a pass, in a task, into a stage of its own, and yield where that is and what came of it.

    A seglog error is a row, too: raised, it would end the other logs' tasks.
    """
    import pyarrow as pa  # noqa: PLC0415 - numba and pyarrow load in the task

    from seglog.keyed.rewrite import rewrite  # noqa: PLC0415 - as above

    storage = storage_at(one.path)
    directory = stage_directory(one.batch, system_clock())  # another for each attempt
    output = Subdirectory(storage, directory)
    made: tuple[str | None, ...]  # outcome, error, message
    try:
        output.make([])
        outcome = rewrite(one.plan, storage, output, bytes_per_second=one.bytes_per_second)
        made = json.dumps(outcome.to_json()), None, None
    except SeglogError as error:
        made = None, type(error).__name__, str(error)
    columns = [pa.array([one.number], pa.int32()), *(pa.array([text], pa.string()) for text in (directory, *made))]
    yield pa.RecordBatch.from_arrays(columns, names=["number", "directory", "outcome", "error", "message"])


def _outcome(row: Row) -> Made | SeglogError:
    """Return what a task's row tells."""
    return (row["directory"], row["outcome"]) if row["error"] is None else named(row["error"], row["message"])


def _finish(
    places: Sequence[Place], plans: Sequence[CompactionPlan | SeglogError], outcomes: dict[int, Made | SeglogError]
) -> list[CompactedLog]:
    """Swap in what the tasks made, log by log; the first error is raised when all had their turn."""
    done: list[CompactedLog] = []
    failed: list[SeglogError] = []
    for number, (place, plan) in enumerate(zip(places, plans, strict=True)):
        try:
            report = _swapped(place, plan, outcomes.get(number))
        except SeglogError as error:
            error.add_note(f"partition {place.partition} of topic {place.topic!r} is as it was")
            failed.append(error)
            continue
        done.append(CompactedLog(topic=place.topic, partition=place.partition, report=report))
    if failed:
        failed[0].add_note(f"{len(done)} of {len(places)} logs were compacted")
        raise failed[0]
    return done


def _swapped(place: Place, plan: CompactionPlan | SeglogError, made: Made | SeglogError | None) -> CompactionReport:
    """Swap in what was made of one log and return its report; made: None where there was nothing to do."""
    from seglog.keyed.rewrite import Outcome  # noqa: PLC0415 - numba loads when a job runs

    if isinstance(plan, SeglogError):
        raise plan
    if isinstance(made, SeglogError):
        raise made
    if made is None:
        return report_of(plan, plan.sources)
    directory, text = made
    with patiently(partial(open_log, place.path)) as log:
        return log.finish_compaction(plan, Outcome.from_json(json.loads(text)), directory)
