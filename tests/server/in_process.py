"""A server of the bounded protocol alone, in the event loop of a test, for states that a real one reaches by chance."""

from __future__ import annotations

import asyncio
import socket
import ssl
from contextlib import asynccontextmanager, suppress
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


def context_of(certificate):
    """Return the context of a server with this certificate and key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


class TlsPeer:
    """A client whose first data goes out with the last message of its handshake, and that reads when it is told."""

    def __init__(self, address, trusted, *, buffer=0):
        """buffer: bytes that its kernel may hold of what comes, if not 0."""
        self._come, self._gone = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=trusted)
        self._tls = context.wrap_bio(self._come, self._gone, server_hostname=address[0])
        self.socket = socket.socket()
        self.socket.settimeout(20)
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.connect(address)
        self._patiently(self._tls.do_handshake)

    def send(self, data):
        self._tls.write(data)
        self.socket.sendall(self._gone.read())

    def receive(self):
        return self._patiently(lambda: self._tls.read(65536))

    def _patiently(self, step):
        while True:
            with suppress(ssl.SSLWantReadError):
                return step()
            self.socket.sendall(self._gone.read())
            received = self.socket.recv(65536)
            assert received, "the server has closed the connection"
            self._come.write(received)

    def close(self):
        self.socket.close()
