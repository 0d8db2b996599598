"""Which records of a log a command means: by offset, by time, the first so many. Decided purely, then read.

Knows the log's public API and nothing of formats or files.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from seglog.cli.frame import Args, option
from seglog.errors import InvalidArgument, OffsetOutOfRange
from seglog.terminal.units import parse_count, parse_offset, parse_time

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seglog.log.info import SegmentInfo
    from seglog.log.log import Log
    from seglog.record import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Offsets start <= offset < stop, from_time <= timestamp < to_time (us), at most `limit` records."""

    start: int | None = None
    stop: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    limit: int | None = None

    @property
    def by_time(self) -> bool:
        """Whether timestamps are looked at."""
        return self.from_time is not None or self.to_time is not None

    def takes(self, timestamp: int) -> bool:
        """Tell whether a record of this timestamp (us) is meant."""
        return (self.from_time is None or timestamp >= self.from_time) and (
            self.to_time is None or timestamp < self.to_time
        )


_GROUP = "Which records (default: all)"
SELECTION = (
    option("--start", metavar="OFFSET", type=parse_offset, help="the first offset (inclusive)", group=_GROUP),
    option("--stop", metavar="OFFSET", type=parse_offset, help="the offset to end before (exclusive)", group=_GROUP),
    option(
        "--from-time",
        metavar="TIME",
        type=parse_time,
        help="only timestamps from here on: ISO 8601 (UTC where no zone is given) or int microseconds",
        group=_GROUP,
    ),
    option("--to-time", metavar="TIME", type=parse_time, help="only timestamps before this time", group=_GROUP),
    option("--limit", metavar="N", type=parse_count, help="at most this many records", group=_GROUP),
)


def selection_from(args: Args) -> Selection:
    """Return what the options of SELECTION say; InvalidArgument where they mix offsets and times."""
    chosen = Selection(
        start=args.start, stop=args.stop, from_time=args.from_time, to_time=args.to_time, limit=args.limit
    )
    if chosen.by_time and (chosen.start is not None or chosen.stop is not None):
        raise InvalidArgument("choose by offset (--start, --stop) or by time (--from-time, --to-time), not both")
    return chosen


def bounds(log: Log, chosen: Selection) -> tuple[int, int]:
    """Return the offsets (start, stop) to scan; start == stop where nothing is meant.

    The stop is fixed here, so that reading a log that still grows comes to an end.
    """
    lowest, end = log.lowest_offset, log.next_offset
    if chosen.start is not None and chosen.start > end:
        raise OffsetOutOfRange(chosen.start, lowest, end)
    start = lowest if chosen.start is None else max(chosen.start, lowest)
    stop = end if chosen.stop is None else min(chosen.stop, end)
    if chosen.from_time is not None:
        found = log.offset_at(chosen.from_time)  # every record before it is older, however disordered they are
        start = stop if found is None else max(start, found)
    if chosen.to_time is not None:
        stop = min(stop, time_stop(log.segments, chosen.to_time, end))
    return start, max(start, stop)


def time_stop(segments: Sequence[SegmentInfo], to_time: int, end: int) -> int:
    """Return the offset behind which no segment holds a timestamp before `to_time` (us)."""
    for segment in reversed(segments):
        if segment.records and (segment.min_timestamp is None or segment.min_timestamp < to_time):
            break
        end = min(end, segment.base_offset)
    return end


def records(log: Log, chosen: Selection) -> Iterator[Record]:
    """Yield the chosen records in order of their offsets."""
    start, stop = bounds(log, chosen)
    if start == stop or chosen.limit == 0:
        return
    found = log.scan(start, stop)
    if chosen.by_time:
        found = (record for record in found if chosen.takes(record.timestamp))
    yield from islice(found, chosen.limit)


def tail_start(segments: Sequence[SegmentInfo], count: int, stop: int) -> int:
    """Return an offset from which on at least `count` records stand before `stop`, or all if there are fewer.

    In a dense segment that is arithmetic; one with gaps is read from its base, the caller keeps the last.
    """
    start = stop
    for segment in reversed(segments):
        if count <= 0:
            break
        end = min(segment.next_offset, stop)  # the log may have grown since `stop` was read
        start = min(start, segment.base_offset)
        if segment.dense and end - segment.base_offset >= count:
            return end - count
        count -= max(0, min(segment.records, end - segment.base_offset))
    return start
