"""Topics and brokers in a Storage: they work whole where there is no file system."""

from __future__ import annotations

import errno
from contextlib import suppress

import pyarrow as pa
import pytest

import seglog
from seglog import Broker, MemoryStorage, Topic
from seglog.errors import InvalidArgument, LogLocked, LogNotFound, NotALog, TopicNotFound
from seglog.log.staging import Stage, StagedSegment
from seglog.storage import Subdirectory
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.topic.layout.places import logs_at, topics_at


@pytest.fixture
def storage() -> MemoryStorage:
    return MemoryStorage("here")


def values(topic: Topic) -> list[list[bytes | None]]:
    return [[record.value for record in topic.partition(number).scan()] for number in range(topic.partitions)]


def staged(storage: MemoryStorage, place: str, rows: list[bytes]) -> list[StagedSegment]:
    with Stage(Subdirectory(storage, place), "batch") as stage:
        stage.append_batch(pa.table({"value": rows}))
        return stage.finish()


def test_a_topic_is_created_opened_again_and_read_beside_its_writer(storage: MemoryStorage) -> None:
    with Topic.create(storage, partitions=2, name="orders") as topic:
        assert topic.append(b"1", partition=1, once="a") == topic.append(b"1", partition=1, once="a")
        topic.append_batch(pa.table({"value": [b"2", b"3"]}))
        with pytest.raises(LogLocked):
            Topic.open(storage)
        with Topic.open(storage, mode="r") as reader:
            assert (reader.name, values(reader)) == ("orders", values(topic))
    with Topic.open(storage) as topic:
        assert values(topic) == [[b"2"], [b"1", b"3"]]
        assert topic.append(b"1", partition=1, once="a") == (1, 0)
        assert str(topic.path) == "<here>"


def test_a_topic_is_not_created_twice_nor_over_something_else(storage: MemoryStorage) -> None:
    Topic.create(storage, partitions=1).close()
    with pytest.raises(InvalidArgument, match="already is a topic"):
        Topic.create(storage, partitions=1)
    storage.make(["other"])
    storage.create("other/notes.txt")
    with pytest.raises(NotALog, match=r"notes\.txt"):
        Topic.create(Subdirectory(storage, "other"), partitions=1)
    with pytest.raises(NotALog, match="is a file"):
        Topic.create(Subdirectory(storage, "other/notes.txt"), partitions=1)
    with pytest.raises(LogNotFound):
        Topic.open(Subdirectory(storage, "nowhere"))


def test_a_batch_is_published_to_many_partitions(storage: MemoryStorage) -> None:
    with Topic.create(storage, partitions=3) as topic:
        share = {0: staged(storage, "0", [b"a", b"b"]), 2: staged(storage, "2", [b"c"])}
        assert topic.publish(share, query="q", batch=0) == {0: range(2), 2: range(1)}
        assert topic.publish(share, query="q", batch=0) is None
    with Topic.open(storage) as topic:
        assert values(topic) == [[b"a", b"b"], [], [b"c"]]


def test_a_broker_keeps_topics_groups_and_offsets(storage: MemoryStorage) -> None:
    with Broker(storage) as broker:
        topic = broker.create_topic("orders", partitions=2)
        broker.create_topic("users")
        topic.append(b"1", partition=1)
        broker.alter_topic("orders", retention=seglog.Retention(bytes=10**6))
        with broker.consumer("billing", ["orders"]) as consumer:
            assert [record.value for record in consumer.poll(timeout=0)] == [b"1"]
            consumer.commit()
        with pytest.raises(LogLocked):
            Broker(storage)
        with Broker(storage, mode="r") as reader:
            assert reader.topics() == ["orders", "users"]
    with Broker(storage) as broker:
        assert (broker.topics(), broker.recovered) == (["orders", "users"], ())
        assert broker.groups.committed("billing")["orders"][1] == 1
        assert broker.topic("orders").partition(0).config.retention.bytes == 10**6
        assert values(broker.topic("orders")) == [[], [b"1"]]
        broker.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            broker.topic("orders")
        assert broker.groups.names() == [] or "orders" not in broker.groups.committed("billing")
        assert storage.names() == [".groups", ".seglog.lock", "users"]


def test_a_topic_and_a_log_are_no_broker(storage: MemoryStorage) -> None:
    Topic.create(Subdirectory(storage, "topic"), partitions=1).close()
    for name, kind in (("topic", "topic"), ("topic/0", "log")):
        with pytest.raises(NotALog, match=f"this is a {kind} itself"):
            Broker(Subdirectory(storage, name))
    with pytest.raises(NotALog, match="this is a file"):
        Broker(Subdirectory(storage, "topic/topic.json"))


def test_what_is_on_its_way_out_is_no_topic_of_the_directory(storage: MemoryStorage) -> None:
    faulty = FaultyStorage(
        storage, Fault(operations=frozenset({"remove_directory"}), name=".deleted-", error=errno.EIO)
    )
    with Broker(faulty) as broker:
        broker.create_topic("orders").append(b"old")
        broker.delete_topic("orders")
        assert any(name.startswith(".deleted-") for name in storage.names())
        assert topics_at(storage) == {}
        broker.create_topic("orders", partitions=2)
        assert [place.key for place in logs_at(storage)] == [("orders", 0), ("orders", 1)]
    with Broker(storage):
        assert storage.names() == [".groups", ".seglog.lock", "orders"]


def test_a_create_that_dies_while_it_clears_what_another_left_can_be_done_again(storage: MemoryStorage) -> None:
    for at in range(1, 300):
        root = MemoryStorage()
        dying = FaultyStorage(root, Fault(operations=frozenset({"rename"}), name="topic.json"))
        with pytest.raises(Crashed):
            Topic.create(dying, partitions=2)
        again = FaultyStorage(root, Fault(at=at))
        with suppress(Crashed):
            Topic.create(again, partitions=2)
        again.crash()
        if not again.struck:
            break
        made = "topic.json" in root.names()
        with Topic.open(root) if made else Topic.create(root, partitions=3) as topic:
            topic.append(b"v")
            assert sorted(root.names()) == [
                ".seglog.lock",
                *map(str, range(topic.partitions)),
                "topic.json",
            ]
    assert 10 < at < 299


def test_the_directory_of_transactions_is_on_the_medium_before_one_is_committed(storage: MemoryStorage) -> None:
    """Who made it may have died before its name was: the commit rests on that name."""
    with Topic.create(storage, partitions=1) as topic:
        share = {0: staged(storage, "0", [b"a"])}
    storage.make(["txn"])
    watched = FaultyStorage(storage)
    with Topic.open(watched) as topic:
        watched.calls.clear()
        topic.publish(share, query="q", batch=0)
    calls = [(call.operation, call.name) for call in watched.calls]
    assert calls.index(("sync_directory", "")) < calls.index(("rename", "txn/q-0.json"))
