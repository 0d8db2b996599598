"""Which records a command reads: by offset, by time, the first N, by filters. Chosen purely, then read.

Knows a source's partitions, but no formats or files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

from seglog.cli.filters import FILTERS, filter_from
from seglog.cli.frame import Args, option
from seglog.cli.source import Row, Source, in_time_order
from seglog.errors import InvalidArgument, OffsetOutOfRange
from seglog.terminal.units import parse_count, parse_moment, parse_position

if TYPE_CHECKING:
    from seglog.record import Record

_GROUP = "Which records (default: all)"
SELECTION = (
    option(
        "--start",
        metavar="OFFSET",
        type=parse_position,
        help="the first offset (inclusive); -10: the last ten; applies to every partition of a topic",
        group=_GROUP,
    ),
    option(
        "--stop",
        metavar="OFFSET",
        type=parse_position,
        help="the offset to end before (exclusive); -10: without the last ten",
        group=_GROUP,
    ),
    option(
        "--from-time",
        metavar="TIME",
        type=parse_moment,
        help="only timestamps from here on: ISO 8601 (UTC if no zone is given), '1h ago', now, today, yesterday, "
        "@seconds, or int microseconds",
        group=_GROUP,
    ),
    option("--to-time", metavar="TIME", type=parse_moment, help="only timestamps before this time", group=_GROUP),
    option("-n", "--limit", metavar="N", type=parse_count, help="only the first N records", group=_GROUP),
    *FILTERS,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Selection:
    """Offsets start <= offset < stop, from_time <= timestamp < to_time (us), at most `limit` records that pass `test`.

    A negative start or stop counts from the end of each partition.
    """

    start: int | None = None
    stop: int | None = None
    from_time: int | None = None
    to_time: int | None = None
    limit: int | None = None
    test: Callable[[Record], bool] | None = None

    @property
    def by_time(self) -> bool:
        """Whether the selection uses timestamps."""
        return self.from_time is not None or self.to_time is not None

    def takes(self, record: Record) -> bool:
        """Return whether a record is in the time range and passes the filters."""
        return (
            (self.from_time is None or record.timestamp >= self.from_time)
            and (self.to_time is None or record.timestamp < self.to_time)
            and (self.test is None or self.test(record))
        )


def selection_from(args: Args) -> Selection:
    """Return the selection that the SELECTION options give. Raises InvalidArgument if they mix offsets and times."""
    chosen = Selection(
        start=args.start,
        stop=args.stop,
        from_time=args.from_time,
        to_time=args.to_time,
        limit=args.limit,
        test=filter_from(args),
    )
    if chosen.by_time and (chosen.start is not None or chosen.stop is not None):
        raise InvalidArgument("choose by offset (--start, --stop) or by time (--from-time, --to-time), not both")
    return chosen


def ranges(source: Source, chosen: Selection) -> dict[int, tuple[int, int]]:
    """Return partition -> offsets (start, stop) to scan; start == stop if no record is selected.

    The stop is fixed here, so that reading a growing log ends. Raises OffsetOutOfRange if the start is past the end of
    a log or partition; for a topic, only if it is past the end of every partition.
    """
    bounds = source.bounds()
    first = source.offset_at(chosen.from_time) if chosen.from_time is not None else {}
    ends = source.stop_before(chosen.to_time) if chosen.to_time is not None else {}
    last = max(bounds.values(), key=lambda one: one.end)
    if chosen.start is not None and chosen.start > last.end:
        raise OffsetOutOfRange(chosen.start, last.lowest, last.end)
    found = {}
    for number, (lowest, end) in bounds.items():
        start = max(lowest, _position(source, number, chosen.start, end, lowest))
        stop = min(end, _position(source, number, chosen.stop, end, end))
        if number in first:  # every record before it is older, even if timestamps are unordered
            at = first[number]
            start = stop if at is None else max(start, at)
        stop = min(stop, ends.get(number, stop))
        found[number] = (min(start, end), max(min(start, end), stop))
    return found


def _position(source: Source, number: int, asked: int | None, end: int, default: int) -> int:
    if asked is None:
        return default
    return asked if asked >= 0 else source.last(number, -asked, end)


def records(source: Source, chosen: Selection) -> Iterator[Row]:
    """Yield the selected records: of one partition by offset, of several merged by time."""
    if chosen.limit == 0:
        return
    scans = [_scan(source, number, *span) for number, span in ranges(source, chosen).items() if span[0] < span[1]]
    if not scans:
        return
    found = in_time_order(scans)
    if chosen.by_time or chosen.test is not None:
        found = (row for row in found if chosen.takes(row[1]))
    yield from islice(found, chosen.limit)


def _scan(source: Source, number: int, start: int, stop: int) -> Iterator[Row]:
    return ((number, record) for record in source.scan(number, start, stop))


def last_records(source: Source, count: int, ends: dict[int, int]) -> Iterator[Row]:
    """Yield the last `count` records before `ends`, merged by time. Holds one value per partition."""
    starts = {number: source.last(number, count, end) for number, end in ends.items()}
    if len(ends) > 1:
        _keep_latest(source, count, starts, ends)
    yield from in_time_order([_scan(source, number, start, ends[number]) for number, start in starts.items()])


def _keep_latest(source: Source, count: int, starts: dict[int, int], ends: dict[int, int]) -> None:
    """Advance the starts of several partitions so that the latest `count` records follow in total."""
    scans = [
        (
            (number, record._replace(key=None, value=None))
            for number, record in _scan(source, number, start, ends[number])
        )
        for number, start in starts.items()
    ]
    rows = [(number, record.offset) for number, record in in_time_order(scans)]
    for number, offset in rows[: max(0, len(rows) - count)]:
        starts[number] = offset + 1
