"""The pace of a pass: tells how far it is, stops when asked to, and keeps to a rate."""

from __future__ import annotations

import time
from collections.abc import Callable

from seglog.errors import CompactionAborted

Progress = Callable[[int, int], None]
LONGEST_NAP = 0.05  # seconds between two looks at the abort flag


class Pace:
    """Counts the bytes a pass reads and writes.

    progress(bytes done, bytes in all) is called with each step. abort() is asked as often, True ends the pass with
    CompactionAborted; it may raise an error of its own. bytes_per_second: of reading and writing together.
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
        """Note `size` more bytes read, as the progress counts them."""
        self.skip(size)
        self.move(size)

    def skip(self, size: int) -> None:
        """Note bytes that need not be read after all."""
        self.done += size
        if self._progress is not None:
            self._progress(min(self.done, self.total), self.total)

    def move(self, size: int) -> None:
        """Note bytes that went to or from the medium, and wait where that was faster than allowed."""
        self._moved += size
        self._look()
        if self._rate is None:
            return
        while (left := self._since + self._moved / self._rate - time.monotonic()) > 0:
            time.sleep(min(left, LONGEST_NAP))
            self._look()

    def _look(self) -> None:
        if self._abort is not None and self._abort():
            raise CompactionAborted("the compaction was stopped before its end; the log is as it was")
