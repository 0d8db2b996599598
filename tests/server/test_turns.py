"""Requests that take long to parse take turns, so that a turn of the event loop stays short."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack

from seglog.server.http.turns import Turns

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
