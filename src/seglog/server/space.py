"""What fails for want of disk space: noted by topic until it works again, for /health. Knows no request."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import NamedTuple

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FREED = 16 * 1024 * 1024  # so many more free bytes than at a failure: it is taken to be over


class Shortage(NamedTuple):
    """Writes that fail. what: a topic, or ".groups"; times: in a row; free: bytes that were left at the last one."""

    what: str
    error: str
    times: int
    free: int


class Space:
    """Shortages of one server. Safe for threads; a write that works costs one look at an empty dict."""

    def __init__(self, free_bytes: Callable[[], int]) -> None:
        """free_bytes: how much is left now."""
        self.free_bytes = free_bytes
        self._guard = threading.Lock()
        self._known: dict[str, Shortage] = {}

    def failed(self, what: str, error: BaseException) -> None:
        """Note a write that failed, if it was for want of space."""
        if getattr(error, "errno", None) not in FULL:
            return
        with self._guard:
            before = self._known.get(what)
            count = 1 if before is None else before.times + 1
            self._known[what] = Shortage(what, str(error), count, self.free_bytes())

    def worked(self, what: str) -> None:
        """Note a write that worked."""
        if what in self._known:
            with self._guard:
                self._known.pop(what, None)

    def shortages(self) -> list[Shortage]:
        """Return what fails now; what failed when much less was free is not told any more."""
        if not self._known:
            return []
        free = self.free_bytes()
        with self._guard:
            self._known = {what: one for what, one in self._known.items() if free < one.free + FREED}
            return [self._known[what] for what in sorted(self._known)]
