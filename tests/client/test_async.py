"""AsyncClient: the same names and parameters as Client, and the same stories, awaited."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest

import seglog
from seglog.client.aio.consumer import AsyncRemoteConsumer
from seglog.client.aio.producer import AsyncProducer
from seglog.client.aio.topic import AsyncRemoteTopic
from seglog.client.consumer import RemoteConsumer
from seglog.client.producer import Producer
from seglog.client.topic import RemoteTopic
from tests.client.conftest import PATIENT
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

TWINS = [
    (seglog.Client, seglog.AsyncClient),
    (RemoteTopic, AsyncRemoteTopic),
    (Producer, AsyncProducer),
    (RemoteConsumer, AsyncRemoteConsumer),
]


def public(kind: type) -> dict[str, Any]:
    return {name: thing for name, thing in vars(kind).items() if not name.startswith("_") and name != "begun"}


@pytest.mark.parametrize(("sync", "awaited"), TWINS, ids=lambda kind: kind.__name__)
def test_both_kinds_offer_the_same_names_with_the_same_parameters(sync: type, awaited: type) -> None:
    assert public(sync).keys() == public(awaited).keys()
    for name, thing in public(sync).items():
        other = public(awaited)[name]
        assert (inspect.getdoc(thing) or "").strip(), name
        assert (inspect.getdoc(other) or "").strip(), name
        if callable(thing):
            ours, theirs = inspect.signature(thing).parameters, inspect.signature(other).parameters
            assert list(map(str, ours.values())) == list(map(str, theirs.values())), name


@pytest.mark.parametrize("kind", [RemoteTopic, AsyncRemoteTopic])
def test_a_remote_topic_takes_what_a_local_one_takes(kind: type) -> None:
    for name in ("append", "append_batch"):
        local = inspect.signature(getattr(seglog.Topic, name)).parameters.keys()
        assert local <= inspect.signature(getattr(kind, name)).parameters.keys(), name
    streamed = inspect.signature(seglog.Topic.append_stream).parameters.keys()
    assert streamed - {"digest", "length"} <= inspect.signature(kind.append_stream).parameters.keys()  # type: ignore[attr-defined] # of both


async def several(*pieces: bytes) -> AsyncIterator[bytes]:
    for piece in pieces:
        await asyncio.sleep(0)
        yield piece


@pytest.mark.parametrize("kind", ["sockets", "httpx"])
def test_a_topic_is_written_and_read(url: str, name: str, run: Callable[..., None], kind: str) -> None:
    async def story() -> None:
        transport = httpx.AsyncHTTPTransport() if kind == "httpx" else None
        async with seglog.AsyncClient(url, transport=transport) as client:
            assert (await client.health())["status"] == "ok"
            topic = await client.create_topic(name, partitions=2)
            with pytest.raises(seglog.TopicExists):
                await client.create_topic(name)
            places = await asyncio.gather(*(topic.append(b"%d" % number, partition=0) for number in range(200)))
            assert sorted(places) == [(0, offset) for offset in range(200)]
            streamed = await topic.append_stream(several(b"a", b"b" * 100_000), partition=1)
            assert (await topic.read(*streamed)).value == b"a" + b"b" * 100_000
            assert await topic.append_stream([b"x"], partition=1) == (1, 1)
            with pytest.raises(seglog.StreamOverflow):
                await topic.append_stream(several(b"x" * 100), limit=50)
            await topic.append_batch(pa.table({"value": [b"v"] * 1000}), partition=1, batch_bytes=500)
            assert [record.offset async for record in topic.records(1, 2)] == list(range(2, 1002))
            assert (await topic.to_arrow(0)).num_rows == 200
            with pytest.raises(seglog.OffsetOutOfRange):
                await topic.read(0, 200)
            assert (await anext(topic.follow(0, 0, share=(7, 10)))).offset == 7
            following = topic.follow(0, 199)
            assert (await anext(following)).offset == 199
            waiting = asyncio.create_task(anext(following))  # type: ignore[arg-type] # an awaitable, whatever its kind
            await topic.append(b"late", partition=0)
            assert (await waiting).value == b"late"

    run(story())


def test_an_asynchronous_source_needs_the_asynchronous_client(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    with pytest.raises(seglog.InvalidType):
        topic.append_stream(several(b"x"))
    assert topic.info().records == 0


def test_a_producer_and_a_consumer(url: str, name: str, run: Callable[..., None]) -> None:
    async def story() -> None:
        async with seglog.AsyncClient(url) as client:
            topic = await client.create_topic(name, partitions=3, config=seglog.LogConfig(segment_bytes=4096))
            with pytest.raises(seglog.RecordTooLarge):
                async with client.producer(name, queue_bytes=5000) as producer:
                    sent = [
                        await producer.send(b"x" * 9000 if number == 500 else b"%d" % number, key=b"%d" % (number % 9))
                        for number in range(1000)
                    ]
            assert isinstance(sent.pop(500).exception(), seglog.RecordTooLarge)
            places = {future.result() for future in sent}
            assert len(places) == 999
            with pytest.raises(seglog.LogClosed):
                await producer.send(b"late")

            async with await client.consumer(name, [name], session_timeout=HANG_SECONDS) as consumer:
                found: list[Any] = []
                while len(found) < 999:
                    found += await consumer.poll(timeout=5.0)
                await consumer.commit()
                assert {(one.partition, one.offset) for one in found} == places
                assert set((await consumer.lag()).values()) == {0}
                await consumer.seek(name, 0, 3)
                assert (await consumer.poll_batches(max_records=1))[0].batch["offset"].to_pylist() == [3]
                await consumer.seek_to_time(0)
                assert consumer.positions == {name: {0: 0, 1: 0, 2: 0}}
            assert (await client.group(name)).members == ()
            last: dict[Any, int] = {}
            for number in range(3):
                async for record in topic.records(number):
                    assert int(record.value or b"") > last.get(record.key, -1)
                    last[record.key] = int(record.value or b"")
                    places.remove((number, record.offset))
            assert not places

    run(story())


def test_appends_go_through_a_kill(serve: Callable[..., Any], run: Callable[..., None]) -> None:
    server = serve()

    async def story() -> None:
        async with seglog.AsyncClient(server.url, retries=PATIENT) as client:
            topic = await client.create_topic("orders")
            async with client.producer("orders", batch_records=20) as producer:
                futures = [await producer.send(b"%d" % number) for number in range(200)]
                await futures[50]
                await asyncio.to_thread(server.kill)
                started = asyncio.create_task(asyncio.to_thread(server.start))
                futures += [await producer.send(b"%d" % number) for number in range(200, 400)]
                single = await topic.append(b"400")
                await started
            assert {await future for future in futures} | {single} == {(0, offset) for offset in range(401)}

    run(story())


def test_closing_ends_the_tries(run: Callable[..., None]) -> None:
    async def story() -> None:
        client = seglog.AsyncClient("http://127.0.0.1:9", retries=1000)
        trying = asyncio.create_task(client.topics())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(seglog.LogClosed):
            await trying

    run(story())


@pytest.mark.parametrize("kind", [seglog.Client, seglog.AsyncClient])
@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "ftp://x"},
        {"url": "127.0.0.1:3000"},
        {"url": "http://"},
        {"token": "a\r\nb"},
        {"token": ""},
        {"timeout": 0},
    ],
)
def test_a_bad_argument_is_refused_at_once(kind: Any, wrong: dict[str, Any]) -> None:
    with pytest.raises(seglog.InvalidArgument):
        kind(**wrong)


def test_a_producer_whose_task_was_cancelled_with_all_others_still_sends_what_waits(url: str, name: str) -> None:
    async def story() -> None:
        async with seglog.AsyncClient(url) as client, asyncio.timeout(HANG_SECONDS):
            await client.create_topic(name)
            producer = client.producer(name, linger=60)
            sent = [await producer.send(b"%d" % number) for number in range(3)]
            await asyncio.sleep(0)  # its task begins
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()
            await asyncio.sleep(0)
            await producer.close()
            assert [(await one)[1] for one in sent] == [0, 1, 2]

    asyncio.run(story())
