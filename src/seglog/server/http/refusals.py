"""Connections refused before there is a request: always counted, logged once a second.

Does not know why a connection is refused, nor how that is answered.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.server.runtime.metrics import Metrics

log = logging.getLogger("seglog.server")

EVERY_SECONDS = 1.0
OURS = 503  # caused by the server, so that an operator can act; clients' mistakes would flood the log


class Refusals:
    """Called with status and text of every refusal, in the event loop. clock: seconds, monotonic."""

    def __init__(self, metrics: Metrics, clock: Callable[[], float] = monotonic) -> None:
        self._metrics = metrics
        self._clock = clock
        self._untold = 0
        self._told_at: float | None = None

    def __call__(self, status: int, text: str) -> None:
        """Note one refusal."""
        self._metrics.refused(status)
        if status != OURS:
            return
        self._untold += 1
        now = self._clock()
        if self._told_at is None or now - self._told_at >= EVERY_SECONDS:
            log.warning("connections turned away: %d: %s", self._untold, text)
            self._untold, self._told_at = 0, now
