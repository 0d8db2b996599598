"""Answers that a client takes at its own speed: in pieces, within a budget of memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from starlette.responses import Response

from seglog.errors import Busy

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from seglog.server.workers import Workers

Result = TypeVar("Result")

PIECE = 256 * 1024


class NeedsRoom(Exception):
    """What was to be read needs more memory than is held for it; nothing was read. size: bytes that it needs."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class Budget:
    """Bytes of memory that answers may hold together."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = 0

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Hold so much until the context ends; Busy where too much is held already. More than there is goes alone."""
        if size and self.held and self.held + size > self.size:
            raise Busy(f"answers of {self.held} bytes are on their way already; try again in a moment")
        self.held += size
        try:
            yield
        finally:
            self.held -= size

    async def read(self, workers: Workers, read: Callable[[int], Result], room: int, *, free: int = 0) -> Result:
        """Let `read` work on a thread with room that is held meanwhile; where that does not do, with what it needs.

        free: room that needs not be held, as what is read takes no more than the threads themselves.
        """
        while True:
            try:
                with self.reserved(room if room > free else 0):
                    return await workers.run(partial(read, room))
            except NeedsRoom as error:
                room = error.size


class LargeAnswer(Response):
    """A body sent piece by piece, so that it is seen whether somebody takes it; counts in the budget till then."""

    def __init__(self, body: bytes | memoryview, budget: Budget, headers: Mapping[str, str], media_type: str) -> None:
        super().__init__(body, 200, headers, media_type)
        self._budget = budget

    async def __call__(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        """Send it."""
        view = memoryview(self.body)
        self._budget.held += len(view)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            for position in range(0, len(view), PIECE):
                piece = bytes(view[position : position + PIECE])
                await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            self._budget.held -= len(view)
