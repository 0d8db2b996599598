"""A server that is not attacked and does nothing: how late the machine itself lets an answer come.

The attackers of one run share two processors with the server. What this server's answers take is the part of the
server's times that another server would have too.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

import uvloop

if TYPE_CHECKING:
    from pathlib import Path

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
HEAD_END = b"\r\n\r\n"


class _Connection(asyncio.Protocol):
    """Answers each head; the prober sends a head in one piece."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._transport.write(ANSWER * data.count(HEAD_END))


def serve(port_file: Path) -> None:
    """Answer until this process is ended; write the port to a file first."""
    uvloop.run(_serve(port_file))


async def _serve(port_file: Path) -> None:
    server = await asyncio.get_running_loop().create_server(_Connection, "127.0.0.1", 0)
    written = port_file.with_suffix(".new")
    written.write_text(str(server.sockets[0].getsockname()[1]))
    written.rename(port_file)
    await server.serve_forever()
