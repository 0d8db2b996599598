"""Answers that a client takes at its own speed: in pieces, within a budget of memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from starlette.responses import Response

from seglog.errors import Busy

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

PIECE = 256 * 1024


class Budget:
    """Bytes of memory that answers may hold together."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = 0

    @contextmanager
    def reserved(self, size: int) -> Iterator[None]:
        """Hold so much until the context ends; Busy where too much is held already."""
        if self.held and self.held + size > self.size:
            raise Busy(f"answers of {self.held} bytes are on their way already; try again in a moment")
        self.held += size
        try:
            yield
        finally:
            self.held -= size


class LargeAnswer(Response):
    """A body sent piece by piece, so that it is seen whether somebody takes it; counts in the budget till then."""

    def __init__(self, body: bytes, budget: Budget, headers: Mapping[str, str], media_type: str) -> None:
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
