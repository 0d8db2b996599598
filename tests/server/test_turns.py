"""Requests that take long to parse take turns, so that a turn of the event loop stays short."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack

import uvicorn
from uvicorn.server import ServerState

from seglog.server.http.protocol import BoundedProtocol
from seglog.server.http.turns import Turns
from seglog.server.runtime.memory import Memory

POST = b"POST /records HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_connections_parse_in_the_order_in_which_they_came_until_the_time_of_a_turn_is_over():
    async def run():
        loop, turns, events = asyncio.get_running_loop(), Turns(), []
        assert turns.until() > time.monotonic()

        def long(until):
            events.append("long")
            while time.monotonic() < until:
                pass

        turns.wait(loop, lambda _: events.append("short"))
        for _ in range(2):
            turns.wait(loop, long)
        assert turns.until() == 0
        for turn in range(3):
            await asyncio.sleep(0)
            events.append(turn)
        assert turns.until() > time.monotonic()
        return events

    assert asyncio.run(run()) == ["short", "long", 0, "long", 1, 2]


def test_a_connection_that_waits_again_comes_after_the_others_and_in_a_later_turn():
    async def run():
        loop, turns, events = asyncio.get_running_loop(), Turns(), []

        def again(_):
            events.append("again")
            if events.count("again") < 3:
                turns.wait(loop, again)

        turns.wait(loop, again)
        turns.wait(loop, lambda _: events.append("once"))
        for turn in range(4):
            await asyncio.sleep(0)
            events.append(turn)
        return events

    assert asyncio.run(run()) == ["again", "once", 0, "again", 1, "again", 2, 3]


def test_a_small_request_waits_for_its_turn_though_the_budget_of_waiting_bytes_is_used_up():
    class Protocol(BoundedProtocol):
        turns, memory = Turns(), Memory(1000)

    async def app(_scope, receive, send):
        body = (await receive())["body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body})

    async def run():
        loop = asyncio.get_running_loop()
        config = uvicorn.Config(app, http=Protocol, lifespan="off", log_config=None)
        config.load()
        parts = {"config": config, "server_state": ServerState(), "app_state": {}}
        server = await loop.create_server(lambda: Protocol(**parts), "127.0.0.1")
        Protocol.memory.change("pipelines", 1000)
        ended = asyncio.Event()

        def again(_):
            if not ended.is_set():
                Protocol.turns.wait(loop, again)

        again(0)
        reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\none")
        answer = await reader.read()
        ended.set()
        writer.close()
        await writer.wait_closed()
        server.close()
        await server.wait_closed()
        return answer

    answer = asyncio.run(run())
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"one" in answer


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
