"""uvicorn's HTTP protocol with the bounds that it leaves to a proxy: of a request's head in time and size.

Without them a client that never ends its head (slowloris) holds a connection for ever, and one that sends an endless
header fills the memory; one that takes nothing of its answer keeps that in memory. Bodies are bounded by `spool`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from seglog.server.joined import JoinedTransport

if TYPE_CHECKING:
    from seglog.server.settings import Limits

HEAD_BYTES = 64 * 1024


class BoundedProtocol(HttpToolsProtocol):
    """One connection. The times are set by whoever makes the class its own (`bounded`)."""

    head_seconds = 10.0
    idle_seconds = 20.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unparsed = 0  # bytes since the parser last made something of them: a head, a piece of a body
        self._deadline: asyncio.TimerHandle | None = None  # for the head
        self._stalled: asyncio.TimerHandle | None = None  # since the peer last took something of an answer

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        """Give the new connection its time to say what it wants."""
        super().connection_made(cast("asyncio.Transport", JoinedTransport(transport, self.loop)))
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the deadlines."""
        self._head_came()
        self._taken()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse, and refuse a head without end."""
        self._unparsed += len(data)
        if self.transport.is_closing():  # refused a moment ago
            return
        super().data_received(data)
        if self._unparsed > HEAD_BYTES and not self.transport.is_closing():
            self._refuse(b"431 Request Header Fields Too Large", b"the head of a request may have 64 KiB\n")

    def pause_writing(self) -> None:
        """Give the peer its time to take what is buffered."""
        super().pause_writing()
        if self._stalled is None:  # aborted, not closed: closing would wait for the peer
            self._stalled = self.loop.call_later(self.idle_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Note that the peer takes its answer."""
        self._taken()
        super().resume_writing()

    def on_message_begin(self) -> None:
        """Expect the head in time."""
        super().on_message_begin()
        if self._deadline is None:
            self._expect_head()

    def on_headers_complete(self) -> None:
        """Note that the head is there."""
        self._unparsed = 0
        self._head_came()
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Note that a piece of the body is there."""
        self._unparsed = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is there as a whole."""
        self._unparsed = 0
        super().on_message_complete()

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._too_late)

    def _head_came(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _taken(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _too_late(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self._refuse(b"408 Request Timeout", b"the head of the request did not come in time\n")

    def _refuse(self, status: bytes, text: bytes) -> None:
        head = b"HTTP/1.1 %b\r\ncontent-type: text/plain\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
        if self.cycle is None or self.cycle.response_complete:  # else an answer is on its way already
            self.transport.write(head % (status, len(text)) + text)
        self.transport.close()


def bounded(limits: Limits) -> type[BoundedProtocol]:
    """Return the protocol with these bounds."""
    return type(
        "Bounded", (BoundedProtocol,), {"head_seconds": limits.head_seconds, "idle_seconds": limits.idle_seconds}
    )
