"""Connections refused before there is a request: always counted, logged once a second.

Does not know why a connection is refused, nor how that is answered.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from seglog.server.runtime.repeated_warnings import RepeatedWarnings

if TYPE_CHECKING:
    from seglog.server.runtime.metrics import Metrics

EVERY_SECONDS = 1.0
OURS = 503  # caused by the server, so that an operator can act; clients' mistakes would flood the log


class Refusals:
    """Called with status and text of every refusal, in the event loop."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._warn = RepeatedWarnings(logging.getLogger("seglog.server"), EVERY_SECONDS)

    def __call__(self, status: int, text: str) -> None:
        """Note one refusal."""
        self._metrics.refused(status)
        if status == OURS:
            self._warn(text, f"a connection was turned away: {text}")
