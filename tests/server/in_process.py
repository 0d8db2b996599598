"""A server of the bounded protocol alone, in the event loop of a test, for states that a real one reaches by chance."""

from __future__ import annotations

import asyncio
import socket
from contextlib import asynccontextmanager
from functools import partial

import uvicorn
from uvicorn.server import ServerState


@asynccontextmanager
async def serving(protocol, app, *, send_buffer=0, **options):
    """Serve `app`; give the address and the state, which has the connections.

    send_buffer: bytes that the kernel may hold for a connection, if not 0. options: of uvicorn's Config.
    """
    config, state = uvicorn.Config(app, http=protocol, lifespan="off", log_config=None, **options), ServerState()
    config.load()
    raw = socket.create_server(("127.0.0.1", 0))
    if send_buffer:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
    made = partial(protocol, config=config, server_state=state, app_state={})
    server = await asyncio.get_running_loop().create_server(made, sock=raw)
    try:
        yield raw.getsockname(), state
    finally:
        server.close()
        await server.wait_closed()
