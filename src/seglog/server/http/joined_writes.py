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
        self._awaits_turn = False

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
        """Send delayed data, then close, soon even if the peer reads no further: closing alone waits for it."""
        self._send_held()
        if not self._transport.is_closing():  # asyncio's transport with TLS must not be closed twice
            self._transport.close()
        if self._transport.get_write_buffer_size():
            self._loop.call_later(self._idle_seconds, self._transport.abort)

    def _turn_over(self) -> None:
        self._awaits_turn = False
        self._send_held()

    def _send_held(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            if not self._transport.is_closing():  # aborted within this turn
                self._transport.write(held)
