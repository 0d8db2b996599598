"""Producers that append until stdin ends, and write down what was acknowledged: JSON lines [partition, offset, name].

    soak_producers.py URL TOPIC LEDGER FIRST STOP

Producer number n has keys of its own, and names its records `n:key:count`, counted for each key as they are sent;
a record's value is its name, a blank and some padding. What fails is sent again under the same idempotency key until it
is acknowledged, so when the program ends nothing is in doubt.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any, TextIO

import pyarrow as pa

from seglog.client.aio.client import AsyncClient
from seglog.client.aio.topic import AsyncRemoteTopic
from seglog.errors import Busy, ConnectionFailed
from seglog.topic.partitioner import partition_of

KEYS = 3
PARTITIONS = 4
ROWS = 40
PADDING = b" " + bytes(80)


class Names:
    """The names of one producer's records: (key, name) after another."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._counts = [count() for _ in range(KEYS)]
        self._turns = count()

    def next(self) -> tuple[bytes, bytes]:
        key = next(self._turns) % KEYS
        return b"%d:%d" % (self._number, key), b"%d:%d:%d" % (self._number, key, next(self._counts[key]))


async def until_acknowledged(send: Callable[[], Awaitable[Any]]) -> Any:
    while True:
        try:
            return await send()
        except (ConnectionFailed, Busy):
            continue


async def one_by_one(topic: AsyncRemoteTopic, number: int, stop: asyncio.Event, ledger: Callable[..., None]) -> None:
    names = Names(number)
    while not stop.is_set():
        key, name = names.next()
        place = await until_acknowledged(lambda: topic.append(name + PADDING, key=key, once=name.decode()))  # noqa: B023
        ledger(*place, name)


async def in_batches(topic: AsyncRemoteTopic, number: int, stop: asyncio.Event, ledger: Callable[..., None]) -> None:
    names = Names(number)
    while not stop.is_set():
        rows = [names.next() for _ in range(ROWS)]
        table = pa.table({"key": [key for key, _ in rows], "value": [name + PADDING for _, name in rows]})
        once = f"batch {rows[0][1].decode()}"
        offsets = await until_acknowledged(lambda: topic.append_batch(table, once=once))  # noqa: B023
        following = {partition: iter(those) for partition, those in offsets.items()}
        for key, name in rows:
            partition = partition_of(key, PARTITIONS)
            ledger(partition, next(following[partition]), name)
        assert all(next(those, None) is None for those in following.values()), offsets


async def in_background(
    client: AsyncClient, topic: str, number: int, stop: asyncio.Event, ledger: Callable[..., None]
) -> None:
    names = Names(number)
    async with client.producer(topic, delivery_timeout=3600) as producer:
        while not stop.is_set():
            rows = [names.next() for _ in range(ROWS)]
            sent = [await producer.send(name + PADDING, key=key) for key, name in rows]
            for (_, name), future in zip(rows, sent, strict=True):
                ledger(*await future, name)


async def main(url: str, name: str, file: TextIO, numbers: range) -> None:
    stop = asyncio.Event()

    def ledger(partition: int, offset: int, record: bytes) -> None:
        file.write(json.dumps([partition, offset, record.decode()]) + "\n")

    async def wait_for_the_end() -> None:
        await asyncio.to_thread(sys.stdin.read)
        stop.set()

    async with AsyncClient(url) as client, asyncio.TaskGroup() as tasks:
        topic = client.topic(name)
        tasks.create_task(wait_for_the_end())
        for number in numbers:
            if number % 8 == 6:
                tasks.create_task(in_batches(topic, number, stop, ledger))
            elif number % 8 == 7:
                tasks.create_task(in_background(client, name, number, stop, ledger))
            else:
                tasks.create_task(one_by_one(topic, number, stop, ledger))


if __name__ == "__main__":
    url, name, ledger_path, first, behind = sys.argv[1:]
    with open(ledger_path, "w") as file:  # noqa: PTH123 - a program's argument
        asyncio.run(main(url, name, file, range(int(first), int(behind))))
