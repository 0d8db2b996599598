"""The log's clock: integer microseconds since the epoch, UTC. Replaceable, so that tests can control age.

A duration that does not survive the process is measured by a clock that cannot be set (`ticks_for`): the wall clock
steps when an administrator, NTP or a restored virtual machine sets it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from time import monotonic_ns, time_ns
from typing import Protocol

from seglog.errors import InvalidType
from seglog.record import EPOCH, MICROSECOND, fitting_timestamp


class Clock(Protocol):
    """A callable that returns the time in microseconds since the epoch, UTC."""

    def __call__(self) -> int:
        """Return the current time in microseconds."""
        ...


def system_clock() -> int:
    """Return the wall clock in microseconds since the epoch, UTC."""
    return time_ns() // 1000


def ticks() -> int:
    """Return microseconds since some moment; they pass evenly, whatever the wall clock is set to."""
    return monotonic_ns() // 1000


def ticks_for(clock: Clock) -> Clock:
    """Return what measures durations beside a clock: `ticks` beside the system's; any other one measures its own."""
    return ticks if clock is system_clock else clock


def has_passed(since: int, span: int, now: int) -> bool:
    """Whether a span (us) has passed since a moment (us).

    True also if the moment is after `now`: the clock was ahead then, and to wait for that time would end all ageing.
    """
    return not 0 <= now - since < span


def microseconds(moment: datetime) -> int:
    """Return a time as int microseconds since the epoch; without a zone it is UTC."""
    return ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - EPOCH) // MICROSECOND


def checked_clock(clock: Clock) -> Clock:
    """Return a clock that validates each time that `clock` returns; the system clock needs no validation."""
    if clock is system_clock:
        return clock
    if not callable(clock):
        raise InvalidType(
            f"clock must be a callable that returns microseconds since the epoch, not {type(clock).__name__}"
        )
    return lambda: fitting_timestamp(clock(), "the clock's time")
