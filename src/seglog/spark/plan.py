"""Which input partitions a read has: the segments of a snapshot cut and joined into ranges of offsets.

Pure: a snapshot and options in, ranges out. Rules, in this order:
1. each log is read from its start to its stop, which must lie inside what the log holds;
2. ranges follow segments; neighbours are joined while that leaves about TASKS tasks, each up to TASK_BYTES;
3. a range above TASK_BYTES or maxRecordsPerPartition is cut into equal parts;
4. if there are fewer ranges than minPartitions, the longest are cut further.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.spark.options import EARLIEST, LATEST

if TYPE_CHECKING:
    from collections.abc import Sequence

    from seglog.spark.options import OffsetBound, ReadOptions

TASK_BYTES = 128 * 1024 * 1024  # as Spark's own files: large enough that a task's fixed cost vanishes
# A Python task costs Spark some 60 ms of a core before it reads a byte (84 empty ones: 2.6 s on two cores), so
# many small segments are read together; but joining them into fewer tasks than this would idle cores. minPartitions
# asks for more.
TASKS = 16


@dataclass(frozen=True, slots=True)
class Extent:
    """One segment in a snapshot: offsets start .. stop (exclusive), and the bytes of its records."""

    start: int
    stop: int
    bytes: int


@dataclass(frozen=True, slots=True)
class LogSnapshot:
    """What one log held when the read was planned. next_offset is exclusive; extents are in order."""

    topic: str
    partition: int
    path: str
    lowest_offset: int
    next_offset: int
    extents: tuple[Extent, ...]


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets start .. stop (exclusive) of one log; bytes is an estimate."""

    topic: str
    partition: int
    path: str
    start: int
    stop: int
    bytes: int


def plan_read(snapshots: Sequence[LogSnapshot], options: ReadOptions) -> list[OffsetRange]:
    """Return the ranges to read, in order of partition and offset, without empty ones.

    Raises InvalidArgument that names startingOffsets or endingOffsets where these do not fit the snapshots.
    """
    starts, stops = _resolve(snapshots, options.start), _resolve(snapshots, options.stop)
    ranges: list[OffsetRange] = []
    for snapshot, start, stop in zip(snapshots, starts, stops, strict=True):
        if start > stop:
            raise InvalidArgument(
                f"option {options.start.option}: partition {snapshot.partition} of topic {snapshot.topic!r} "
                f"starts at {start}, behind its end {stop} ({options.stop.option})"
            )
        ranges += _clip(snapshot, start, stop)
    ranges = _join(ranges)
    ranges = [part for whole in ranges for part in _cut_to_size(whole, options.max_records_per_partition)]
    return _cut_to_count(ranges, options.min_partitions or 1)


def _resolve(snapshots: Sequence[LogSnapshot], bound: OffsetBound) -> list[int]:
    if bound.everywhere is None:
        _check_names(snapshots, bound)
    offsets = []
    for snapshot in snapshots:
        wanted = bound.everywhere
        if wanted is None:
            wanted = bound.by_topic[snapshot.topic][snapshot.partition]
        known = {EARLIEST: snapshot.lowest_offset, LATEST: snapshot.next_offset}
        offset = known.get(wanted, wanted)
        if not snapshot.lowest_offset <= offset <= snapshot.next_offset:
            raise InvalidArgument(
                f"option {bound.option}: offset {offset} is outside partition {snapshot.partition} of topic "
                f"{snapshot.topic!r}, which holds {snapshot.lowest_offset} up to, not including, "
                f"{snapshot.next_offset}"
            )
        offsets.append(offset)
    return offsets


def _check_names(snapshots: Sequence[LogSnapshot], bound: OffsetBound) -> None:
    """Demand exactly the partitions that exist, as Kafka's source does: a forgotten one would be lost in
    silence.
    """
    there = {(snapshot.topic, snapshot.partition) for snapshot in snapshots}
    named = {(topic, partition) for topic, partitions in bound.by_topic.items() for partition in partitions}
    for topic, partition in sorted(named - there):
        raise InvalidArgument(f"option {bound.option}: there is no partition {partition} of topic {topic!r} here")
    for topic, partition in sorted(there - named):
        raise InvalidArgument(
            f"option {bound.option}: partition {partition} of topic {topic!r} is missing; name all of them, "
            "-2 stands for earliest and -1 for latest"
        )


def _clip(snapshot: LogSnapshot, start: int, stop: int) -> list[OffsetRange]:
    """Return the parts of a snapshot's segments inside start .. stop; bytes shrink in proportion."""
    ranges = []
    for extent in snapshot.extents:
        low, high = max(extent.start, start), min(extent.stop, stop)
        if low < high:
            share = extent.bytes * (high - low) // (extent.stop - extent.start)
            ranges.append(OffsetRange(snapshot.topic, snapshot.partition, snapshot.path, low, high, share))
    return ranges


def _join(ranges: list[OffsetRange]) -> list[OffsetRange]:
    target = min(TASK_BYTES, sum(part.bytes for part in ranges) // TASKS)
    joined: list[OffsetRange] = []
    for part in ranges:
        last = joined[-1] if joined else None
        if last is not None and last.path == part.path and last.bytes + part.bytes <= target:
            joined[-1] = OffsetRange(
                last.topic, last.partition, last.path, last.start, part.stop, last.bytes + part.bytes
            )
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
    """Cut ranges in proportion to their length so that there are at least `least`, if there are offsets
    enough.
    """
    if not ranges or len(ranges) >= least:
        return ranges
    total = sum(part.stop - part.start for part in ranges)
    return [part for whole in ranges for part in _cut(whole, -(-(whole.stop - whole.start) * least // total))]


def _cut(whole: OffsetRange, parts: int) -> list[OffsetRange]:
    """Cut a range into `parts` of equal length (+-1), fewer if it has fewer offsets; none is empty."""
    length = whole.stop - whole.start
    parts = max(1, min(parts, length))
    edges = [whole.start + length * number // parts for number in range(parts + 1)]
    return [
        OffsetRange(whole.topic, whole.partition, whole.path, low, high, whole.bytes // parts)
        for low, high in pairwise(edges)
    ]
