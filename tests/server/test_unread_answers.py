"""A connection that is closed while its peer does not read the rest of an answer ends nevertheless."""

from __future__ import annotations

import asyncio
import socket
import time
from contextlib import closing, contextmanager, suppress

import pytest
import uvloop

from seglog.server.http.handshakes import Handshakes
from seglog.server.http.protocol import BoundedProtocol
from tests.server.in_process import serving
from tests.tls import TlsPeer, server_context
from tests.waiting import HANG_SECONDS, until

BODY = b"x" * 50_000  # less than the high-water mark of a transport, so no timer of flow control runs


async def answer(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": BODY})


@contextmanager
def narrow(address):
    """Give a connection of which the kernel holds little that is not read."""
    with closing(socket.socket()) as wire:
        wire.settimeout(HANG_SECONDS)
        wire.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.connect(address)
        yield wire


async def at_once(condition):
    """Return once a condition is true, in the next turn of the event loop: it may be true for a moment."""
    async with asyncio.timeout(HANG_SECONDS):
        while not condition():
            await asyncio.sleep(0)


def unsent(connection):
    """Return how many bytes of answers the peer has not taken, of those that are not encrypted yet."""
    return connection.transport.get_write_buffer_size()


WAYS = pytest.mark.parametrize(
    ("header", "kept", "ends"),
    [(b"Connection: close\r\n", 0, False), (b"", 0, False), (b"", 60, True)],
    ids=["closed", "kept alive", "ended by its peer"],
)


@WAYS
def test_a_closed_connection_ends_although_its_peer_does_not_read_the_answer(header, kept, ends):
    class Protocol(BoundedProtocol):
        idle_seconds = 0.2

    async def run():
        async with serving(Protocol, answer, send_buffer=4096, timeout_keep_alive=kept) as (address, state):
            with narrow(address) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % header)
                if ends:
                    await asyncio.to_thread(until, lambda: any(unsent(one) for one in state.connections))
                    peer.shutdown(socket.SHUT_WR)
                await at_once(lambda: any(one.transport.is_closing() for one in state.connections))
                [one] = state.connections
                assert unsent(one) > 0
                assert one._stalled is None
                await asyncio.to_thread(until, lambda: not state.connections)

    asyncio.run(run())


@WAYS
def test_it_ends_with_tls_too(header, kept, ends, certificate):
    class Protocol(BoundedProtocol):
        idle_seconds = 0.2

    async def run():
        answered = asyncio.Event()

        async def noted(scope, receive, send):
            await answer(scope, receive, send)
            answered.set()

        handshakes = Handshakes(server_context(certificate), Protocol)
        kept_alive = 1 if ends else kept  # uvloop does not report that a peer has ended its side
        async with serving(handshakes, noted, send_buffer=4096, timeout_keep_alive=kept_alive) as (address, state):
            with narrow(address) as wire:
                peer = await asyncio.to_thread(TlsPeer, wire, certificate[0])
                peer.send(b"GET / HTTP/1.1\r\nHost: localhost\r\n%b\r\n" % header)
                await asyncio.wait_for(answered.wait(), HANG_SECONDS)
                if ends:
                    with suppress(OSError):  # its time is over already
                        wire.shutdown(socket.SHUT_WR)
                await asyncio.to_thread(until, lambda: not state.connections)

    uvloop.run(run())


def test_a_peer_that_reads_slowly_gets_the_whole_answer_of_a_closed_connection():
    class Protocol(BoundedProtocol):
        idle_seconds = 3

    def read(peer):
        received = b""
        while piece := peer.recv(4000):
            received += piece
            time.sleep(0.3)  # so all of it takes longer than `idle_seconds`
        return received

    async def run():
        async with serving(Protocol, answer, send_buffer=4096) as (address, _):
            with narrow(address) as peer:
                peer.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                assert BODY in await asyncio.to_thread(read, peer)

    asyncio.run(run())
