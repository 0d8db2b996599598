"""The producer: order, batches, refusals that hit their own record only, bounds; its queue as a model."""

from __future__ import annotations

import multiprocessing
import threading
from concurrent.futures import CancelledError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, Retention
from seglog.client.producing import Outbox, entry
from tests.waiting import HANG_SECONDS


def record(value: bytes) -> Any:
    return entry(value, key=None, timestamp=None, headers=(), partition=None, future=None)


@given(st.lists(st.integers(0, 300), max_size=60), st.integers(1, 10), st.integers(1, 800))
def test_a_queue_gives_everything_in_order_within_its_bounds(sizes: list[int], records: int, most: int) -> None:
    outbox = Outbox(batch_bytes=most, batch_records=records, queue_bytes=10**6)
    for number, size in enumerate(sizes):
        outbox.put(record(b"%d" % number), size, float(number))
    taken: list[bytes] = []
    while outbox:
        assert outbox.oldest == len(taken)
        batch = outbox.take()
        assert 1 <= len(batch) <= records
        assert len(batch) == 1 or sum(sizes[len(taken) : len(taken) + len(batch)]) <= most
        taken += [one.value for one in batch]
    assert taken == [b"%d" % number for number in range(len(sizes))]
    assert outbox.has_room(10**9), "an empty queue takes any record"


def test_a_queue_has_bounds() -> None:
    outbox = Outbox(batch_bytes=100, batch_records=3, queue_bytes=150)
    outbox.put(record(b""), 90, 0.0)
    assert (outbox.is_full, outbox.has_room(60), outbox.has_room(61)) == (False, True, False)
    outbox.put(record(b""), 60, 0.0)
    assert outbox.is_full
    with pytest.raises(seglog.InvalidArgument):
        Outbox(batch_bytes=0, batch_records=3, queue_bytes=150)


@pytest.mark.parametrize("partitions", [1, 3])
def test_each_record_gets_its_place_and_keys_keep_their_order(
    client: seglog.Client, name: str, partitions: int
) -> None:
    topic = client.create_topic(name, partitions=partitions)
    with client.producer(name, batch_records=100) as producer:
        sent = [
            (b"%d" % number, producer.send(b"%d" % number, key=b"k%d" % (number % 7) if number % 3 else None))
            for number in range(2000)
        ]
    places = {future.result(): value for value, future in sent}
    assert len(places) == 2000
    last: dict[bytes, int] = {}
    for partition in range(partitions):
        for found in topic.records(partition):
            assert places.pop((partition, found.offset)) == found.value
            if found.key is not None:
                assert int(found.value or b"") > last.get(found.key, -1)
                last[found.key] = int(found.value or b"")
    assert places == {}


def test_everything_of_a_record_is_sent(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=3)
    with client.producer(name) as producer:
        full = producer.send(b"v", key=b"k", timestamp=77, headers={"a": b"1", "b": None}.items(), partition=2)
        tombstone = producer.send(None, key=b"k", partition=2)
    assert full.result() == (2, 0)
    found = topic.read(2, 0)
    assert (found.key, found.value, found.timestamp) == (b"k", b"v", 77)
    assert found.headers[-2:] == (("a", b"1"), ("b", None))
    assert topic.read(*tombstone.result()).value is None


def test_a_lone_record_does_not_wait_for_a_batch(client: seglog.Client, name: str) -> None:
    client.create_topic(name)
    with client.producer(name, linger=0.0) as producer:
        assert [producer.send(b"v").result(timeout=HANG_SECONDS) for _ in range(3)] == [(0, 0), (0, 1), (0, 2)]


@pytest.mark.parametrize("partitions", [1, 4])
def test_a_refused_record_fails_alone(client: seglog.Client, name: str, partitions: int) -> None:
    topic = client.create_topic(name, partitions=partitions, config=LogConfig(segment_bytes=4096))
    with pytest.raises(seglog.RecordTooLarge) as told, client.producer(name, linger=60) as producer:
        sent = [producer.send(b"x" * (9000 if number % 40 == 7 else 10), key=b"%d" % number) for number in range(100)]
    assert "3 records failed" in "".join(told.value.__notes__)
    for number, future in enumerate(sent):
        if number % 40 == 7:
            assert isinstance(future.exception(), seglog.RecordTooLarge)
        else:
            partition, offset = future.result()
            assert topic.read(partition, offset).key == b"%d" % number
    assert topic.info().records == 97, "nothing is stored twice although the batch was taken apart"


