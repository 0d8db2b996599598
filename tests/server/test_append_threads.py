"""The threads and queues of appends, in this process: what holds them, and what is left of them."""

from __future__ import annotations

import asyncio
import gc
import threading
import time
import weakref
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import httpx
from xxhash import xxh64_intdigest

from seglog import Broker, MemoryStorage
from seglog.server.app import app_of, services_of
from seglog.server.runtime.appends import THREADS
from seglog.server.settings import Limits, Settings
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator


@asynccontextmanager
async def app(broker: Broker) -> AsyncIterator[httpx.AsyncClient]:
    """Serve a broker without a socket."""
    services = services_of(broker, Settings(limits=Limits(sync_seconds=0.01)))
    transport = httpx.ASGITransport(app_of(services))

    async def tick() -> None:  # as the server does
        while True:
            services.appends.syncing.tick()
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    try:
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", timeout=HANG_SECONDS) as client:
            yield client
    finally:
        ticking.cancel()
        services.appends.close()


def test_appends_that_wait_for_one_idempotency_key_leave_the_threads_to_others() -> None:
    partitions = 2 * THREADS
    held, release = threading.Event(), threading.Event()

    def value() -> Iterator[bytes]:
        held.set()
        release.wait(HANG_SECONDS)
        yield b"v"

    async def story(broker: Broker) -> list[Any]:
        topic = broker.create_topic("orders", partitions=partitions + 1)
        async with app(broker) as client:

            async def append(partition: int, key: str) -> httpx.Response:
                where, headers = {"partition": partition}, {"Idempotency-Key": key}
                return await client.post("/topics/orders/records", params=where, headers=headers, content=b"v")

            await append(partitions, "other")  # its repetition needs a thread
            digest = xxh64_intdigest(b"v")
            call = partial(topic.append_stream, value(), partition=0, once="slow", digest=digest)
            holder = threading.Thread(target=call)
            holder.start()
            assert await asyncio.to_thread(held.wait, HANG_SECONDS)
            try:
                waiting = [asyncio.create_task(append(number, "slow")) for number in range(partitions)]
                answer = await asyncio.wait_for(append(partitions, "other"), HANG_SECONDS / 2)
                assert answer.json()["offset"] == 0
                assert not any(task.done() for task in waiting)
            finally:
                release.set()
                holder.join()
            return [answer.json() for answer in await asyncio.gather(*waiting)]

    with Broker(MemoryStorage()) as broker:
        answers = asyncio.run(story(broker))
        assert answers == [{"partition": 0, "offset": 0, "durable": False}] * partitions
        assert [broker.topic("orders").partition(number).next_offset for number in range(partitions)] == [
            1,
            *[0] * (partitions - 1),
        ]


def test_a_server_keeps_nothing_of_a_topic_that_was_deleted() -> None:
    async def story(broker: Broker) -> None:
        logs: list[weakref.ref[Any]] = []
        async with app(broker) as client:
            for number in range(3):
                await client.post("/topics", json={"name": f"t-{number}", "partitions": 2})
                for ack in ("appended", "durable"):
                    for _ in range(3):
                        answer = await client.post(f"/topics/t-{number}/records?ack={ack}", content=b"v")
                        assert answer.status_code == 200, answer.text
                batch = await client.post(
                    f"/topics/t-{number}/batches",
                    content=b'{"value": "v"}\n',
                    headers={"content-type": "application/x-ndjson"},
                )
                assert batch.status_code == 200, batch.text
                logs += [weakref.ref(broker.topic(f"t-{number}").partition(one)) for one in range(2)]
                deleted = await client.delete(f"/topics/t-{number}")
                assert deleted.status_code == 204
            deadline = time.monotonic() + HANG_SECONDS
            while any(log() is not None for log in logs) and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
                gc.collect()
            assert [log() for log in logs] == [None] * len(logs)

    with Broker(MemoryStorage()) as broker:
        asyncio.run(story(broker))
