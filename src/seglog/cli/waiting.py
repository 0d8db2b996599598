"""--wait: try again while another process holds a log or a directory of topics."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeVar

from seglog.cli.frame import option
from seglog.errors import LogLocked
from seglog.terminal.units import parse_duration

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

_PAUSE_S = 0.05

WAIT = option(
    "--wait",
    metavar="DURATION",
    type=parse_duration,
    help="wait this long (10s, 15m) for another process that writes, then fail with exit code 4; default: 0",
)


def patiently(attempt: Callable[[], T], seconds: float | None) -> T:
    """Return what `attempt` returns; call it again while it raises LogLocked, for so many seconds."""
    deadline = time.monotonic() + (seconds or 0.0)
    while True:
        try:
            return attempt()
        except LogLocked as error:
            left = deadline - time.monotonic()
            if left <= 0:
                if seconds is None:
                    error.add_note("--wait 30s waits for it")
                raise
        time.sleep(min(_PAUSE_S, left))