def test_records_without_a_key_fail_alone_where_keys_are_required(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2, config=LogConfig(retention=Retention(compact=True)))
    producer = client.producer(name, linger=60)
    sent = [producer.send(b"v", key=b"%d" % number if number % 2 else None) for number in range(50)]
    with pytest.raises(seglog.KeyRequired):
        producer.flush()
    producer.close()
    assert [isinstance(one.exception(), seglog.KeyRequired) for one in sent] == [True, False] * 25
    assert topic.info().records == 25


def test_a_missing_topic_fails_every_record_and_the_next_ones_are_tried_anew(client: seglog.Client, name: str) -> None:
    producer = client.producer(name)
    lost = producer.send(b"v")
    with pytest.raises(seglog.TopicNotFound):
        producer.flush()
    assert isinstance(lost.exception(), seglog.TopicNotFound)
    client.create_topic(name)
    kept = producer.send(b"v")
    producer.close()
    assert kept.result() == (0, 0)


def test_a_partition_that_is_not_there_fails_its_record_only(client: seglog.Client, name: str) -> None:
    client.create_topic(name, partitions=2)
    producer = client.producer(name, linger=60)
    good, bad = producer.send(b"v", partition=1), producer.send(b"v", partition=9)
    with pytest.raises(seglog.InvalidArgument):
        producer.close()
    assert good.result() == (1, 0)
    assert isinstance(bad.exception(), seglog.InvalidArgument)


def test_a_full_queue_makes_the_sender_wait_and_loses_nothing(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    with client.producer(name, queue_bytes=3000, batch_bytes=1000) as producer:
        futures = [producer.send(b"x" * 500) for _ in range(100)]
        assert sum(not future.done() for future in futures) <= 3000 // 500 + 1000 // 500 + 1
    assert topic.info().records == 100


def test_many_threads_share_a_producer(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2)
    with client.producer(name) as producer:

        def work(own: int) -> None:
            for number in range(200):
                producer.send(b"%d" % number, key=b"%d" % own)
            producer.flush()

        threads = [threading.Thread(target=work, args=[own]) for own in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    seen: dict[bytes | None, list[int]] = {}
    for partition in range(2):
        for found in topic.records(partition):
            seen.setdefault(found.key, []).append(int(found.value or b""))
    assert seen == {b"%d" % own: list(range(200)) for own in range(8)}


def test_a_cancelled_record_is_not_sent(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    with client.producer(name, linger=60) as producer:
        kept, dropped = producer.send(b"kept"), producer.send(b"dropped")
        assert dropped.cancel()
    assert kept.result() == (0, 0)
    with pytest.raises(CancelledError):
        dropped.result()
    assert [found.value for found in topic.records(0)] == [b"kept"]


def test_a_closed_producer_takes_nothing_more(client: seglog.Client, name: str) -> None:
    client.create_topic(name)
    producer = client.producer(name)
    producer.close()
    producer.close()
    with pytest.raises(seglog.LogClosed):
        producer.send(b"v")
    for wrong in ({"linger": -1}, {"batch_bytes": 0}, {"queue_bytes": 0}):
        with pytest.raises(seglog.InvalidArgument):
            client.producer(name, **wrong)  # type: ignore[arg-type] # they are what is tested
    with pytest.raises(seglog.InvalidType):
        client.producer(name).send("text")  # type: ignore[arg-type] # as above


def test_what_nobody_foresaw_fails_its_batch_and_the_next_one_is_sent(client: seglog.Client, name: str) -> None:
    client.create_topic(name)
    producer = client.producer(name)
    deliver, broken = producer._deliverer.deliver, iter([True])

    def once_broken(batch: Any, once: str) -> Any:
        if next(broken, False):
            raise ZeroDivisionError
        return (yield from deliver(batch, once))

    producer._deliverer.deliver = once_broken  # type: ignore[method-assign] # a bug of ours, or of a transport
    with pytest.raises(seglog.ServerError, match="failed before the fate"):
        producer.send(b"v").result(HANG_SECONDS)
    assert producer.send(b"w").result(HANG_SECONDS) == (0, 0)
    with pytest.raises(seglog.ServerError):
        producer.close()


def _in_a_child(producer: Any) -> None:
    with pytest.raises(seglog.LogClosed, match="fork"):
        producer.send(b"child")
    with pytest.raises(seglog.LogClosed, match="fork"):
        producer.flush()
    producer.close()


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_a_forked_child_cannot_use_its_parents_producer(client: seglog.Client, name: str) -> None:
    client.create_topic(name)
    with client.producer(name) as producer:
        producer.send(b"v").result(HANG_SECONDS)
        child = multiprocessing.get_context("fork").Process(target=_in_a_child, args=(producer,))
        child.start()
        child.join(HANG_SECONDS)
        assert child.exitcode == 0
