"""A cleaner's reports: to the caller of the round, to the program's logging, to a callback."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from seglog.topic.cleaning.state import Event

logger = logging.getLogger("seglog.cleaner")
WARNINGS = frozenset({"damaged", "failed", "refused"})


class Teller:
    """Receives events. `events`: those since it was emptied."""

    def __init__(self, on_event: Callable[[Event], None] | None) -> None:
        self.events: list[Event] = []
        self._on_event = on_event
        self._here = threading.local()

    @property
    def is_telling(self) -> bool:
        """Whether this thread is inside on_event: it must not wait for anything that waits for its end."""
        return getattr(self._here, "telling", False)

    def __call__(self, event: Event) -> None:
        """Store, log and pass on an event; an error of on_event is logged and otherwise ignored."""
        self.events.append(event)
        level = logging.WARNING if event.what in WARNINGS else logging.INFO
        logger.log(level, "%s: %s", event.name or "the cleaner", event.text)
        if self._on_event is None:
            return
        self._here.telling = True
        try:
            self._on_event(event)
        except Exception:
            logger.exception("on_event failed")
        finally:
            self._here.telling = False
