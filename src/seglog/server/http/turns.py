"""Turns of the event loop for requests that take long to parse, or that come by the hundred.

If every connection with unparsed bytes parsed in every turn, a turn would take as long as all of them together, and
each small request of others needs several turns. So in each turn a few milliseconds are spent on those that wait.
"""

from __future__ import annotations

import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

TURN_SECONDS = 0.002  # of parsing in one turn, for all connections that wait


class Turns:
    """The connections of a server that wait for their turn, in the order in which they came.

    Times are those of time.monotonic(): the time of uvloop does not change during a turn.
    """

    def __init__(self) -> None:
        self._waiting: deque[Callable[[float], None]] = deque()
        self._is_due = False  # the next turn is scheduled

    def until(self) -> float:
        """Return how long a connection that is not in the queue may parse now, after its first piece."""
        return 0.0 if self._waiting else time.monotonic() + TURN_SECONDS

    def wait(self, loop: asyncio.AbstractEventLoop, parse_on: Callable[[float], None]) -> None:
        """Call `parse_on` with the time at which to stop when it is its turn."""
        self._waiting.append(parse_on)
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._waiting and not self._is_due:
            self._is_due = True
            loop.call_soon(self._next, loop)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        until = time.monotonic() + TURN_SECONDS
        for _ in range(len(self._waiting)):  # each once: those that wait again come after the others
            self._waiting.popleft()(until)
            if time.monotonic() >= until:
                break
        self._is_due = False
        self._schedule(loop)
