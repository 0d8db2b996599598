"""Opening a log for a command: what recovery met on the way is told on stderr, a line each, never kept to itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

import seglog
from seglog.terminal import output

if TYPE_CHECKING:
    from seglog.config import LogConfig
    from seglog.log.log import Log
    from seglog.log.opening import Expose, Mode


def opened(path: str, config: LogConfig | None = None, *, mode: Mode, expose: Expose = "appended") -> Log:
    """Open as `seglog.open` does, and tell of torn bytes, damage and rebuilt structure."""
    log = seglog.open(path, config, mode=mode, expose=expose)
    for event in log.recovery.events:
        output.note(f"recovery: {event.kind}: {event.path}: {event.detail}")
    return log
