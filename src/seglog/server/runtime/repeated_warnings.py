"""Warnings that clients can cause as often as they like: of each kind one is logged, and those after it are counted."""

from __future__ import annotations

from collections.abc import Callable
from logging import Logger
from time import monotonic

EVERY_SECONDS = 10.0


class RepeatedWarnings:
    """Called with kind and text of every warning, in one thread.

    The first of a kind is logged at once; the next one `seconds` later at the earliest, with the number of those left
    out. Kinds are remembered, so there must be few. clock: seconds, monotonic.
    """

    def __init__(self, log: Logger, seconds: float = EVERY_SECONDS, clock: Callable[[], float] = monotonic) -> None:
        self._log = log
        self._seconds = seconds
        self._clock = clock
        self._logged: dict[object, tuple[float, int]] = {}  # by kind: when, and how many were left out since

    def __call__(self, kind: object, text: str) -> None:
        """Log a warning, or count it if one of its kind was logged just before."""
        now = self._clock()
        at, left_out = self._logged.get(kind, (now - self._seconds, 0))
        if now - at < self._seconds:
            self._logged[kind] = at, left_out + 1
            return
        self._logged[kind] = now, 0
        more = f" (and {left_out} more in the last {now - at:.0f} s)" if left_out else ""
        self._log.warning("%s%s", text, more)
