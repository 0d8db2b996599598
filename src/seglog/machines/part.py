"""The contract of what is replayed: one partition at one moment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from seglog.log.history import Trace
from seglog.record import Record


class Part(Protocol):
    """One partition at one moment: later appends and truncates do not change it.

    name: for errors. lowest, end: its offsets; initial: the first offset that was ever assigned.
    """

    name: str
    lowest: int
    end: int
    initial: int

    def trace_of(self, offset: int) -> Trace:
        """Return the history before an offset; see log/history.py."""
        ...

    def offset_at(self, timestamp: int) -> int | None:
        """Return the first offset with this timestamp (us) or a later one."""
        ...

    def read(self, offset: int) -> Record | None:
        """Return a record; None if there is none at the offset, or it is damaged."""
        ...

    def pieces(self, start: int, stop: int) -> Iterator[list[Record]]:
        """Yield the records start <= offset < stop in lists of moderate size."""
        ...


def partition_name(topic: str, number: int) -> str:
    """Return how errors name a partition."""
    return f"partition {number} of topic {topic!r}"
