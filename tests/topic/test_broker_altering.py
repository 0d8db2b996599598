"""What a broker changes of a topic that exists: each of its partitions has it, later ones too, and after a restart."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Broker, LogConfig, Retention

if TYPE_CHECKING:
    from pathlib import Path

SMALL = LogConfig(segment_bytes=512)


def test_another_retention_is_every_partitions_at_once_and_for_good(broker: Broker, root: Path) -> None:
    kept = Retention(bytes=10_000, compact=True)
    topic = broker.create_topic("orders", partitions=3, config=SMALL)
    broker.alter_retention("orders", kept)
    assert [topic.partition(number).config.retention for number in range(3)] == [kept] * 3
    with pytest.raises(seglog.KeyRequired):
        topic.append(b"v")
    broker.close()
    with Broker(root) as again:
        configs = [again.topic("orders").partition(number).config for number in range(3)]
        assert [(one.retention, one.segment_bytes) for one in configs] == [(kept, 512)] * 3


def test_where_a_partition_refuses_it_is_said_which_have_it_already(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create_topic("orders", partitions=3)

    def refuse(_: Retention) -> None:
        raise seglog.StorageError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(topic.partition(1), "alter_retention", refuse)
        with pytest.raises(seglog.StorageError) as caught:
            broker.alter_retention("orders", Retention(bytes=5))
    assert caught.value.__notes__ == ["partitions below 1 of topic 'orders' already have the new retention"]
    broker.alter_retention("orders", Retention(bytes=5))
    assert [topic.partition(number).config.retention.bytes for number in range(3)] == [5, 5, 5]


def test_another_codec_is_every_partitions_also_of_later_ones_and_for_good(broker: Broker, root: Path) -> None:
    topic = broker.create_topic("orders", partitions=2, config=SMALL)
    broker.alter_compression("orders", "zstd")
    broker.add_partitions("orders", 3)
    assert [topic.partition(number).config.compression for number in range(3)] == ["zstd"] * 3
    for call in (
        lambda: broker.alter_compression("orders", "brotli"),  # type: ignore[arg-type] # on purpose
        lambda: broker.alter_compression("payments", "lz4"),
    ):
        with pytest.raises((seglog.ConfigError, seglog.TopicNotFound)):
            call()
    broker.close()
    with Broker(root) as again:
        again.add_partitions("orders", 4)
        topic = again.topic("orders")
        configs = [topic.partition(number).config for number in range(4)]
        assert [(one.compression, one.segment_bytes) for one in configs] == [("zstd", 512)] * 4


def test_another_age_of_segments_is_every_partitions_also_of_later_ones_and_for_good(
    broker: Broker, root: Path
) -> None:
    broker.create_topic("orders", partitions=2, config=SMALL)
    broker.alter_segment_age("orders", timedelta(hours=1))
    broker.add_partitions("orders", 3)
    with pytest.raises(seglog.ConfigError, match="segment_age"):
        broker.alter_segment_age("orders", 0)
    with pytest.raises(seglog.TopicNotFound):
        broker.alter_segment_age("payments", 60)
    broker.close()
    with Broker(root) as again:
        topic = again.topic("orders")
        configs = [topic.partition(number).config for number in range(3)]
        assert [(one.segment_age, one.segment_bytes) for one in configs] == [(3600, 512)] * 3
        again.alter_segment_age("orders", None)
        assert topic.partition(2).config.segment_age is None


def test_where_a_partition_refuses_a_codec_it_is_said_which_have_it_already(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = broker.create_topic("orders", partitions=3)

    def refuse(_: str) -> None:
        raise seglog.StorageError(28, "no space left")

    with monkeypatch.context() as patch:
        patch.setattr(topic.partition(1), "alter_compression", refuse)
        with pytest.raises(seglog.StorageError) as caught:
            broker.alter_compression("orders", "lz4")
    assert caught.value.__notes__ == ["partitions below 1 of topic 'orders' already have the new codec"]
    broker.alter_compression("orders", "lz4")
    assert [topic.partition(number).config.compression for number in range(3)] == ["lz4"] * 3
