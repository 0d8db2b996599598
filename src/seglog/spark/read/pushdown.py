"""Filters that Spark hands down, as ranges: what they rule out is not read, what remains is filtered exactly.

A filter that is accepted is not checked again by Spark. So a filter is accepted only if `Restriction` stands for it
exactly: =, <=>, <, <=, >, >=, IN and IS NOT NULL on offset, timestamp and partition, =, <=>, IN and IS NOT NULL on
topic. Pure; knows filters by the names of their classes, so that no Spark is needed here.

Timestamps need not grow with offsets. So a timestamp filter leaves out segments by their least and greatest timestamp,
and what is read is filtered row by row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seglog.spark.read.extents import Extent

Intervals = tuple[tuple[int, int], ...]
"""Ranges of whole numbers, first .. last (exclusive), ordered and apart."""

LOWEST, HIGHEST = -(2**63), 2**63
ALL: Intervals = ((LOWEST, HIGHEST),)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Restriction:
    """The rows that are wanted: those inside all of these. timestamps in us; topics None: all."""

    offsets: Intervals = ALL
    timestamps: Intervals = ALL
    partitions: Intervals = ALL
    topics: frozenset[str] | None = None

    def admits(self, topic: str, partition: int) -> bool:
        """Whether any row of a partition can be wanted."""
        named = self.topics is None or topic in self.topics
        return named and any(low <= partition < high for low, high in self.partitions)

    def may_be_in(self, extent: Extent) -> bool:
        """Whether a segment can hold a row that is wanted, by its timestamps."""
        if extent.min_timestamp is None or extent.max_timestamp is None:
            return bool(self.timestamps)
        return any(low <= extent.max_timestamp and extent.min_timestamp < high for low, high in self.timestamps)

    def hull(self, start: int, stop: int) -> tuple[int, int]:
        """Return the least range of offsets that holds all that are wanted of start .. stop; empty: (start, start)."""
        first = bisect_right(self.offsets, start, key=lambda interval: interval[1])
        last = bisect_left(self.offsets, stop, key=lambda interval: interval[0]) - 1
        if first > last or start >= stop:
            return start, start
        return max(self.offsets[first][0], start), min(self.offsets[last][1], stop)

    def and_filter(self, pushed: Any) -> Restriction | None:
        """Return the rows that a filter wants as well; None where that cannot be said exactly."""
        column, kind = ".".join(getattr(pushed, "attribute", ())), type(pushed).__name__
        if column not in ("topic", "offset", "timestamp", "partition"):
            return None
        if kind == "IsNotNull":
            return self
        values = _values(kind, getattr(pushed, "value", None))
        if column == "topic":
            return self._and_topics(kind, values)
        numbers = [_number(column, value) for value in values]
        known = [number for number in numbers if number is not None]
        wanted = _intervals(kind, known) if len(known) == len(numbers) else None
        if wanted is None:
            return None
        if column == "offset":
            return replace(self, offsets=_both(self.offsets, wanted))
        if column == "timestamp":
            return replace(self, timestamps=_both(self.timestamps, wanted))
        return replace(self, partitions=_both(self.partitions, wanted))

    def _and_topics(self, kind: str, values: list[Any]) -> Restriction | None:
        if kind not in ("EqualTo", "EqualNullSafe", "In") or not all(isinstance(value, str) for value in values):
            return None
        names = frozenset(values)
        return replace(self, topics=names if self.topics is None else self.topics & names)


EVERYTHING = Restriction()


def push(filters: Iterable[Any]) -> tuple[Restriction, list[Any]]:
    """Return what the filters want together, and the filters that Spark has to check itself."""
    restriction, left = EVERYTHING, []
    for one in filters:
        narrower = restriction.and_filter(one)
        if narrower is None:
            left.append(one)
        else:
            restriction = narrower
    return restriction, left


def _values(kind: str, value: Any) -> list[Any]:
    """Return what a filter compares with. A null in an IN list never makes a row wanted."""
    if kind != "In":
        return [value]
    return [one for one in value if one is not None]


def _number(column: str, value: Any) -> int | None:
    """Return a value as the column counts: a timestamp in us; None where it is of another kind."""
    if column == "timestamp":
        aware = isinstance(value, datetime) and value.tzinfo is not None
        return (value - _EPOCH) // timedelta(microseconds=1) if aware else None
    return value if type(value) is int else None


def _intervals(kind: str, values: list[int]) -> Intervals | None:
    """Return the numbers that compare so; None for a filter of another kind."""
    if kind in ("EqualTo", "EqualNullSafe", "In"):
        return _joined((value, value + 1) for value in sorted(values))
    low, high = {
        "LessThan": (LOWEST, values[0]),
        "LessThanOrEqual": (LOWEST, values[0] + 1),
        "GreaterThan": (values[0] + 1, HIGHEST),
        "GreaterThanOrEqual": (values[0], HIGHEST),
    }.get(kind, (0, -1))
    return None if high < low else ((low, high),)


def _joined(intervals: Iterable[tuple[int, int]]) -> Intervals:
    """Return ordered intervals with those that touch made one."""
    result: list[tuple[int, int]] = []
    for low, high in intervals:
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def _both(left: Intervals, right: Intervals) -> Intervals:
    """Return what lies in both."""
    parts = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return tuple(sorted((low, high) for low, high in parts if low < high))
