"""Wait for a lock that another process holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from seglog.errors import InvalidArgument, InvalidType, LogLocked

Result = TypeVar("Result")

PAUSE_SECONDS = 0.05


def patiently(attempt: Callable[[], Result], seconds: float | None) -> Result:
    """Return the result of `attempt`; repeat it while it raises LogLocked, for up to `seconds` (None: 0)."""
    if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float))):
        raise InvalidType(f"wait must be seconds or None, not {type(seconds).__name__}")
    if seconds is not None and not seconds >= 0:  # also rejects NaN
        raise InvalidArgument(f"wait is {seconds}; it must be a number of seconds, 0 or more, or None")
    deadline = time.monotonic() + (seconds or 0.0)
    while True:
        try:
            return attempt()
        except LogLocked:
            left = deadline - time.monotonic()
            if left <= 0:
                raise
        time.sleep(min(PAUSE_SECONDS, left))
