"""Wait for a lock that another process holds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from seglog.errors import InvalidArgument, InvalidType, LogLocked

Result = TypeVar("Result")

PAUSE_SECONDS = 0.05


class Patience:
    """How long to try again from now on. seconds: None is 0; InvalidType or InvalidArgument for what is no number."""

    def __init__(self, seconds: float | None) -> None:
        if seconds is not None and (isinstance(seconds, bool) or not isinstance(seconds, (int, float))):
            raise InvalidType(f"wait must be seconds or None, not {type(seconds).__name__}")
        if seconds is not None and not seconds >= 0:  # NaN is rejected as well
            raise InvalidArgument(f"wait is {seconds}; it must be a number of seconds, 0 or more, or None")
        self._deadline = time.monotonic() + (seconds or 0.0)

    def pause(self) -> float | None:
        """Return the seconds until the next attempt, None where there is to be none."""
        left = self._deadline - time.monotonic()
        return min(PAUSE_SECONDS, left) if left > 0 else None


def patiently(attempt: Callable[[], Result], seconds: float | None) -> Result:
    """Return the result of `attempt`; repeat it while it raises LogLocked, for up to `seconds` (None: 0)."""
    patience = Patience(seconds)
    while True:
        try:
            return attempt()
        except LogLocked:
            pause = patience.pause()
            if pause is None:
                raise
        time.sleep(pause)
