"""Answers sent at the client's speed, in pieces, so that a client that does not read is detected."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from starlette.responses import Response, StreamingResponse

from seglog.errors import SeglogError
from seglog.server.runtime.memory import PIECE, STALL_SECONDS

if TYPE_CHECKING:
    from starlette.types import Send

    from seglog.server.runtime.memory import Claim


class Pieces(StreamingResponse):
    """A body of known length that is read piece by piece, each on a thread, while it is sent. room: bytes it holds."""

    def __init__(
        self, pieces: Iterator[bytes], size: int, headers: Mapping[str, str], media_type: str, room: int
    ) -> None:
        super().__init__(_one_by_one(pieces), headers={**headers, "Content-Length": str(size)}, media_type=media_type)
        self.room = room


async def _one_by_one(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    while piece := await asyncio.to_thread(next, pieces, b""):
        for position in range(0, len(piece), PIECE):
            yield piece[position : position + PIECE]


class NeedsRoom(Exception):
    """More memory is needed than is held; nothing was read. size: the bytes needed."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


class SlowReader(SeglogError):
    """A client that does not read its answer while other requests wait for the memory it holds."""


def watched(send: Send, claim: Claim, seconds: float = STALL_SECONDS) -> Send:
    """Return a `send` that raises SlowReader if the client stalls for `seconds` while others need its memory."""

    async def sending(message: Any) -> None:
        if not claim.size:  # so there is nothing that others could need
            await send(message)
            return
        while True:
            try:
                async with asyncio.timeout(seconds):
                    await send(message)
                return
            except TimeoutError:  # while waiting for the transport: nothing of the message was written
                if claim.is_wanted:
                    raise SlowReader("the client does not take its answer") from None

    return sending


async def send_in_pieces(response: Response, send: Send) -> None:
    """Send a body in pieces; return when all but about the last 64 KiB are with the system.

    The last, empty piece waits until the transport has little left to write: an answer that ended earlier would keep
    its memory in the transport, where nothing counts it.
    """
    view = memoryview(response.body)
    await send({"type": "http.response.start", "status": response.status_code, "headers": response.raw_headers})
    for position in range(0, len(view), PIECE):
        await send({"type": "http.response.body", "body": bytes(view[position : position + PIECE]), "more_body": True})
    await send({"type": "http.response.body", "body": b"", "more_body": False})
