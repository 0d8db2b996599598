"""Run machines in a task: Arrow batches of records in, Arrow batches of states out. Knows no Spark session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import pyarrow as pa

from seglog.arrow.to_records import pieces_of, records_of
from seglog.errors import OffsetCompacted
from seglog.log.log import Log
from seglog.log.opening import open_log
from seglog.machines.machine import Machine, failed
from seglog.machines.part import partition_name
from seglog.machines.parts import LocalPart
from seglog.machines.per_key import PerKey
from seglog.machines.replay import Replay, ReplayedLog
from seglog.machines.snapshots import Snapshots, SnapshotShelf
from seglog.record import Record
from seglog.spark.jobs.pins import Pin, check_all
from seglog.spark.jobs.tasks import MARK, records
from seglog.spark.read.plan import OffsetRange

ROWS = 10_000
STATES_BYTES = 8 * 1024 * 1024  # of one batch of states
_SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "key": pa.binary(),
        "offset": pa.int64(),
        "state": pa.binary(),
    }
)


class _State(NamedTuple):
    """One machine's final position and encoded state."""

    topic: str
    partition: int
    key: bytes | None
    offset: int
    state: bytes


def states_of_log(
    part: OffsetRange,
    *,
    machine: Machine[Any],
    columns: Sequence[str],
    per_key: bool,
    complete: bool,
    snapshots: Snapshots | None = None,
) -> Iterator[pa.RecordBatch]:
    """Apply the records of a range of one log in order, and yield the final states of all its machines.

    complete: there must be a record at every offset; otherwise OffsetCompacted is raised. snapshots: continue from the
    newest one, and store the states, as `seglog.replay` does.
    """
    with open_log(part.path, mode="r") as log:
        applied: Machine[Any] = PerKey(machine) if per_key else machine
        shelf = None if snapshots is None else SnapshotShelf(snapshots, part.partition, applied)
        replay = Replay(PlannedPart(log, part, columns, complete=complete), applied, part.stop, shelf)
        replay.resume(None if complete else part.start)
        found = replay.run()
    yield from _batches(_State(part.topic, part.partition, *end) for end in _ends(machine, found, per_key=per_key))


def _ends(
    machine: Machine[Any], found: ReplayedLog[Any], *, per_key: bool
) -> Iterator[tuple[bytes | None, int, bytes]]:
    """Yield key, offset of the last applied record and encoded state of every machine that has applied one."""
    if per_key:
        for key, (offset, state) in found.state.items():
            yield key, offset, machine.encode(state)
    elif found.last_offset is not None:
        yield None, found.last_offset, machine.encode(found.state)


class PlannedPart(LocalPart):
    """The range of a log that a job has planned; its records are read by the data source, which checks the plan."""

    def __init__(self, log: Log, planned: OffsetRange, columns: Sequence[str], *, complete: bool) -> None:
        super().__init__(log, partition_name(planned.topic, planned.partition))
        self._planned = planned
        self._columns = columns
        self._complete = complete

    def pieces(self, start: int, stop: int) -> Iterator[list[Record]]:
        """Yield the records of a part of the range."""
        expected = start
        for batch in records(replace(self._planned, start=start, stop=stop), self._columns):
            expected = _behind(batch, expected, complete=self._complete)
            yield from pieces_of(batch)
        if self._complete and expected != stop:
            raise _gap(expected, stop)


def _behind(batch: pa.RecordBatch, expected: int, *, complete: bool) -> int:
    """Return the offset after a batch that should start at `expected` and have no gaps if `complete`."""
    first, last = batch.column("offset")[0].as_py(), batch.column("offset")[-1].as_py()
    if complete and (first, last) != (expected, expected + batch.num_rows - 1):
        raise _gap(expected, first)
    return int(last) + 1


def _gap(offset: int, next_offset: int) -> OffsetCompacted:
    error = OffsetCompacted(offset, next_offset)
    error.add_note("compaction removed records since the job was planned")
    return error


def states_of_runs(
    batches: Iterable[pa.RecordBatch], *, machine: Machine[Any], per_key: bool, pins: Sequence[Pin] = ()
) -> Iterator[pa.RecordBatch]:
    """Apply records sorted by topic, partition, key and offset; a state lives as long as its key's run.

    pins: of the logs that have a mark among the records (see `with_marks`); they must have a record at every offset,
    otherwise OffsetCompacted is raised.
    """
    marked = {(one.range.topic, one.range.partition): one for one in pins}
    yield from _batches(_ends_of_runs(batches, machine, marked, per_key=per_key))


def _ends_of_runs(
    batches: Iterable[pa.RecordBatch], machine: Machine[Any], marked: Mapping[tuple[str, int], Pin], *, per_key: bool
) -> Iterator[_State]:
    run: tuple[str, int, bytes | None] | None = None
    state, offset = None, -1
    for batch in batches:
        topics, partitions = batch.column("topic").to_pylist(), batch.column("partition").to_pylist()
        for topic, partition, record in zip(topics, partitions, records_of(batch), strict=True):
            if record.offset == MARK:
                check_all(marked[topic, partition])
                continue
            here = topic, partition, record.key if per_key else None
            if here != run:
                if run is not None:
                    yield _State(*run, offset, machine.encode(state))
                run, state = here, machine.initial()
            offset = record.offset
            try:
                state = machine.apply(state, record)
            except Exception as error:  # noqa: BLE001 - whatever the machine raises
                failed(machine, record, partition_name(topic, partition), error)
    if run is not None:
        yield _State(*run, offset, machine.encode(state))


def _batches(rows: Iterable[_State]) -> Iterator[pa.RecordBatch]:
    """Pack rows into batches of a size that suits the JVM."""
    waiting: list[_State] = []
    size = 0
    for row in rows:
        waiting.append(row)
        size += len(row.state)
        if len(waiting) == ROWS or size >= STATES_BYTES:
            yield _batch(waiting)
            waiting, size = [], 0
    if waiting:
        yield _batch(waiting)


def _batch(rows: list[_State]) -> pa.RecordBatch:
    columns = zip(*rows, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array(column, field.type) for column, field in zip(columns, _SCHEMA, strict=True)], schema=_SCHEMA
    )
