"""Committed offsets of a partition whose history changed: a group never goes on in other records."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, Topic
from seglog.topic.groups.records import OffsetRecord, encode

if TYPE_CHECKING:
    from pathlib import Path


def fill(topic: Topic, count: int, text: str) -> None:
    for number in range(count):
        topic.append(f"{text}{number}".encode(), partition=0)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A broker's directory, where a group has committed offset 7 of 10."""
    with Broker(tmp_path / "broker") as broker:
        fill(broker.create_topic("orders"), 10, "old")
        broker.groups.commit("billing", {"orders": {0: 7}})
    return tmp_path / "broker"


def create_again(root: Path, count: int = 20) -> None:
    shutil.rmtree(root / "orders")
    with Topic.create(root / "orders", partitions=1) as topic:
        fill(topic, count, "new")


def polled(broker: Broker) -> list[Any]:
    with broker.consumer("billing", ["orders"], share=(0, 1)) as consumer:
        return [record.value for record in consumer.poll()]


def test_what_was_committed_of_a_topic_that_was_created_again_without_the_broker_is_forgotten(root: Path) -> None:
    create_again(root)
    with Broker(root, mode="r") as reader:
        assert reader.groups.committed("billing") == {}
        assert polled(reader)[0] == b"new0"
    with Broker(root) as broker:
        assert "deleted and created again" in broker.recovered[0]
        assert polled(broker) == [b"new%d" % number for number in range(20)]


def test_a_reading_broker_notices_while_it_is_open_that_a_topic_was_created_again(root: Path) -> None:
    with Broker(root, mode="r") as reader:
        with reader.consumer("billing", ["orders"], share=(0, 1)) as consumer:
            assert consumer.poll()[0].value == b"old7"
            create_again(root)
            with pytest.raises(seglog.LogTruncated, match="deleted"):
                consumer.poll()
            consumer.seek("orders", 0, 0)
            assert consumer.poll()[0].value == b"new0"
        assert reader.groups.committed("billing") == {}


def test_what_was_committed_beyond_a_truncate_without_the_broker_is_set_back_to_it(root: Path) -> None:
    with Topic.open(root / "orders") as topic:
        topic.partition(0).truncate(4)
        fill(topic, 9, "new")
    with Broker(root, mode="r") as reader:
        assert reader.groups.committed("billing") == {"orders": {0: 4}}
    with Broker(root) as broker:
        assert "truncated at 4" in broker.recovered[0]
        assert polled(broker) == [b"new%d" % number for number in range(9)]
    with Broker(root) as broker:
        assert broker.recovered == ()


def test_a_truncate_above_what_was_committed_changes_nothing(root: Path) -> None:
    with Topic.open(root / "orders") as topic:
        topic.partition(0).truncate(8)
        fill(topic, 9, "new")
    with Broker(root) as broker:
        assert broker.recovered == ()
        assert polled(broker)[:2] == [b"old7", b"new0"]


def test_offsets_that_an_earlier_version_committed_are_kept_as_they_are(root: Path) -> None:
    key, value = encode(OffsetRecord("old", ("orders", 0), 5))
    with seglog.open(root / ".groups") as log:
        log.append(value, key=key)
    with Broker(root) as broker:
        assert broker.groups.committed("old") == {"orders": {0: 5}}
