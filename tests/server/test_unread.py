"""How much a client has not read is seen although the kernel has taken all of it."""

from __future__ import annotations

import asyncio
import socket
from contextlib import closing

import pytest
import uvloop

from seglog.server.runtime.unread import unread_bytes
from tests.waiting import HANG_SECONDS

SIZE = 300_000


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_what_the_client_reads_is_unread_no_longer(run):
    async def written() -> None:
        loop, made = asyncio.get_running_loop(), asyncio.Queue[asyncio.Transport]()

        class Server(asyncio.Protocol):
            def connection_made(self, transport):
                made.put_nowait(transport)

        server = await loop.create_server(Server, "127.0.0.1", 0)
        with closing(socket.socket()) as client:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            client.setblocking(False)
            await loop.sock_connect(client, server.sockets[0].getsockname())
            transport = await made.get()
            transport.write(bytes(SIZE))
            before = unread_bytes(transport)
            assert before > SIZE // 2
            left = SIZE
            while left:
                left -= len(await loop.sock_recv(client, 10_000))
                assert unread_bytes(transport) <= before
            async with asyncio.timeout(HANG_SECONDS):
                while unread_bytes(transport):
                    await asyncio.sleep(0)
            transport.abort()
        assert unread_bytes(transport) >= 0  # closed
        server.close()

    run(written())
