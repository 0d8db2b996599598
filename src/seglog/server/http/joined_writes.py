"""Join the writes to a connection within one turn of the event loop into one system call.

uvicorn writes an answer's head and then its body, each with a system call that wakes the client: the second wake-up
takes longer than the append itself. Knows nothing of HTTP.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import asyncio

SMALL_BYTES = 64 * 1024


class JoinedTransport:
    """A transport that delays a short write until the next one, or until the event loop's turn ends."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop, idle_seconds: float) -> None:
        """idle_seconds: how long a peer has to read what is left after `close`."""
        self._transport = transport
        self._loop = loop
        self._idle_seconds = idle_seconds
        self._held = b""
        self._awaits_turn = self._is_lost = False
        self._closing: asyncio.TimerHandle | None = None

    def __getattr__(self, name: str) -> Any:
        """Delegate everything else to the transport."""
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send by the end of this turn; discard if the connection is aborted."""
        if self._transport.is_closing():
            self._held = b""
            return
        if self._held:
            held, self._held = self._held, b""
            self._transport.write(held + data)
        elif len(data) > SMALL_BYTES:
            self._transport.write(data)
        else:
            self._held = data
            if not self._awaits_turn:
                self._awaits_turn = True
                self._loop.call_soon(self._turn_over)

    def close(self) -> None:
        """Send delayed data, then close; abort if the peer reads no further: closing alone waits for it."""
        if self._is_lost:
            return
        self._send_held()
        self._transport.close()
        if self._closing is None and (self._unsent or self.get_extra_info("ssl_object")):
            self._abort_later()

    def lost(self) -> None:
        """End: the connection has."""
        self._is_lost = True
        if self._closing is not None:
            self._closing.cancel()

    @property
    def _unsent(self) -> int:
        """Bytes that the peer has not taken; with TLS, those that are not encrypted yet."""
        size: int = self._transport.get_write_buffer_size()
        return size

    def _abort_later(self) -> None:
        self._closing = self._loop.call_later(self._idle_seconds, self._abort_unless_less, self._unsent)

    def _abort_unless_less(self, before: int) -> None:
        if self._unsent < before:  # it still reads
            self._abort_later()
        else:
            self._transport.abort()

    def _turn_over(self) -> None:
        self._awaits_turn = False
        self._send_held()

    def _send_held(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            if not self._transport.is_closing():  # aborted within this turn
                self._transport.write(held)
