"""File descriptors are few: 1,024 in many processes. How a process with thousands of logs gets along with them.

Logs that are open for writing keep their files open, up to a number of logs: after that the log that opened its files
first closes them (`OPEN_LOGS`), and its next write opens them again. Sealed segments that are open for reading are
bounded in the same way, over all logs (`OPEN_SEGMENTS`).

If an ordinary call fails because no descriptor is left (EMFILE), some more logs close their files and the call is tried
again. A call on which a promise rests may also use a descriptor from a small reserve (`open_urgently`).
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
"""Closes one holder's files and returns True; False where they are in use at the moment."""

TOO_MANY = (errno.EMFILE, errno.ENFILE)
SUSPENDED_AT_ONCE = 32
_RESERVED = 4


def descriptors_allowed() -> int:
    """Return how many descriptors the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 1 << 20 if soft == resource.RLIM_INFINITY else soft


class Holders:
    """Who holds descriptors that can be given back, in the order in which they were opened. Safe for threads.

    part: one holder for so many descriptors that the process may have is the most that is kept open.
    """

    def __init__(self, part: int) -> None:
        self._part = part
        self._opened: deque[WeakMethod[Suspend]] = deque()  # its methods are atomic: a signal handler may come in

    def __len__(self) -> int:
        return len(self._opened)

    @property
    def most(self) -> int:
        """How many holders may keep their files open."""
        return max(descriptors_allowed() // self._part, 1)

    def add(self, suspend: Suspend) -> None:
        """Note that a holder has opened its files; if too many have, the first ones close theirs, but never this one.

        suspend: a bound method; a holder that no longer exists is forgotten.
        """
        excess = len(self._opened) + 1 - self.most
        if excess > 0:
            self.suspend(excess)
        self._opened.append(WeakMethod(suspend))

    def suspend(self, count: int) -> bool:
        """Make up to `count` holders close their files, the first ones first; return whether any did."""
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


OPEN_LOGS = Holders(part=4)  # two descriptors a log: half of what the process may have
OPEN_SEGMENTS = Holders(part=8)  # two a segment: a quarter


def with_descriptors(call: Callable[[str], T], path: str) -> T:
    """Return `call(path)`; where no descriptor is left, make other logs close theirs, and try again.

    More than once if need be: holders that are gone or closed by now have nothing to give.
    """
    while True:
        try:
            return call(path)
        except OSError as error:
            if error.errno not in TOO_MANY or not OPEN_LOGS.suspend(SUSPENDED_AT_ONCE):
                raise


def open_file(path: str, flags: int) -> int:
    """Open a file and return its descriptor, with `with_descriptors`."""
    return with_descriptors(lambda path: os.open(path, flags | os.O_CLOEXEC, 0o644), path)


class _Reserve:
    """Reserved descriptors. One is closed where another is needed urgently; the reserve is filled again later."""

    def __init__(self) -> None:
        self._descriptors: list[int] = []
        self._guard = threading.RLock()  # a signal handler may come in

    def fill(self) -> None:
        """Take what is missing, as far as there is any."""
        try:
            while len(self._descriptors) < _RESERVED:
                self._descriptors.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        except OSError:
            return

    def open(self, path: str, flags: int) -> int:
        """Open a file with one of them."""
        with self._guard:  # one at a time: the next opening is to get the descriptor that was closed
            if self._descriptors:
                os.close(self._descriptors.pop())
            return os.open(path, flags | os.O_CLOEXEC, 0o644)

    def renew_guard(self) -> None:
        """In a forked child: another thread of the parent may have held the guard."""
        self._guard = threading.RLock()


_RESERVE = _Reserve()
os.register_at_fork(after_in_child=_RESERVE.renew_guard)


def open_urgently(path: str, flags: int) -> int:
    """Open a file on which a promise rests, and return its descriptor: EMFILE only if even the reserve is used up."""
    try:
        descriptor = open_file(path, flags)
    except OSError as error:
        if error.errno not in TOO_MANY:
            raise
        return _RESERVE.open(path, flags)
    _RESERVE.fill()
    return descriptor
