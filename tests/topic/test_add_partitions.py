"""A topic gets more partitions: at once for its users, durably, in its copies, and never only in part."""

from __future__ import annotations

import errno
from contextlib import suppress

import pytest

import seglog
from seglog.errors import InvalidArgument, LogClosed, LogReadOnly, SeglogError, TopicNotFound
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.topic.groups import position
from seglog.topic.topic import Topic
from tests.waiting import HANG_SECONDS, until


@pytest.fixture
def broker(tmp_path):
    with seglog.Broker(tmp_path / "root") as broker:
        broker.create_topic("t", partitions=2, config=seglog.LogConfig(segment_bytes=4096))
        yield broker


def test_the_new_partitions_are_used_at_once_and_after_a_restart(broker, tmp_path):
    topic = broker.topic("t")
    topic.append(b"old", partition=1)
    broker.add_partitions("t", 5)
    assert topic.partitions == broker.topic("t").partitions == 5
    assert topic.partition(4).config == topic.partition(0).config
    topic.append(b"new", partition=4)
    assert {topic.append(b"%d" % number, key=b"k%d" % number)[0] for number in range(40)} == {0, 1, 2, 3, 4}
    topic.append(b"once", once="a", partition=3)
    broker.close()
    with seglog.Broker(tmp_path / "root") as again:
        assert again.topic("t").partitions == 5
        assert again.topic("t").read(1, 0).value == b"old"
        assert again.topic("t").read(4, 0).value == b"new"
        before = again.topic("t").partition(3).next_offset
        again.topic("t").append(b"once", once="a", partition=3)
        assert again.topic("t").partition(3).next_offset == before


def test_a_reading_broker_sees_them(broker, tmp_path):
    with seglog.Broker(tmp_path / "root", mode="r") as reader:
        assert reader.topic("t").partitions == 2
        broker.add_partitions("t", 3)
        assert reader.topic("t").partitions == 3


def test_members_of_a_group_get_them(broker, monkeypatch):
    monkeypatch.setattr(position, "MAX_BEAT_SECONDS", 0.1)
    broker.topic("t").append(b"0", partition=0)
    with broker.consumer("g", ["t"], session_timeout=HANG_SECONDS) as consumer:
        until(lambda: consumer.poll(timeout=0.1))
        broker.add_partitions("t", 3)
        broker.topic("t").append(b"2", partition=2)
        until(lambda: [one.value for one in consumer.poll(timeout=0.1)] == [b"2"])


@pytest.mark.parametrize("count", [-1, 0, 1, 2, 10_001])
def test_a_number_that_is_not_more_is_refused(broker, count):
    with pytest.raises(InvalidArgument):
        broker.add_partitions("t", count)
    assert broker.topic("t").partitions == 2


def test_only_an_open_topic_of_a_writer_can_grow(broker, tmp_path):
    with pytest.raises(TopicNotFound):
        broker.add_partitions("absent", 3)
    with seglog.Broker(tmp_path / "root", mode="r") as reader, pytest.raises(LogReadOnly):
        reader.add_partitions("t", 3)
    with Topic.open(tmp_path / "root" / "t", mode="r") as topic, pytest.raises(LogReadOnly):
        topic.add_partitions(3)
    topic = broker.topic("t")
    broker.close()
    with pytest.raises(LogClosed):
        topic.add_partitions(3)


def test_a_copy_follows(broker, tmp_path):
    broker.topic("t").append(b"0", partition=0)
    mirror = seglog.Mirror(tmp_path / "root", tmp_path / "copy")
    mirror.step()
    broker.add_partitions("t", 4)
    broker.topic("t").append(b"3", partition=3)
    while ("t", 3) not in mirror.lags or mirror.lag.records:
        mirror.step()
    with seglog.Broker(tmp_path / "copy", mode="r") as copy:
        assert copy.topic("t").partitions == 4
        assert copy.topic("t").read(3, 0).value == b"3"
    mirror.close()
    broker.add_partitions("t", 5)  # while no mirror runs
    with seglog.Mirror(tmp_path / "root", tmp_path / "copy") as mirror:
        mirror.step()
    with seglog.Broker(tmp_path / "copy", mode="r") as copy:
        assert copy.topic("t").partitions == 5


def test_whichever_call_fails_the_topic_is_sound_and_can_grow_again():
    for number in range(1, 200):
        storage = FaultyStorage(seglog.MemoryStorage())
        with Topic.create(storage, partitions=2) as topic:
            topic.append(b"kept", partition=1)
            storage.fault = Fault(at=number, error=errno.EIO)
            with suppress(SeglogError):
                topic.add_partitions(4)
            struck, storage.fault = storage.struck, None
            assert topic.partitions in (2, 4)
            if topic.partitions == 2:
                topic.add_partitions(4)
            topic.append(b"new", partition=3)
        with Topic.open(storage) as topic:
            assert topic.partitions == 4
            assert (topic.read(1, 0).value, topic.read(3, 0).value) == (b"kept", b"new")
        if not struck:
            return
    pytest.fail("it never succeeded")
