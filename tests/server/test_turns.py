"""Requests that take long to parse take turns, so that a turn of the event loop stays short."""

from __future__ import annotations

import asyncio
import json
from contextlib import ExitStack

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
