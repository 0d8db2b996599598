"""How much of what was sent a client has not taken: it shows whether the client reads."""

from __future__ import annotations

import fcntl
import termios
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio


def unread_bytes(transport: asyncio.WriteTransport) -> int:
    """Return the bytes that wait in a transport, and in the socket until the client's system acknowledges them.

    The socket takes 2.5 MB and reports that it is writable again when a third is free, so the transport alone stays as
    it is for many seconds while a client reads slowly. With TLS what was encrypted counts in the socket only.
    """
    size: int = transport.get_write_buffer_size()
    socket = transport.get_extra_info("socket")
    with suppress(OSError, ValueError):  # closed
        size += int.from_bytes(fcntl.ioctl(socket.fileno(), termios.TIOCOUTQ, bytes(4)), "little")
    return size
