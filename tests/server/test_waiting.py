"""Requests that wait for new records are woken in turns of the event loop, and only for what is new."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack

import seglog
from seglog.server.runtime.waiting import AT_ONCE, Waiting
from tests.waiting import HANG_SECONDS


def test_of_many_waiting_requests_a_few_are_woken_in_each_turn_and_all_in_the_end() -> None:
    async def story() -> list[int]:
        waiting, woken = Waiting(), []
        with ExitStack() as stack:
            events = [stack.enter_context(waiting.on([("orders", 0)])) for _ in range(3 * AT_ONCE)]
            waiting.appended(("orders", 0))
            while not woken or woken[-1] < len(events):
                woken.append(sum(event.is_set() for event in events))
                await asyncio.sleep(0)
        return woken

    assert asyncio.run(story()) == [AT_ONCE, 2 * AT_ONCE, 3 * AT_ONCE]


def test_a_request_that_is_woken_twice_before_its_turn_is_woken_once() -> None:
    async def story() -> int:
        waiting = Waiting()
        with ExitStack() as stack:
            events = [stack.enter_context(waiting.on([("orders", 0), ("orders", 1)])) for _ in range(AT_ONCE + 1)]
            waiting.appended(("orders", 0))
            waiting.appended(("orders", 1))
            waiting.stop()
            while not all(event.is_set() for event in events):
                await asyncio.sleep(0)
            for event in events:
                event.clear()
            await asyncio.sleep(0)
            return sum(event.is_set() for event in events)

    assert asyncio.run(story()) == 0


def test_a_tail_of_many_partitions_looks_into_those_that_have_something_new(serve) -> None:
    server = serve()
    with seglog.Client(server.url) as client:
        topic = client.create_topic("wide", partitions=50)
        topic.append(b"first", partition=7)
        with urllib.request.urlopen(f"{server.url}/topics/wide/tail?start=earliest", timeout=HANG_SECONDS) as tail:  # noqa: S310 - our server
            found = _records(tail)
            assert next(found) == (7, "first")
            for number in (0, 49, 7):
                topic.append(b"%d" % number, partition=number)
                assert next(found) == (number, str(number))


def _records(tail) -> Iterator[tuple[int, str]]:
    for line in tail:
        if line.startswith(b"data: "):
            shown = json.loads(line.removeprefix(b"data: "))
            yield shown["partition"], shown["value"]
