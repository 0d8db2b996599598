"""Turns of the event loop for requests that take long to parse: one connection parses on in each turn.

If every such connection parsed in every turn, a turn would take as long as all of them together, and each small request
of others needs several turns.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

TURN_SECONDS = 0.002  # of parsing for one connection, until others have their turn


class Turns:
    """The connections of a server that wait for their turn, in the order in which they came."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], None]] = deque()

    @property
    def seconds(self) -> float:
        """How long a connection that is not in the queue may parse now, after its first piece."""
        return 0.0 if self._waiting else TURN_SECONDS

    def wait(self, loop: asyncio.AbstractEventLoop, parse_on: Callable[[], None]) -> None:
        """Call `parse_on` when it is its turn."""
        if not self._waiting:
            loop.call_soon(self._next, loop)
        self._waiting.append(parse_on)

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        parse_on = self._waiting.popleft()
        if self._waiting:
            loop.call_soon(self._next, loop)
        parse_on()
