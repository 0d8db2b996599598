"""Answers that a client takes at its own speed: in pieces, so that what is not taken is seen, and not held twice."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from seglog.errors import SeglogError

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import Send

    from seglog.server.memory import Claim

PIECE = 64 * 1024
STALL_SECONDS = 2.0  # without a byte taken, after which an answer is dropped if other requests need its memory


class NeedsRoom(Exception):
    """What was to be read needs more memory than is held for it; nothing was read. size: bytes that it needs."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class SlowReader(SeglogError):
    """A client that takes nothing of its answer while other requests wait for the memory that it holds."""


def watched(send: Send, claim: Claim, seconds: float = STALL_SECONDS) -> Send:
    """Return `send`, which raises SlowReader when the client stalls for so long and the claim is wanted by others."""

    async def sending(message: Any) -> None:
        while True:
            try:
                async with asyncio.timeout(seconds):
                    await send(message)
                return
            except TimeoutError:  # while it waited for the transport: nothing of the message is written
                if claim.is_wanted:
                    raise SlowReader("the client does not take its answer") from None

    return sending


async def send_in_pieces(response: Response, send: Send) -> None:
    """Send a body piece by piece; returns once all but the last 64 KiB or so are with the system.

    The last, empty piece waits until the transport has little left to write: an answer that ends earlier would keep its
    memory in the transport, where nothing counts it.
    """
    view = memoryview(response.body)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for position in range(0, len(view), PIECE):
        await send({"type": "http.response.body", "body": bytes(view[position : position + PIECE]), "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
