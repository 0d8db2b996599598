"""Requests that take long to parse take turns, so that a turn of the event loop stays short."""

from __future__ import annotations

import asyncio
import json
import time
from contextlib import ExitStack, suppress

import pytest

from seglog.server.http.protocol import BoundedProtocol
from seglog.server.http.turns import Turns
from seglog.server.runtime.memory import Memory
from tests.server.in_process import serving

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


def answers_without_room_for_waiting_bytes(app, *pieces):
    """Return what a server answers whose turn never comes, and which has no memory for what waits for it.

    The second piece of a request is sent when an answer has begun.
    """

    class Protocol(BoundedProtocol):
        turns, memory = Turns(), Memory(1000)

    async def run():
        Protocol.memory.change("pipelines", 1000)
        ended = asyncio.Event()

        def again(_):
            if not ended.is_set():
                Protocol.turns.wait(asyncio.get_running_loop(), again)

        again(0)
        async with serving(Protocol, app) as (address, _):
            reader, writer = await asyncio.open_connection(*address)
            writer.write(pieces[0])
            answer = await reader.read(1) if pieces[1:] else b""
            writer.writelines(pieces[1:])
            with suppress(ConnectionResetError):
                while piece := await reader.read(65536):
                    answer += piece
            ended.set()
            writer.close()
            with suppress(ConnectionResetError):
                await writer.wait_closed()
        return answer, Protocol.memory.held["pipelines"] - 1000

    return asyncio.run(run())


async def echo_size(_scope, receive, send):
    more, size = True, 0
    while more:
        message = await receive()
        size, more = size + len(message["body"]), message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"%d bytes" % size})


async def refuse_early(_scope, _receive, send):
    await send({"type": "http.response.start", "status": 404, "headers": [(b"content-length", b"4")]})
    await send({"type": "http.response.body", "body": b"none"})


def post(size):
    return b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % size


@pytest.mark.parametrize("size", [3, 5000, 60_000])
def test_a_request_of_known_length_is_answered_though_the_budget_of_waiting_bytes_is_used_up(size):
    answer, _ = answers_without_room_for_waiting_bytes(echo_size, post(size) + b"x" * size)
    assert answer.startswith(b"HTTP/1.1 200")
    assert b"%d bytes" % size in answer


@pytest.mark.parametrize(
    "request_bytes",
    [POST + b"1\r\nx\r\n" * 9000, post(3)[:-2] + b"X: " + b"x" * 9000 + b"\r\n\r\none"],
    ids=["tiny chunks", "a long head"],
)
def test_a_request_for_which_no_memory_is_left_is_refused_with_an_answer(request_bytes):
    answer, left = answers_without_room_for_waiting_bytes(echo_size, request_bytes)
    assert answer.startswith(b"HTTP/1.1 503")
    assert b"retry-after" in answer
    assert left == 0


@pytest.mark.parametrize("rest", [b"1\r\nx\r\n" * 9000, b"no chunk\r\n"], ids=["no memory", "not valid"])
def test_a_request_that_is_answered_before_its_end_gets_no_second_answer(rest):
    answer, left = answers_without_room_for_waiting_bytes(refuse_early, POST + b"1\r\nx\r\n", rest)
    assert answer.startswith(b"HTTP/1.1 404")
    assert answer.count(b"HTTP/1.1") == 1
    assert left == 0


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
