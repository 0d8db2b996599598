"""The pace of a pass: reports progress, stops on request, and limits the rate."""

from __future__ import annotations

import time
from collections.abc import Callable

from seglog.errors import CompactionAborted

Progress = Callable[[int, int], None]
LONGEST_NAP = 0.05  # seconds between two checks of the abort flag


class Pace:
    """Counts the bytes that a pass reads and writes.

    progress(bytes done, bytes in total) is called at each step, and so is abort(): True ends the pass with
    CompactionAborted; it may raise its own error. bytes_per_second limits reading and writing together.
    """

    def __init__(
        self,
        total: int,
        *,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> None:
        self.total = total
        self.done = 0
        self._progress = progress
        self._abort = abort
        self._rate = bytes_per_second
        self._moved = 0
        self._since = time.monotonic()

    def step(self, size: int) -> None:
        """Count `size` more bytes that were read."""
        self.skip(size)
        self.move(size)

    def skip(self, size: int) -> None:
        """Count bytes that need not be read."""
        self.done += size
        if self._progress is not None:
            self._progress(min(self.done, self.total), self.total)

    def move(self, size: int) -> None:
        """Count bytes that were read or written, and wait if that was faster than allowed."""
        self._moved += size
        self._look()
        if self._rate is None:
            return
        while (left := self._since + self._moved / self._rate - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_NAP))
            self._look()

    def _look(self) -> None:
        if self._abort is not None and self._abort():
            raise CompactionAborted("the compaction was stopped before its end; the log is unchanged")
