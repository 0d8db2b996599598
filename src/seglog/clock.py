"""The log's own clock: integer microseconds since the epoch, UTC. Replaceable, so that age can be tested."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Anything that, called, gives the time in microseconds since the epoch, UTC."""

    def __call__(self) -> int:
        """Return the current time in microseconds."""
        ...


def system_clock() -> int:
    """Return the wall clock in microseconds since the epoch, UTC."""
    return time.time_ns() // 1000
