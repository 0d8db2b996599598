"""Wait for a condition with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_SECONDS = 30


def until(condition: Callable[[], object], seconds: float = DEADLINE_SECONDS) -> None:
    """Return once a condition holds; fail where it does not within the deadline."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)
