"""What the copies of a log have on their disks, and how many of them have a record.

A copy reports an offset, before which it has every record on its disk, with the epoch of that offset in the copy. The
report counts only as long as the offset has the same epoch in this log: if it was cut below, the copy has records that
are no longer part of it. So a report is never wrong, however late it comes.

Copies that are made by path report through their pins. Those of a server report with their requests; these reports are
in memory only, because after a restart each copy makes them again.
"""

from __future__ import annotations

import threading
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from seglog.clock import ticks
from seglog.errors import InvalidArgument
from seglog.log.pins import Pin, read_copies
from seglog.record import checked_offset

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seglog.clock import Clock
    from seglog.format.cuts import Cuts
    from seglog.storage import Storage

MOST_COPIES = 100
LOOK_SECONDS = 0.005  # between two readings of the pins while a caller waits


class Complete(NamedTuple):
    """When a copy last had every record (since, None: never), by its last report. at: of that report.

    Times are microseconds of a clock that measures durations (`seglog.clock.ticks`). end: of the log at that time.
    """

    at: int
    end: int
    since: int | None


class Copies:
    """The reports of the copies of one log. Safe for threads."""

    def __init__(self, storage: Storage, clock: Clock = ticks) -> None:
        """clock: measures durations."""
        self._storage = storage
        self._clock = clock
        self._changed = threading.Condition()
        self._reported: dict[str, Pin] = {}
        self._complete: dict[str, Complete] = {}
        self._read: dict[str, Pin] = {}
        self._read_at = float("-inf")

    def report(self, name: str, pin: Pin, end: int) -> None:
        """Take the report of a copy, and wake those who wait. end: of the log now."""
        with self._changed:
            self._complete[name] = _complete(self._complete.get(name), pin, end, self._clock())
            self._reported[name] = pin
            self._changed.notify_all()

    def complete_at(self, name: str) -> int | None:
        """Return when a copy that reports here last had every record, see `Complete`.

        None: it never had, or reports by path.
        """
        with self._changed:
            found = self._complete.get(name)
            return None if found is None else found.since

    def forget(self, name: str) -> None:
        """Forget what a copy reported here: its pin was set otherwise, or removed."""
        with self._changed:
            self._reported.pop(name, None)
            self._complete.pop(name, None)
            self._read_at = float("-inf")

    def reports(self, age: float = 0.0) -> dict[str, list[Pin]]:
        """Return by copy what it has reported. age: seconds since which reports by path may be missing."""
        with self._changed:
            if monotonic() - self._read_at >= age:
                self._read = read_copies(self._storage)
                self._read_at = monotonic()
            found = {name: [pin] for name, pin in self._reported.items()}
            for name, pin in self._read.items():
                found.setdefault(name, []).append(pin)
            return found

    def wait(self, seconds: float) -> None:
        """Return at the next report, or after `seconds`, LOOK_SECONDS at most."""
        with self._changed:
            self._changed.wait(min(seconds, LOOK_SECONDS))


def _complete(before: Complete | None, pin: Pin, end: int, now: int) -> Complete:
    """Return when a copy last had every record, after its report at `now`.

    While records are appended, a report has those of the one before it.
    """
    if pin.offset >= end:
        return Complete(now, end, now)
    if before is not None and pin.offset >= before.end:
        return Complete(now, end, before.at)
    return Complete(now, end, None if before is None else before.since)


def held(reports: dict[str, list[Pin]], cuts: Cuts, end: int) -> dict[str, int]:
    """Return by copy the offset before which it has every record of this log on its disk.

    Omits copies of which that is not known. cuts, end: of the log at one moment.
    """
    found = {name: [pin.offset for pin in pins if _agrees(pin, cuts, end)] for name, pins in reports.items()}
    return {name: max(offsets) for name, offsets in found.items() if offsets}


def _agrees(pin: Pin, cuts: Cuts, end: int) -> bool:
    return pin.offset <= end and cuts.epoch_at(pin.offset) == pin.epoch


def mirrored_offset(offsets: Iterable[int], copies: int) -> int:
    """Return the offset before which `copies` copies have every record; 0 if there are fewer."""
    ordered = sorted(offsets, reverse=True)
    return ordered[copies - 1] if len(ordered) >= copies else 0


def checked_copies(copies: object) -> int:
    """Return a number of copies. Raises InvalidType or InvalidArgument."""
    number = checked_offset(copies, "copies")
    if not 1 <= number <= MOST_COPIES:
        raise InvalidArgument(f"copies is {number}; it must be between 1 and {MOST_COPIES}")
    return number
