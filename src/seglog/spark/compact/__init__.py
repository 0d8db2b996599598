"""Compaction by key on executors: the same pass as `log.compact()`, one task per log, swapped in by the driver.

    for done in compact(spark, "orders"):
        print(done.partition, done.report)

A pass is planned under the log's lock, executed without it, so that others can append meanwhile, and swapped in under
it again in one step. Executors read the log's segments and write new ones beside them, with the kernels and figures of
the local compactor; the stage of a failed or repeated task is never used and gets deleted.
"""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from seglog.clock import system_clock
from seglog.compaction.plan import CompactionPlan
from seglog.errors import SeglogError
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
    from seglog.topic.layout.places import Place

SCHEMA = "number int, directory string, outcome string, error string, message string"


Made = tuple[str, str]
"""A stage's directory, and the outcome of its pass as JSON."""


@dataclass(frozen=True, kw_only=True)
class CompactedLog:
    """The result of one log's compaction."""

    topic: str
    partition: int
    report: CompactionReport


@dataclass(frozen=True, slots=True)
class Pass:
    """One log's pass for a task. batch: the directory of its stage; bytes_per_second: of reading and writing."""

    number: int
    path: str
    batch: str
    plan: CompactionPlan
    bytes_per_second: float | None


def compact(spark: SparkSession, path: str | Path, *, bytes_per_second: float | None = None) -> list[CompactedLog]:
    """Keep the latest record of every key in the sealed segments of a log, a topic or a broker's topics.

    Every log is compacted by its retention (see `Log.compact`); one with nothing to do is returned with its
    present figures. After an error the other logs are still compacted, then the first error is raised; a later run does
    the rest.

    Args:
        spark: The session.
        path: A log, a topic or a broker's directory.
        bytes_per_second: The limit of each task; None: no limit.

    Raises:
        ConfigError: a log is not compacted by key.
        LogLocked: a writer holds a log.
        PlanStale: a log was truncated or expired meanwhile.
        CorruptLog, StorageError: reading or writing failed.
    """
    places = logs_behind(path)
    batch = compaction_batch()
    with ExitStack() as stages:
        for place in places:
            stages.callback(remove_stages, storage_at(place.path), batch)
        with ExitStack() as leases:
            for place in places:  # files that executors read must not be unlinked meanwhile
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
    """Return a log's plan, or the error that prevents it: the other logs do not depend on it."""
    try:
        with patiently(partial(open_log, place.path)) as log:
            return log.plan_compaction()
    except SeglogError as error:
        return error


def rewrite_log(one: Pass) -> Iterator[pa.RecordBatch]:
    """Execute a pass in a task, into its own stage, and yield the stage's place and the outcome.

    A seglog error becomes a row too: raised, it would end the other logs' tasks.
    """
    import pyarrow as pa  # noqa: PLC0415 - imports numba and pyarrow in the task

    from seglog.compaction.rewrite import rewrite  # noqa: PLC0415 - as above

    storage = storage_at(one.path)
    directory = stage_directory(one.batch, system_clock())  # a new one for each attempt
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
    """Return the content of a task's row."""
    return (row["directory"], row["outcome"]) if row["error"] is None else named(row["error"], row["message"])


def _finish(
    places: Sequence[Place], plans: Sequence[CompactionPlan | SeglogError], outcomes: dict[int, Made | SeglogError]
) -> list[CompactedLog]:
    """Swap in the results, log by log; raise the first error after all logs were handled."""
    done: list[CompactedLog] = []
    failed: list[SeglogError] = []
    for number, (place, plan) in enumerate(zip(places, plans, strict=True)):
        try:
            report = _swapped(place, plan, outcomes.get(number))
        except SeglogError as error:
            error.add_note(f"partition {place.partition} of topic {place.topic!r} is unchanged")
            failed.append(error)
            continue
        done.append(CompactedLog(topic=place.topic, partition=place.partition, report=report))
    if failed:
        failed[0].add_note(f"{len(done)} of {len(places)} logs were compacted")
        raise failed[0]
    return done


def _swapped(place: Place, plan: CompactionPlan | SeglogError, made: Made | SeglogError | None) -> CompactionReport:
    """Swap in one log's result and return its report; made: None if there was nothing to do."""
    from seglog.compaction.rewrite import Outcome  # noqa: PLC0415 - imports numba when a job runs

    if isinstance(plan, SeglogError):
        raise plan
    if isinstance(made, SeglogError):
        raise made
    if made is None:
        return report_of(plan, plan.sources)
    directory, text = made
    with patiently(partial(open_log, place.path)) as log:
        return log.finish_compaction(plan, Outcome.from_json(json.loads(text)), directory)
