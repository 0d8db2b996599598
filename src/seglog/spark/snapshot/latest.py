"""The latest record of every key of one log, by two passes over its Arrow batches. Runs in a task; knows no Spark."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seglog.errors import OffsetCompacted
from seglog.spark.jobs.pins import Pin, check_latest
from seglog.spark.jobs.tasks import MARK, records
from seglog.spark.read.plan import OffsetRange

SKIP_OFFSETS = 100_000  # a shorter gap is read through: seeking costs more
MERGE_ROWS = 1_000_000  # candidates collected before they are merged, which limits the memory

Offsets = np.ndarray[Any, np.dtype[np.int64]]


def latest_records(one: Pin, *, columns: Sequence[str], complete: bool = True) -> Iterator[pa.RecordBatch]:
    """Yield the last record of every key in the range of one log, by offset; `columns` must include offset.

    complete: raise OffsetCompacted if a record may have been removed since the pin was taken; a removal after that
    check always raises.
    """
    part = one.range
    last, passed = latest_offsets(part), 0
    if complete:
        check_latest(one)  # before the first row: later removals are noticed below
    for start, stop in _stretches(last):
        for batch in records(replace(part, start=start, stop=stop), columns):
            offsets = batch.column("offset").to_numpy()
            wanted = last[passed : np.searchsorted(last, offsets[-1], side="right")]
            rows = np.minimum(np.searchsorted(offsets, wanted), offsets.size - 1)
            _check_there(wanted, offsets[rows])
            passed += wanted.size
            if wanted.size:
                yield batch.take(pa.array(rows))
    _check_there(last[passed:], last[:0])


def without_marks(
    batches: Iterator[pa.RecordBatch], *, pins: Sequence[Pin], complete: bool
) -> Iterator[pa.RecordBatch]:
    """Yield rows of topic, partition, offset without the marks; at a mark its log is checked."""
    logs = {(one.range.topic, one.range.partition): one for one in pins}
    for batch in batches:
        marks = pc.equal(batch.column("offset"), MARK)
        if complete:
            for row in batch.filter(marks).to_pylist():
                check_latest(logs[row["topic"], row["partition"]])
        yield batch.filter(pc.invert(marks))


def _check_there(wanted: Offsets, found: Offsets) -> None:
    """Raise if a record is missing: compaction may have removed it since its offset was found."""
    if not np.array_equal(wanted, found):
        gone = next(int(offset) for offset in wanted if offset not in found)
        error = OffsetCompacted(gone, gone + 1)
        error.add_note("compaction removed it since the job was planned; run the job again")
        raise error


def latest_offsets(part: OffsetRange) -> Offsets:
    """Return the greatest offset of every key, ascending."""
    merged, fresh, waiting = _EMPTY, [], 0
    for batch in records(part, ("key", "offset")):
        table = pa.Table.from_batches([batch])
        last = _greatest(table.filter(table["key"].is_valid()))
        fresh.append(last)
        waiting += last.num_rows
        if waiting > max(MERGE_ROWS, merged.num_rows):
            merged, fresh, waiting = _greatest(pa.concat_tables([merged, *fresh])), [], 0
    offsets: Offsets = np.sort(_greatest(pa.concat_tables([merged, *fresh]))["offset"].to_numpy())
    return offsets


_EMPTY = pa.table({"key": pa.array([], pa.binary()), "offset": pa.array([], pa.int64())})


def _greatest(table: pa.Table) -> pa.Table:
    return table.group_by("key").aggregate([("offset", "max")]).rename_columns(["key", "offset"])


def _stretches(last: Offsets) -> Iterator[tuple[int, int]]:
    """Yield the ranges that contain the offsets, without long gaps that contain none."""
    if last.size:
        ends = np.flatnonzero(np.diff(last) > SKIP_OFFSETS)
        for low, high in zip([0, *(ends + 1)], [*ends, last.size - 1], strict=True):
            yield int(last[low]), int(last[high]) + 1
