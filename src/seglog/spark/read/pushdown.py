"""Filters that Spark pushes down, as ranges: excluded records are not read, the rest is filtered exactly.

Spark does not check an accepted filter again. So a filter is accepted only if `Restriction` represents it exactly:
=, <=>, <, <=, >, >=, IN and IS NOT NULL on offset, timestamp and partition, =, <=>, IN and IS NOT NULL on topic. Pure;
knows filters by their class names, so it needs no Spark.

Timestamps need not grow with offsets. So a timestamp filter skips segments by their least and greatest timestamp, and
filters the others row by row.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from seglog.clock import microseconds

if TYPE_CHECKING:
    from seglog.spark.read.extents import Extent

Intervals = tuple[tuple[int, int], ...]
"""Ranges of whole numbers, first .. last (exclusive), sorted and disjoint."""

LOWEST, HIGHEST = -(2**63), 2**63
ALL: Intervals = ((LOWEST, HIGHEST),)


@dataclass(frozen=True, slots=True)
class Restriction:
    """The wanted rows: those inside all of these. timestamps in us; topics None: all."""

    offsets: Intervals = ALL
    timestamps: Intervals = ALL
    partitions: Intervals = ALL
    topics: frozenset[str] | None = None

    def admits(self, topic: str, partition: int) -> bool:
        """Whether a partition can have wanted rows."""
        named = self.topics is None or topic in self.topics
        return named and any(low <= partition < high for low, high in self.partitions)

    def may_be_in(self, extent: Extent) -> bool:
        """Whether a segment can hold wanted rows, judging by its timestamps."""
        if extent.min_timestamp is None or extent.max_timestamp is None:
            return bool(self.timestamps)
        return any(low <= extent.max_timestamp and extent.min_timestamp < high for low, high in self.timestamps)

    def hull(self, start: int, stop: int) -> tuple[int, int]:
        """Return the smallest range that contains all wanted offsets of start .. stop; empty: (start, start)."""
        first = bisect_right(self.offsets, start, key=lambda interval: interval[1])
        last = bisect_left(self.offsets, stop, key=lambda interval: interval[0]) - 1
        if first > last or start >= stop:
            return start, start
        return max(self.offsets[first][0], start), min(self.offsets[last][1], stop)

    def and_filter(self, pushed: Any) -> Restriction | None:
        """Return the restriction with a filter added; None if it cannot be represented exactly."""
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
    """Return the restriction of the filters, and the filters that Spark must check itself."""
    restriction, left = EVERYTHING, []
    for one in filters:
        narrower = restriction.and_filter(one)
        if narrower is None:
            left.append(one)
        else:
            restriction = narrower
    return restriction, left


def _values(kind: str, value: Any) -> list[Any]:
    """Return the values a filter compares with. A null in an IN list never makes a row wanted."""
    if kind != "In":
        return [value]
    return [one for one in value if one is not None]


def _number(column: str, value: Any) -> int | None:
    """Return a value in the column's unit: a timestamp in us; None for another type."""
    if column == "timestamp":
        aware = isinstance(value, datetime) and value.tzinfo is not None
        return microseconds(value) if aware else None
    return value if type(value) is int else None


def _intervals(kind: str, values: list[int]) -> Intervals | None:
    """Return the numbers that satisfy the comparison; None for a filter of another kind."""
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
    """Return sorted intervals with adjacent ones joined."""
    result: list[tuple[int, int]] = []
    for low, high in intervals:
        if result and low <= result[-1][1]:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def _both(left: Intervals, right: Intervals) -> Intervals:
    """Return the intersection."""
    parts = [(max(a, c), min(b, d)) for a, b in left for c, d in right]
    return tuple(sorted((low, high) for low, high in parts if low < high))
