"""Requests that take long to parse take turns, so that a turn of the event loop stays short."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack

import uvicorn
from uvicorn.server import ServerState

from seglog.server.http.protocol import BoundedProtocol
from seglog.server.http.turns import TURN_SECONDS, Turns

POST = b"POST /records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_one_connection_parses_in_each_turn_in_the_order_in_which_they_came():
    async def run():
        loop, turns, events = asyncio.get_running_loop(), Turns(), []
        assert turns.seconds == TURN_SECONDS
        for name in "abc":
            turns.wait(loop, lambda name=name: events.append(name))
            assert turns.seconds == 0
        for turn in range(4):
            await asyncio.sleep(0)
            events.append(turn)
        assert turns.seconds == TURN_SECONDS
        return events

    assert asyncio.run(run()) == ["a", 0, "b", 1, "c", 2, 3]


def test_a_connection_that_waits_again_comes_after_the_others():
    async def run():
        loop, turns, events = asyncio.get_running_loop(), Turns(), []

        def long():
            events.append("long")
            if events.count("long") < 3:
                turns.wait(loop, long)

        turns.wait(loop, long)
        turns.wait(loop, lambda: events.append("short"))
        while len(events) < 4:
            await asyncio.sleep(0)
        return events

    assert asyncio.run(run()) == ["long", "short", "long", "long"]


def test_a_body_of_known_length_waits_for_no_turn():
    waited = []

    class Watched(Turns):
        def wait(self, loop, parse_on):
            waited.append(parse_on)
            super().wait(loop, parse_on)

    class Protocol(BoundedProtocol):
        turns = Watched()

    async def app(_scope, receive, send):
        body = b""
        while len(body) < 10_000:
            body += (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10000")]})
        await send({"type": "http.response.body", "body": body})

    async def run():
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        config = uvicorn.Config(app, http=Protocol, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        server = await loop.create_server(
            lambda: Protocol(config=config, server_state=state, app_state={}), "127.0.0.1"
        )

        def again():
            if not ended.is_set():
                Protocol.turns.wait(loop, again)

        again()
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        for _ in range(2):  # also on a connection that is used again
            writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000\r\n\r\n" + b"x" * 10_000)
            await reader.readuntil(b"\r\n\r\n")
            assert await reader.readexactly(10_000) == b"x" * 10_000
        ended.set()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return {one.__name__ for one in waited}

    assert asyncio.run(run()) == {"again"}


def test_bodies_of_tiny_chunks_that_are_sent_at_once_arrive_whole(shared):
    letters, count = b"abcdef", 20_000
    with shared.client() as http, ExitStack() as stack:
        wires = [stack.enter_context(shared.connection()) for _ in letters]
        for wire, letter in zip(wires, letters, strict=True):
            wire.send(POST, b"1\r\n%c\r\n" % letter * count)
        for wire in wires:
            wire.send(b"0\r\n\r\n")
        for wire, letter in zip(wires, letters, strict=True):
            status, body = wire.answer()
            assert status == 200
            assert http.get(f"/records/{json.loads(body)['write_index']}").content == bytes([letter]) * count
