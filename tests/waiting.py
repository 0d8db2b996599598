"""Wait for a condition, and for no longer than a machine could need.

The home of the limit of all waits: it only catches hangs, so no test passes or fails by how fast the machine is. Only
where a test expects that nothing happens does it wait for a time of its own, which is short.
"""

from __future__ import annotations

import inspect
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

HANG_SECONDS = 600  # a machine may be slow, and a hang has no end; pytest's `timeout` in pyproject.toml is longer
NEVER_SECONDS = 100 * HANG_SECONDS  # a time given to what is tested: whoever waits for its end hangs


def until(condition: Callable[[], object], seconds: float = HANG_SECONDS, *, what: str = "") -> None:
    """Return once a condition holds; else fail after the limit and say what it waited for: `what`, or its source."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"after {seconds:g} s there is still no: {what or source_of(condition)}"
        time.sleep(0.005)


def source_of(condition: Callable[[], object]) -> str:
    """Return a condition as its file has it."""
    try:
        lines, number = inspect.getsourcelines(condition)
    except (OSError, TypeError):  # typed at a prompt, or not written in Python
        return repr(condition)
    text = " ".join(line.strip() for line in lines)
    return f"{text} (line {number} of {inspect.getsourcefile(condition)})"
