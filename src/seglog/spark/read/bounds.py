"""Where each log's part of a read starts and ends: the options, converted to offsets that the logs hold.

Pure, except for one question, the offset of a timestamp, which the caller answers.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from seglog.errors import InvalidArgument
from seglog.spark.read.extents import LogSnapshot
from seglog.spark.read.options import EARLIEST, LATEST, Bound, ReadOptions

FirstAt = Callable[[LogSnapshot, int], int | None]
"""Returns the first offset of a log at or after a timestamp (us), None if all records are older."""

_LOG = logging.getLogger("seglog.spark")
MICROSECONDS = 1000  # per millisecond, the unit of the options


def starts(snapshots: Sequence[LogSnapshot], options: ReadOptions, first_at: FirstAt) -> list[int]:
    """Return the start in each log. Raises InvalidArgument naming the option that does not fit."""
    return [_start(snapshot, options, first_at) for snapshot in _all_named(snapshots, options.start)]


def stops(snapshots: Sequence[LogSnapshot], options: ReadOptions, first_at: FirstAt) -> list[int]:
    """Return the stop (exclusive) in each log. Raises InvalidArgument naming the option that does not fit."""
    return [_stop(snapshot, options, first_at) for snapshot in _all_named(snapshots, options.stop)]


def check_order(snapshots: Sequence[LogSnapshot], first: list[int], last: list[int], options: ReadOptions) -> None:
    """Raise InvalidArgument for a start after the end."""
    for snapshot, start, stop in zip(snapshots, first, last, strict=True):
        if start > stop:
            raise InvalidArgument(
                f"option {options.start.option}: {snapshot} starts at {start}, after its end {stop} "
                f"({options.stop.option})"
            )


def _all_named(snapshots: Sequence[LogSnapshot], bound: Bound) -> Sequence[LogSnapshot]:
    """Require exactly the partitions that are read, as Kafka's source does, so that none is skipped silently."""
    if bound.everywhere is not None:
        return snapshots
    there = {snapshot.key for snapshot in snapshots}
    named = {(topic, partition) for topic, partitions in bound.by_topic.items() for partition in partitions}
    for topic, partition in sorted(named - there):
        raise InvalidArgument(f"option {bound.option}: there is no partition {partition} of topic {topic!r} here")
    for topic, partition in sorted(there - named):
        hint = "" if bound.by_time else ", -2 means earliest and -1 latest"
        raise InvalidArgument(
            f"option {bound.option}: partition {partition} of topic {topic!r} is missing; name all of them{hint}"
        )
    return snapshots


def _wanted(snapshot: LogSnapshot, bound: Bound) -> int:
    return bound.by_topic[snapshot.topic][snapshot.partition] if bound.everywhere is None else bound.everywhere


def _start(snapshot: LogSnapshot, options: ReadOptions, first_at: FirstAt) -> int:
    bound = options.start
    if not bound.by_time:
        return _inside(snapshot, bound, options)
    moment = _wanted(snapshot, bound)
    offset = first_at(snapshot, moment * MICROSECONDS)
    if offset is not None and offset < snapshot.next_offset:
        return offset
    if options.late_start == "error":
        raise InvalidArgument(
            f"option {bound.option}: {snapshot} has no record of {moment} ms or later; "
            "with startingOffsetsByTimestampStrategy latest it starts at its end"
        )
    return snapshot.next_offset


def _stop(snapshot: LogSnapshot, options: ReadOptions, first_at: FirstAt) -> int:
    if not options.stop.by_time:
        return _inside(snapshot, options.stop, options)
    offset = first_at(snapshot, _wanted(snapshot, options.stop) * MICROSECONDS)
    return snapshot.next_offset if offset is None else min(offset, snapshot.next_offset)


def _inside(snapshot: LogSnapshot, bound: Bound, options: ReadOptions) -> int:
    """Return the requested offset. Outside the log it is an error, or moved if loss is allowed."""
    wanted = _wanted(snapshot, bound)
    lowest, end = snapshot.lowest_offset, snapshot.next_offset
    offset = {EARLIEST: lowest, LATEST: end}.get(wanted, wanted)
    if lowest <= offset <= end:
        return offset
    holds = f"{lowest} up to, not including, {end}"
    text = f"option {bound.option}: offset {offset} is outside {snapshot}, which holds {holds}"
    if options.fail_on_data_loss:
        raise InvalidArgument(text)
    _LOG.warning("%s; continuing at the nearest offset", text)
    return min(max(offset, lowest), end)
