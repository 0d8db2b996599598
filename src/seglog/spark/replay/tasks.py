"""Run machines in a task: Arrow batches of records in, Arrow batches of states out. Knows no Spark session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa

from seglog.errors import InvalidArgument, OffsetCompacted
from seglog.machines.machine import Machine
from seglog.record import Record
from seglog.spark.jobs.pins import Pin, check_all
from seglog.spark.jobs.tasks import MARK, records
from seglog.spark.read.plan import OffsetRange

ROWS = 10_000
STATES_BYTES = 8 * 1024 * 1024  # of one batch of states
_NO_HEADERS: tuple[tuple[str, bytes | None], ...] = ()
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
    part: OffsetRange, *, machine: Machine[Any], columns: Sequence[str], per_key: bool, complete: bool
) -> Iterator[pa.RecordBatch]:
    """Apply the records of a range of one log in order, and yield the final states of all its machines.

    complete: there must be a record at every offset; otherwise OffsetCompacted is raised.
    """
    states: dict[bytes | None, tuple[int, Any]] = {}
    expected = part.start
    for batch in records(part, columns):
        expected = _behind(batch, expected, complete=complete)
        for record in _rows(batch):
            key = record.key if per_key else None
            known = states.get(key)
            try:
                state = machine.apply(machine.initial() if known is None else known[1], record)
            except Exception as error:
                raise _refusal(machine, part.topic, part.partition, record, error) from error
            states[key] = record.offset, state
    if complete and expected != part.stop:
        raise _gap(expected, part.stop)
    ends = ((key, offset, machine.encode(state)) for key, (offset, state) in states.items())
    yield from _batches(_State(part.topic, part.partition, *end) for end in ends)


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
        for topic, partition, record in zip(topics, partitions, _rows(batch), strict=True):
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
            except Exception as error:
                raise _refusal(machine, topic, partition, record, error) from error
    if run is not None:
        yield _State(*run, offset, machine.encode(state))


def _refusal(machine: Machine[Any], topic: str, partition: int, record: Record, error: Exception) -> InvalidArgument:
    return InvalidArgument(
        f"{type(machine).__name__} rejected offset {record.offset} of partition {partition} of topic {topic!r}: "
        f"{type(error).__name__}: {error}"
    )


def _rows(batch: pa.RecordBatch) -> Iterator[Record]:
    """Yield the rows of a batch as records."""
    columns = [
        batch.column("offset").to_pylist(),
        batch.column("timestamp").cast(pa.int64()).to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
    ]
    if "headers" not in batch.schema.names:
        yield from map(Record, *columns)
        return
    for offset, timestamp, key, value, pairs in zip(*columns, batch.column("headers").to_pylist(), strict=True):
        named = tuple((pair["key"], pair["value"]) for pair in pairs) if pairs else _NO_HEADERS
        yield Record(offset, timestamp, key, value, named)


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
