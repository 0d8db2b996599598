"""Every awaited call of topics, brokers and consumers, on asyncio and on trio.

Cancelled tasks lose and double nothing, and closing always closes.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa
import pytest

import seglog
import seglog.aio
from seglog import Retention
from seglog.serializers import JSON, STRING
from seglog.types import Draft
from tests.aio.stories import batch, gather

if TYPE_CHECKING:
    pass


def test_a_topic_answers_every_call(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.AsyncTopic.create(tmp_path / "orders", partitions=3) as topic:
            stored = await gather(*(topic.append(b"%d" % n, key=b"%d" % (n % 7)) for n in range(300)))
            assert len(set(stored)) == 300
            assert {number for number, _ in stored} == {0, 1, 2}
            for number in range(3):
                of_one = [record async for record in topic.partition(number).scan()]
                assert {topic.route(record.key) for record in of_one} == {number}
            first = await topic.append(b"v", once="a")
            assert await topic.append(b"v", once="a") == first
            with pytest.raises(seglog.OnceConflict):
                await topic.append(b"w", once="a")
            with pytest.raises(seglog.InvalidArgument, match="needs partition"):
                await topic.append(b"v", expected_offset=0)
            with pytest.raises(seglog.InvalidArgument):
                await topic.append(b"v", partition=3)
            with pytest.raises(seglog.InvalidType):
                await topic.append("text")  # type: ignore[arg-type] # the wrong type is the test
            number, offset = await topic.append_stream([b"a", b"b"], key=b"k")
            assert (await topic.partition(number).read(offset)).value == b"ab"
            assert [record.value for record in await topic.read_many(number, [offset])] == [b"ab"]
            assert (await topic.read_keys([b"k"]))[b"k"].offset == offset
            assert sum(len(offsets) for offsets in (await topic.append_batch(batch(b"x", b"y"))).values()) == 2
            writer = topic.writer(1)
            assert (await writer.append(Draft(b"v"), durable=True))[0] == 1
            await writer.sync()
            assert writer.log is topic.partition(1)
            assert topic.is_ready(0, 10) in (True, False)
            await topic.alter(retention=Retention(age=60))
            await topic.alter(compression="lz4")
            await topic.alter(segment_age=3600)
            await topic.add_partitions(topic.partitions + 1)
            assert topic.partition(topic.partitions - 1).next_offset == 0
            assert await topic.published("q") is None
            await topic.check_staged({})
            assert await topic.publish({}, query="q", batch=0) == {}
            await topic.sync()
            assert (topic.name, topic.partitions, len(topic.id)) == ("orders", 4, 32)
            assert pa.table(topic).num_rows == 305
        assert topic.closed
        with pytest.raises(seglog.LogClosed):
            await topic.append(b"v")
        async with await seglog.aio.AsyncTopic.open(tmp_path / "orders", mode="r") as reader:
            assert sum([len([one async for one in reader.partition(n).scan()]) for n in range(3)]) == 305
            with pytest.raises(seglog.LogReadOnly):
                await reader.append(b"v")

    run(story)


def test_an_append_removes_a_mark_of_another_one(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.AsyncTopic.create(tmp_path / "orders", partitions=1) as topic:
            await topic.append(b"v", headers=[("seglog-once", b"1 0123456789abcdef a"), ("h", b"x")])
            assert (await topic.partition(0).read(0)).headers == (("h", b"x"),)

    run(story)


def test_a_broker_and_its_consumer_answer_every_call(run: Any, place: Any) -> None:
    async def story() -> None:
        async with await seglog.aio.AsyncBroker.open(place) as broker:
            orders = await broker.create_topic("orders", partitions=2)
            assert await broker.topic("orders") is orders
            assert broker.if_open("orders") is orders
            assert await broker.topics() == ["orders"]
            await gather(*(orders.append(b"%d" % number) for number in range(100)))
            async with await broker.consumer("billing", ["orders"]) as consumer:
                assert consumer.assignment == (("orders", 0), ("orders", 1))
                seen = []
                while len(seen) < 60:
                    seen += await consumer.poll(max_records=10, timeout=1)
                await consumer.commit()
                assert sum((await consumer.lag()).values()) == 40
                while len(seen) < 100:
                    seen += [None] * sum(one.batch.num_rows for one in await consumer.poll_batches(max_records=10))
                await consumer.seek("orders", 0, 0)
                assert (await consumer.positions)["orders"][0] == 0
                await consumer.seek_to_time(0)
                assert len(await consumer.poll()) == 100
                assert await consumer.poll(timeout=0.01) == []
            assert (await broker.groups).committed("billing")["orders"]
            await broker.alter_topic("orders", retention=Retention(age=60))
            await broker.alter_topic("orders", compression="lz4")
            await broker.alter_topic("orders", segment_age=3600)
            assert set(await broker.logs()) == {".groups", "orders/0", "orders/1"}
            assert await broker.free_bytes() > 0
            await broker.add_partitions("orders", 3)
            assert "orders/2" in await broker.logs()
            assert (broker.failed, broker.poisoned, broker.unpublished, broker.recovered) == ({}, {}, {}, ())
            await broker.sync()
            await broker.delete_topic("orders")
            with pytest.raises(seglog.SeglogError):
                await orders.append(b"v")
            with pytest.raises(seglog.TopicNotFound):
                await broker.topic("orders")
            assert broker.if_open("orders") is None
            again = await broker.create_topic("orders")
            assert await again.append(b"new") == (0, 0)
        with pytest.raises(seglog.LogClosed):
            await broker.topics()

    run(story)


def test_records_of_a_cancelled_poll_are_polled_again_and_not_committed(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        choose = random.Random(24)
        async with await seglog.aio.AsyncBroker.open(tmp_path) as broker:
            orders = await broker.create_topic("orders", partitions=3)
            await gather(*(orders.append(b"%d" % number) for number in range(300)))
            async with await broker.consumer("billing", ["orders"]) as consumer:
                seen: list[bytes | None] = []
                while len(seen) < 300:
                    with anyio.move_on_after(choose.choice([0, 0.0002, 0.001, 1])):
                        seen += [record.value for record in await consumer.poll(max_records=7)]
                    await consumer.commit()
                    delivered = sum(sum(of.values()) for of in (await broker.groups).committed("billing").values())
                    assert delivered == len(seen)
                assert sorted(seen, key=lambda value: int(value or b"")) == [b"%d" % number for number in range(300)]

    run(story)


def test_a_broker_closes_its_topics_whatever_is_cancelled(run: Any, tmp_path: Any) -> None:
    async def story() -> None:
        broker = await seglog.aio.AsyncBroker.open(tmp_path)
        orders = await broker.create_topic("orders", partitions=10)
        done: list[tuple[int, int]] = []

        async def append() -> None:
            done.append(await orders.append(b"v"))

        async with anyio.create_task_group() as group:
            for _ in range(100):
                group.start_soon(append)
            for _ in range(2):  # trio starts tasks in any order
                await anyio.sleep(0)
            with anyio.CancelScope() as scope:
                scope.cancel()
                await broker.close()
        await broker.close()
        assert len(done) == 100
        async with await seglog.aio.AsyncBroker.open(tmp_path, mode="r") as again:
            topic = await again.topic("orders")
            assert sum(len(topic.partition(number)) for number in range(10)) == 100

    run(story)


def test_serializers_of_a_broker_and_its_consumer(run: Any, tmp_path: Any) -> None:
    both: dict[str, Any] = {"key_serializer": STRING, "value_serializer": JSON}
    back: dict[str, Any] = {"key_deserializer": STRING, "value_deserializer": JSON}

    async def story() -> None:
        async with await seglog.aio.AsyncBroker.open(tmp_path) as broker:
            raw = await broker.create_topic("orders", partitions=2)
            orders = await broker.topic("orders", **both, **back)
            number, offset = await orders.append({"n": 0}, key="k")
            assert number == orders.route("k") == raw.route(b"k")
            assert orders.partition(number) is raw.partition(number)
            assert await orders.append({"n": 1}, key="k", once="a") == (number, offset + 1)
            assert await orders.append_stream([b'{"n":', b"2}"], key="k") == (number, offset + 2)
            with pytest.raises(seglog.SerializationError):
                await orders.append({1, 2})
            assert (await orders.read(number, 0)).value == {"n": 0}
            assert [record.value["n"] async for record in orders.records(number)] == [0, 1, 2]
            await raw.append(b"bad", partition=number)
            await raw.append(b'{"n":4}', partition=number)
            async with await broker.consumer("billing", ["orders"], **back) as consumer:
                assert [record.value["n"] for record in await consumer.poll()] == [0, 1, 2]
                with pytest.raises(seglog.SerializationError) as caught:
                    await consumer.poll()
                await consumer.commit()
                assert (await broker.groups).committed("billing")["orders"][number] == caught.value.offset == 3
                await consumer.seek("orders", number, 4)
                assert [record.value["n"] for record in await consumer.poll()] == [4]
            await orders.close()
            assert raw.closed
        async with await seglog.aio.AsyncTopic.open(tmp_path / "orders", mode="r", **back) as reader:
            assert (await reader.read(number, 0)).key == "k"

    run(story)
