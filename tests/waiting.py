"""Wait for a condition with a deadline."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

DEADLINE_SECONDS = 30


def until(condition: Callable[[], object]) -> None:
    """Return once a condition holds; fail where it never does."""
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)
