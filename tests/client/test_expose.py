"""A client that reads only what survives power loss: topics, consumers, fetches; plain and awaited."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


@pytest.fixture
def topic(unsynced_url: str, name: str) -> str:
    """A topic with a synced record and one that is not synced."""
    name = f"expose-{name}"
    with seglog.Client(unsynced_url) as client:
        orders = client.create_topic(name)
        orders.append(b"safe", key=b"k", ack="durable", timestamp=1)
        orders.append(b"not yet", key=b"k", timestamp=2)
    return name


def test_a_topic_shows_only_synced_records_if_it_is_told_to(unsynced_url: str, topic: str) -> None:
    with seglog.Client(unsynced_url) as client:
        shown = client.topic(topic, expose="durable")
        assert [record.value for record in shown.records(0)] == [b"safe"]
        assert shown.to_arrow(0)["offset"].to_pylist() == [0]
        assert [record.offset for record in shown.with_key(b"k")] == [0]
        assert shown.offset_at(2) == {0: None}
        assert client.fetch({topic: {0: 0}}, expose="durable")[1] == {topic: {0: 1}}
        with pytest.raises(seglog.NotDurableYet, match="not synced yet") as refused:
            shown.read(0, 1)
        assert (refused.value.offset, refused.value.next_offset) == (1, 1)
        with pytest.raises(seglog.OffsetOutOfRange):
            shown.read(0, 2)
        assert client.topic(topic).read(0, 1).value == b"not yet"
        client.topic(topic).append(b"third", ack="durable")
        assert shown.read(0, 1).value == b"not yet"


def test_a_consumer_gets_a_record_once_it_is_synced(unsynced_url: str, topic: str) -> None:
    with seglog.Client(unsynced_url, expose="durable") as client:
        with client.consumer(f"g-{topic}", [topic]) as consumer:
            assert [record.value for record in consumer.poll()] == [b"safe"]
            assert consumer.lag() == {(topic, 0): 0}
            assert consumer.poll() == []
            client.topic(topic).append(b"third", ack="durable")
            assert [record.value for record in consumer.poll(timeout=HANG_SECONDS)] == [b"not yet", b"third"]
        with client.consumer(f"g-{topic}-2", [topic], start="latest", expose="appended") as consumer:
            client.topic(topic).append(b"fourth")
            assert [record.value for record in consumer.poll(timeout=HANG_SECONDS)] == [b"fourth"]


def test_a_consumer_whose_position_is_after_the_synced_records_waits_there(unsynced_url: str, topic: str) -> None:
    with seglog.Client(unsynced_url) as client:
        client.commit(f"g-{topic}", {topic: {0: 2}})
        with client.consumer(f"g-{topic}", [topic], expose="durable") as consumer:
            assert consumer.poll() == []
            client.topic(topic).append(b"third", ack="durable")
            assert [record.value for record in consumer.poll(timeout=HANG_SECONDS)] == [b"third"]


def test_following_waits_for_the_sync(unsynced_url: str, topic: str) -> None:
    with seglog.Client(unsynced_url) as client:
        following = client.topic(topic, expose="durable").follow(start="earliest")
        assert next(following).value == b"safe"
        client.topic(topic).append(b"third", ack="durable")
        assert [next(following).value for _ in range(2)] == [b"not yet", b"third"]


def test_an_awaited_client_shows_the_same(
    unsynced_url: str, topic: str, run: Callable[[Coroutine[Any, Any, None]], None]
) -> None:
    async def story() -> None:
        async with seglog.AsyncClient(unsynced_url, expose="durable") as client:
            shown = client.topic(topic)
            assert [record.value async for record in shown.records(0)] == [b"safe"]
            with pytest.raises(seglog.NotDurableYet):
                await shown.read(0, 1)
            async with await client.consumer(f"g-{topic}", [topic]) as consumer:
                assert len(await consumer.poll()) == 1
                polling = asyncio.create_task(consumer.poll(timeout=HANG_SECONDS))
                await client.topic(topic, expose="appended").append(b"third", ack="durable")
                assert [record.value for record in await polling] == [b"not yet", b"third"]

    run(story())


@pytest.mark.parametrize("wrong", ["", "all", 1, b"durable"])
def test_what_is_exposed_is_checked(unsynced_url: str, wrong: Any) -> None:
    with pytest.raises(seglog.InvalidArgument, match="expose"):
        seglog.Client(unsynced_url, expose=wrong)
    with seglog.Client(unsynced_url) as client:
        for call in (
            lambda: client.topic("t", expose=wrong),
            lambda: client.fetch({"t": {0: 0}}, expose=wrong),
            lambda: client.consumer("g", ["t"], expose=wrong),
        ):
            with pytest.raises(seglog.InvalidArgument, match="expose"):
                call()
