"""Replay a state machine for every key, record by record in offset order, up to now or to any offset.

    states = replay(spark, "lesson", Classroom())                       # topic, partition, key, offset, state
    states = replay(spark, "lesson", Classroom(), stop=1000)            # the states as of then

Each key of each partition has its own machine; records without a key share one, so a log without keys is one state
machine. per="partition" uses one machine per partition, whatever its keys.

A key never leaves its partition, and a partition's log is in order: one task per partition keeps the states of all its
keys. If they exceed a worker's memory, or one task takes too long, plan="shuffle" sorts the records by key and offset
instead, so that a task holds one state at a time and a partition is spread over many tasks.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from seglog.errors import InvalidArgument
from seglog.machines.machine import Machine, checked_machine
from seglog.machines.per_key import check_decodes
from seglog.machines.snapshots import Snapshots, checked_snapshots
from seglog.spark.jobs.pins import pin
from seglog.spark.jobs.tasks import read, spread, with_marks

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from seglog.spark.jobs.pins import Moment, Pin

COLUMNS = ["offset", "timestamp", "key", "value"]
SCHEMA = "topic string, partition int, key binary, offset bigint, state binary"

Per = Literal["key", "partition"]
Plan = Literal["partition", "shuffle"]

__all__ = ["SCHEMA", "Machine", "replay"]


def replay(
    spark: SparkSession,
    path: str | Path,
    machine: Machine[Any],
    *,
    stop: Moment = None,
    per: Per = "key",
    plan: Plan = "partition",
    include_headers: bool = False,
    incomplete: bool = False,
    snapshots: str | Path | Snapshots | None = None,
) -> DataFrame:
    """Return the state of every machine: topic, partition, key, offset (of the last applied record), state (encoded).

    The DataFrame is lazy. A record that the machine rejects ends it with an error that names partition and offset.

    Args:
        spark: The session.
        path: A log, a topic or a broker's directory.
        machine: The state machine; see `Machine`.
        stop: The states before this offset (one log), these offsets (topic -> partition -> offset) or the first
            record at or after this time; default: everything present now.
        per: "key" or "partition".
        plan: "partition" or "shuffle"; see the module.
        include_headers: Pass records with their headers.
        incomplete: Accept a log from which retention or compaction removed records; a machine that needs all of them
            then ends in another state.
        snapshots: A directory that all executors have, or `Snapshots`, as of `seglog.replay`: each task continues from
            the newest snapshot of its partition, and stores one at its end. Both use the same snapshots (of
            `PerKey(machine)` if per is "key"). Not with plan="shuffle".

    Raises:
        InvalidArgument, OffsetOutOfRange: an argument is invalid, or the log is incomplete.
        LogNotFound, NotALog: there is no log at the path.
    """
    _check_choice("per", per, ("key", "partition"))
    _check_choice("plan", plan, ("partition", "shuffle"))
    machine = checked_machine(machine)
    kept = checked_snapshots(snapshots)
    if kept is not None:
        check_decodes(machine)
        if plan == "shuffle":
            raise InvalidArgument(
                'snapshots need plan="partition": with "shuffle" no task has the states of a partition'
            )
    pins = pin(path, stop=stop)
    if not incomplete and kept is None:  # else each task checks what its snapshot lacks
        _check_complete(pins)
    columns = [*COLUMNS, "headers"] if include_headers else COLUMNS
    if plan == "shuffle":
        return _by_shuffle(spark, path, pins, machine, columns, per=per, complete=not incomplete)
    from seglog.spark.replay.tasks import states_of_log  # noqa: PLC0415 - imports pyarrow when a job runs

    work = partial(
        states_of_log,
        machine=machine,
        columns=columns,
        per_key=per == "key",
        complete=not incomplete,
        snapshots=kept,
    )
    return spread(spark, [one.range for one in pins], work, SCHEMA)


def _by_shuffle(
    spark: SparkSession,
    path: str | Path,
    pins: Sequence[Pin],
    machine: Machine[Any],
    columns: Sequence[str],
    *,
    per: Per,
    complete: bool,
) -> DataFrame:
    from seglog.spark.replay.tasks import states_of_runs  # noqa: PLC0415 - imports pyarrow when a job runs

    records = read(spark, path, pins, ["topic", "partition", *columns])
    marked = pins if complete else ()
    records = with_marks(records, marked) if marked else records
    group = ["topic", "partition", "key"] if per == "key" else ["topic", "partition"]
    ordered = records.repartition(*group).sortWithinPartitions(*group, "offset")
    return ordered.mapInArrow(partial(states_of_runs, machine=machine, per_key=per == "key", pins=marked), SCHEMA)


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InvalidArgument(f"{name} is {value!r}; it must be {' or '.join(map(repr, choices))}")


def _check_complete(pins: Sequence[Pin]) -> None:
    for one in pins:
        if one.missing is not None:
            raise InvalidArgument(
                f"{one} does not hold all its records: {one.missing}; use incomplete if the machine does not need them"
            )
