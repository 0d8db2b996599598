"""Serializers of topics, producers and consumers over HTTP, sync and async: as those of a topic."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.serializers import JSON, STRING
from seglog.topic.partitioner import partition_of

if TYPE_CHECKING:
    from collections.abc import Callable

BOTH: dict[str, Any] = {
    "key_serializer": STRING,
    "value_serializer": JSON,
    "key_deserializer": STRING,
    "value_deserializer": JSON,
}


def test_a_topic_over_http_takes_and_returns_objects(client: seglog.Client, name: str) -> None:
    client.create_topic(name, partitions=3)
    orders, raw = client.topic(name, **BOTH), client.topic(name)
    number, offset = orders.append({"n": 1}, key="k")
    assert number == partition_of(b"k", 3)
    assert raw.read(number, offset)[2:4] == (b"k", b'{"n":1}')
    assert orders.append_stream([b'{"n":', b"2}"], key="k") == (number, offset + 1)
    orders.append(None, key="k")
    assert [record[2:4] for record in orders.records(number)] == [("k", {"n": 1}), ("k", {"n": 2}), ("k", None)]
    assert [record.value for record in orders.with_key("k")] == [{"n": 1}, {"n": 2}, None]
    following = orders.follow(number, start=0)
    assert [next(following).value for _ in range(3)] == [{"n": 1}, {"n": 2}, None]
    assert raw.to_arrow(number).column("value").to_pylist()[0] == b'{"n":1}'
    with pytest.raises(seglog.SerializationError, match="nothing was stored"):
        orders.append(object(), key="k")
    raw.append(b"bad", key=b"k")
    with pytest.raises(seglog.SerializationError) as caught:
        orders.read(number, 3)
    assert (caught.value.partition, caught.value.offset, caught.value.record.value) == (number, 3, b"bad")
    with pytest.raises(seglog.InvalidType, match="value_serializer"):
        client.topic(name, value_serializer=5)  # type: ignore[arg-type] # the wrong type is the test


def test_a_producer_and_a_consumer_over_http(client: seglog.Client, name: str) -> None:
    raw = client.create_topic(name, partitions=2)
    with client.producer(name, key_serializer=STRING, value_serializer=JSON) as producer:
        sent = [producer.send({"n": n}, key=str(n)) for n in range(20)]
        with pytest.raises(seglog.SerializationError):
            producer.send(b"bytes are no JSON")
    assert all(one.result()[0] == partition_of(b"%d" % n, 2) for n, one in enumerate(sent))
    bad = raw.append(b"bad", partition=0)
    raw.append(b'{"n":20}', partition=0)
    with client.consumer(f"{name}-g", [name], key_deserializer=STRING, value_deserializer=JSON) as consumer:
        seen: list[int] = []
        errors = []
        for _ in range(10):
            try:
                seen += [record.value["n"] for record in consumer.poll(max_records=5)]
            except seglog.SerializationError as error:
                consumer.commit()
                assert client.committed(f"{name}-g")[name][0] == error.offset
                errors.append((error.partition, error.offset, error.record.value))
                consumer.seek(name, error.partition or 0, (error.offset or 0) + 1)
        assert sorted(seen) == list(range(21))
        assert errors == [(*bad, b"bad")]


def test_the_async_client_does_the_same(url: str, name: str, run: Callable[..., None]) -> None:
    async def story() -> None:
        async with seglog.AsyncClient(url) as client:
            await client.create_topic(name)
            orders, raw = client.topic(name, **BOTH), client.topic(name)
            assert await orders.append({"n": 0}, key="k") == (0, 0)
            async with client.producer(name, key_serializer=STRING, value_serializer=JSON) as producer:
                await producer.send({"n": 1}, key="k")
                with pytest.raises(seglog.SerializationError):
                    await producer.send(b"no JSON")
            await orders.append_stream([b'{"n":2}'], key="k")
            assert [record.value["n"] async for record in orders.records(0)] == [0, 1, 2]
            assert [record.key for record in await orders.with_key("k")] == ["k"] * 3
            following = orders.follow(0, start=0)
            assert [(await anext(following)).value["n"] for _ in range(3)] == [0, 1, 2]
            assert (await orders.read(0, 1)).value == {"n": 1}
            await raw.append(b"bad")
            consumer = await client.consumer(f"{name}-g", [name], value_deserializer=JSON)
            async with consumer:
                assert [record.value["n"] for record in await consumer.poll()] == [0, 1, 2]
                with pytest.raises(seglog.SerializationError) as caught:
                    await consumer.poll()
                await consumer.seek(name, 0, (caught.value.offset or 0) + 1)
                assert await consumer.poll() == []

    run(story())
