"""Open a log for a command, and print on stderr what recovery found, one line each."""

from __future__ import annotations

from typing import TYPE_CHECKING

import seglog
from seglog.errors import NotALog
from seglog.terminal import output

if TYPE_CHECKING:
    from seglog.config import Expose, LogConfig
    from seglog.log.log import Log
    from seglog.log.opening import Mode


def opened(path: str, config: LogConfig | None = None, *, mode: Mode, expose: Expose = "appended") -> Log:
    """Open as `seglog.open` does; report torn bytes, damage and rebuilt structure."""
    try:
        log = seglog.open(path, config, mode=mode, expose=expose)
    except NotALog as error:
        _note_topics(path, error)
        raise
    for event in log.recovery.events:
        output.note(f"recovery: {event.kind}: {event.path}: {event.detail}")
    return log


def _note_topics(path: str, error: NotALog) -> None:
    """Add to the error what to name instead of a topic or a directory of topics."""
    from seglog.topic.layout import description

    place = path.rstrip("/")
    if description.is_topic(path):
        error.add_note(f"it is a topic, and this command takes one log: name a partition, such as {place}/0")
    elif topics := description.below(path):
        error.add_note(f"it is a directory of topics: name a topic, such as {place}/{topics[0]}")
