"""The input partitions of a read: the segments of snapshots, split and joined into ranges of offsets.

Pure: what to read in, ranges out. Rules, in this order:
1. each log is read from its start to its stop;
2. ranges follow segments; neighbours are joined while at least about TASKS tasks remain, each up to TASK_BYTES;
3. a range above TASK_BYTES or maxRecordsPerPartition is split into equal parts;
4. if there are fewer ranges than minPartitions, the longest are split further.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

from seglog.spark.read.data_loss import Position

if TYPE_CHECKING:
    from seglog.log.history import Snapshot
    from seglog.spark.read.extents import Extent, LogSnapshot
    from seglog.spark.read.options import ReadOptions

TASK_BYTES = 128 * 1024 * 1024  # as for Spark's own files: large enough to hide a task's fixed cost
# A Python task costs Spark about 60 ms of a core before it reads a byte (84 empty ones: 2.6 s on two cores), so small
# segments are read together; but fewer tasks than this would leave cores idle. minPartitions asks for more.
TASKS = 16


@dataclass(frozen=True, slots=True)
class Share:
    """What is read of one log: offsets start .. stop (exclusive).

    position: the end of the read, by which a task can check that it reads what was planned.
    """

    snapshot: LogSnapshot
    start: int
    stop: int
    position: Position


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets start .. stop (exclusive) of one log; bytes is an estimate. position: as in Share, for `stop`.

    snapshot, extents: what the range held when it was planned, if it is to be read as it was then.
    """

    topic: str
    partition: int
    path: str
    start: int
    stop: int
    bytes: int
    position: Position
    snapshot: Snapshot | None = None
    extents: tuple[Extent, ...] = ()


@dataclass(frozen=True, slots=True)
class Figures:
    """What a plan reads of the selected logs, and skips of them: logs, segments, bytes of stores (parts in proportion).

    records: offsets in the ranges, an upper bound of the records after compaction.
    """

    logs: int
    logs_skipped: int
    segments: int
    segments_skipped: int
    bytes: int
    bytes_skipped: int
    records: int
    tasks: int


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The ranges to read, by partition and offset, none empty; and their figures."""

    ranges: list[OffsetRange]
    figures: Figures


def plan_read(shares: Sequence[Share], options: ReadOptions, *, least_bytes: int = 0) -> ReadPlan:
    """Divide what is to be read; neighbours below `least_bytes` in total are always joined."""
    pieces = [piece for share in shares for piece in _pieces(share)]
    target = min(TASK_BYTES, max(sum(piece.bytes for piece in pieces) // TASKS, least_bytes))
    ranges = _cut_to_count(
        [part for whole in _join(pieces, target) for part in _cut_to_size(whole, options.max_records_per_partition)],
        options.min_partitions or 1,
    )
    return ReadPlan(ranges, _figures(shares, pieces, len(ranges)))


def as_planned(plan: ReadPlan, snapshots: Iterable[LogSnapshot]) -> ReadPlan:
    """Return the plan with ranges that are read as these snapshots show them, however the logs change meanwhile."""
    by_path = {one.path: one for one in snapshots}
    return replace(plan, ranges=[_as_in(by_path[part.path], part) for part in plan.ranges])


def _as_in(log: LogSnapshot, part: OffsetRange) -> OffsetRange:
    snapshot = log.snapshot_of(part.start, part.stop)
    return replace(part, snapshot=snapshot, extents=log.between(part.start, part.stop))


def _pieces(share: Share) -> Iterable[OffsetRange]:
    """Yield what is read of each segment; bytes shrink in proportion."""
    for extent in share.snapshot.extents:
        low, high = max(extent.start, share.start), min(extent.stop, share.stop)
        if low < high:
            yield _piece(share, extent, low, high)


def _piece(share: Share, extent: Extent, low: int, high: int) -> OffsetRange:
    size = extent.bytes * (high - low) // (extent.stop - extent.start)
    position = replace(share.position, offset=high, file=extent.file) if high < share.stop else share.position
    return OffsetRange(share.snapshot.topic, share.snapshot.partition, share.snapshot.path, low, high, size, position)


def _join(pieces: list[OffsetRange], target: int) -> list[OffsetRange]:
    joined: list[OffsetRange] = []
    for part in pieces:
        last = joined[-1] if joined else None
        if last is not None and (last.path, last.stop) == (part.path, part.start) and last.bytes + part.bytes <= target:
            joined[-1] = replace(part, start=last.start, bytes=last.bytes + part.bytes)
        else:
            joined.append(part)
    return joined


def _cut_to_size(whole: OffsetRange, max_records: int | None) -> list[OffsetRange]:
    parts = -(-whole.bytes // TASK_BYTES)
    if max_records is not None:
        # Offsets, not records: in a compacted log a part may hold fewer, never more.
        parts = max(parts, -(-(whole.stop - whole.start) // max_records))
    return _cut(whole, parts)


def _cut_to_count(ranges: list[OffsetRange], least: int) -> list[OffsetRange]:
    """Split ranges in proportion to their length into at least `least`, if there are enough offsets."""
    if not ranges or len(ranges) >= least:
        return ranges
    total = sum(part.stop - part.start for part in ranges)
    return [part for whole in ranges for part in _cut(whole, -(-(whole.stop - whole.start) * least // total))]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Split a range into `parts` of equal length (+-1), fewer if it has fewer offsets; none is empty.

    All keep the position of the whole: they exist as long as its end does.
    """
    length = whole.stop - whole.start
    parts = max(1, min(parts, length))
    edges = [whole.start + length * number // parts for number in range(parts + 1)]
    return [replace(whole, start=low, stop=high, bytes=whole.bytes // parts) for low, high in pairwise(edges)]


def _figures(shares: Sequence[Share], pieces: list[OffsetRange], tasks: int) -> Figures:
    held = [extent for share in shares for extent in share.snapshot.extents if extent.start < extent.stop]
    read, read_bytes = len({(piece.path, piece.position.file) for piece in pieces}), sum(p.bytes for p in pieces)
    logs = len({piece.path for piece in pieces})
    return Figures(
        logs=logs,
        logs_skipped=len(shares) - logs,
        segments=read,
        segments_skipped=len(held) - read,
        bytes=read_bytes,
        bytes_skipped=sum(extent.bytes for extent in held) - read_bytes,
        records=sum(piece.stop - piece.start for piece in pieces),
        tasks=tasks,
    )
