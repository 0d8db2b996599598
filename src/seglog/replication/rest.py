"""Copy logs in rounds, and let those rest whose source is damaged, so that they do not hold up the others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.replication.log_mirror import DAMAGE, LogMirror

if TYPE_CHECKING:
    from collections.abc import Set

    from seglog.topic.layout.places import Partition

REST_SECONDS = 5.0


class Rest:
    """The logs whose source was damaged when it was last read. failures: their errors."""

    def __init__(self) -> None:
        self.failures: dict[Partition, SeglogError] = {}
        self._until: dict[Partition, float] = {}

    def step(self, place: Partition, log: LogMirror) -> int:
        """Make a round of a log, unless it rests; return the bytes copied."""
        if time.monotonic() < self._until.get(place, 0.0):
            return 0
        try:
            copied = log.step()
        except DAMAGE as error:
            self.failures[place] = error
            self._until[place] = time.monotonic() + REST_SECONDS
            raise
        self.failures.pop(place, None)
        return copied

    def end(self) -> None:
        """Let every log take part in the next round."""
        self._until.clear()

    def keep(self, places: Set[Partition]) -> None:
        """Forget logs that are no longer copied."""
        for place in self.failures.keys() - places:
            del self.failures[place]
