"""Limit the open file descriptors of a process with thousands of logs; many processes may have only 1,024.

A log that is open for writing keeps its files open. If more than `OPEN_LOGS.most` logs do so, the one that opened its
files first closes them; its next write opens them again. Sealed segments that are open for reading are limited in the
same way, over all logs (`OPEN_SEGMENTS`).

If an ordinary call fails because no descriptor is left (EMFILE), more logs close their files and the call is repeated.
A call that durability depends on may also use a small reserve of descriptors (`open_urgently`).
"""

from __future__ import annotations

import errno
import os
import resource
import threading
from collections import deque
from collections.abc import Callable
from typing import TypeVar
from weakref import WeakMethod

T = TypeVar("T")

Suspend = Callable[[], bool]
"""Closes one holder's files and returns True, or returns False if they are in use."""

TOO_MANY = (errno.EMFILE, errno.ENFILE)
SUSPENDED_AT_ONCE = 32
_RESERVED = 4


def descriptors_allowed() -> int:
    """Return how many descriptors the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


class Holders:
    """The holders of descriptors that can be closed, in the order in which they were opened. Safe for threads.

    part: up to one holder per `part` descriptors of the process's limit is kept open.
    """

    def __init__(self, part: int) -> None:
        self._part = part
        self._opened: deque[WeakMethod[Suspend]] = deque()  # atomic methods: signal handlers may interrupt

    def __len__(self) -> int:
        return len(self._opened)

    @property
    def most(self) -> int:
        """The number of holders that may keep their files open."""
        return max(descriptors_allowed() // self._part, 1)

    def add(self, suspend: Suspend) -> None:
        """Register a holder that has opened its files; if there are too many, the oldest close theirs, but never this
        one.

        suspend: a bound method; a holder that no longer exists is dropped.
        """
        excess = len(self._opened) + 1 - self.most
        if excess > 0:
            self.suspend(excess)
        self._opened.append(WeakMethod(suspend))

    def suspend(self, count: int) -> bool:
        """Make up to `count` holders close their files, oldest first; return whether any did."""
        done = 0
        for _ in range(len(self._opened)):
            if done == count:
                break
            try:
                method = self._opened.popleft()
            except IndexError:  # another thread took the last one
                break
            suspend = method()
            if suspend is None or suspend():
                done += 1
            else:
                self._opened.append(method)
        return done > 0


OPEN_LOGS = Holders(part=4)  # two descriptors per log: half of the limit
OPEN_SEGMENTS = Holders(part=8)  # two per segment: a quarter


def with_descriptors(call: Callable[[str], T], path: str) -> T:
    """Return `call(path)`; while no descriptor is left, make other logs close theirs and repeat the call.

    One round may free nothing: some holders no longer exist or are closed already.
    """
    while True:
        try:
            return call(path)
        except OSError as error:
            if error.errno not in TOO_MANY or not OPEN_LOGS.suspend(SUSPENDED_AT_ONCE):
                raise


def open_file(path: str, flags: int) -> int:
    """Open a file with `with_descriptors` and return its descriptor."""
    return with_descriptors(lambda path: os.open(path, flags | os.O_CLOEXEC, 0o644), path)


class _Reserve:
    """Reserved descriptors. An urgent call closes one to open its file; the reserve is refilled later."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._guard = threading.RLock()  # a signal handler may interrupt

    def fill(self) -> None:
        """Refill the reserve, as far as descriptors are available."""
        try:
            while len(self._descriptors) < _RESERVED:
                self._descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return

    def open(self, path: str, flags: int) -> int:
        """Open a file with a reserved descriptor."""
        with self._guard:  # one thread at a time: it must get the descriptor that it closed
            if self._descriptors:
                os.close(self._descriptors.pop())
            return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def renew_guard(self) -> None:
        """Replace the guard in a forked child: another thread of the parent may have held it."""
        self._guard = threading.RLock()


_RESERVE = _Reserve()
os.register_at_fork(after_in_child=_RESERVE.renew_guard)


def open_urgently(path: str, flags: int) -> int:
    """Open a file that durability depends on; return its descriptor. EMFILE only if the reserve is used up, too."""
    try:
        descriptor = open_file(path, flags)
    except OSError as error:
        if error.errno not in TOO_MANY:
            raise
        return _RESERVE.open(path, flags)
    _RESERVE.fill()
    return descriptor
