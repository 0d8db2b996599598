"""Writes that fail for lack of disk space, noted by topic until they succeed again, for /health."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import NamedTuple

FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
FREED = 16 * 1024 * 1024  # a shortage is over when this many more bytes are free than at the failure


class Shortage(NamedTuple):
    """Writes that fail. what: a topic, or ".groups"; times: consecutive failures; free: bytes left at the last one."""

    what: str
    error: str
    times: int
    free: int


class Space:
    """Shortages of one server. Thread-safe; a successful write costs one look at an empty dict."""

    def __init__(self, free_bytes: Callable[[], int], give_way: Callable[[], None] = lambda: None) -> None:
        """free_bytes: returns the free space now. give_way: gives up what need not be kept, at each failure."""
        self.free_bytes = free_bytes
        self._give_way = give_way
        self._guard = threading.Lock()
        self._known: dict[str, Shortage] = {}

    def failed(self, what: str, error: BaseException) -> None:
        """Note a failed write, if it failed for lack of space."""
        if getattr(error, "errno", None) not in FULL:
            return
        self._give_way()
        with self._guard:
            before = self._known.get(what)
            count = 1 if before is None else before.times + 1
            self._known[what] = Shortage(what, str(error), count, self.free_bytes())

    def worked(self, what: str) -> None:
        """Note a successful write."""
        if what in self._known:
            with self._guard:
                self._known.pop(what, None)

    def shortages(self) -> list[Shortage]:
        """Return the current shortages; a failure with much less free space than now no longer counts."""
        if not self._known:
            return []
        free = self.free_bytes()
        with self._guard:
            self._known = {what: one for what, one in self._known.items() if free < one.free + FREED}
            return [self._known[what] for what in sorted(self._known)]
