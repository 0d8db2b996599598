"""What a broker changes of a topic that exists: each of its partitions has it, later ones too, and after a restart."""

from __future__ import annotations

import json
import os
import threading
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, Log, LogConfig, Retention, Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SMALL = LogConfig(segment_bytes=512)


def configs_of(topic: Topic) -> list[LogConfig]:
    return [topic.partition(number).config for number in range(topic.partitions)]


def test_another_retention_is_every_partitions_at_once_and_for_good(broker: Broker, root: Path) -> None:
    kept = Retention(bytes=10_000, compact=True)
    topic = broker.create_topic("orders", partitions=3, config=SMALL)
    broker.alter_topic("orders", retention=kept)
    assert [topic.partition(number).config.retention for number in range(3)] == [kept] * 3
    with pytest.raises(seglog.KeyRequired):
        topic.append(b"v")
    broker.close()
    with Broker(root) as again:
        configs = [again.topic("orders").partition(number).config for number in range(3)]
        assert [(one.retention, one.segment_bytes) for one in configs] == [(kept, 512)] * 3


@contextmanager
def full_disk(log: Log) -> Iterator[None]:
    """Let a log refuse to store settings, as if its disk was full."""

    def refuse(**changes: Any) -> None:
        if changes:
            raise seglog.StorageError(28, "no space left")
        log.__class__.alter(log)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log, "alter", refuse)
        yield


def test_where_a_partition_cannot_store_a_change_the_next_one_and_the_next_opening_complete_it(
    broker: Broker, root: Path
) -> None:
    topic = broker.create_topic("orders", partitions=3)
    with full_disk(topic.partition(1)):
        for changes in ({"retention": Retention(bytes=5)}, {"compression": "lz4"}):
            with pytest.raises(seglog.StorageError) as caught:
                broker.alter_topic("orders", **changes)
            (note,) = caught.value.__notes__
            assert "topic 'orders' below 1 have the new settings; the next change of settings, or opening" in note
    broker.alter_topic("orders", segment_age=60)
    assert [(one.retention.bytes, one.segment_age) for one in configs_of(topic)] == [(5, 60)] * 3
    with full_disk(topic.partition(2)), pytest.raises(seglog.StorageError):
        broker.alter_topic("orders", compression="zstd", segment_age=None)
    broker.close()
    with Broker(root, mode="r") as reader:
        assert [one.compression for one in configs_of(reader.topic("orders"))] == ["zstd", "zstd", "none"]
    for _ in range(2):
        with Broker(root) as again:
            assert [(one.compression, one.segment_age) for one in configs_of(again.topic("orders"))] == [
                ("zstd", None)
            ] * 3
    assert '"format_version": 1' in (root / "orders/topic.json").read_text()


def test_an_earlier_version_refuses_a_topic_whose_settings_are_half_changed(broker: Broker, root: Path) -> None:
    topic = broker.create_topic("orders", partitions=2)
    with full_disk(topic.partition(1)), pytest.raises(seglog.StorageError):
        broker.alter_topic("orders", compression="zstd")
    assert json.loads((root / "orders/topic.json").read_text())["format_version"] == 2


def test_a_change_that_changes_nothing_writes_nothing(broker: Broker, root: Path) -> None:
    broker.create_topic("orders", partitions=2)
    broker.alter_topic("orders", segment_age=60)
    before = {path: path.stat().st_ctime_ns for path in (root / "orders").rglob("*") if path.is_file()}
    broker.alter_topic("orders", segment_age=60.0, retention=Retention())
    assert {path: path.stat().st_ctime_ns for path in (root / "orders").rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"buffer_bytes": 4096}, "buffer_bytes cannot be altered; these can: compression, flush_interval"),
        ({"segment_bites": 4096}, "segment_bites cannot be altered"),
        ({"compression": "zstd", "segment_age": -1}, "segment_age is -1"),
        ({"retention": {"bytes": 5}}, "retention must be a seglog.Retention"),
    ],
)
def test_what_cannot_be_altered_changes_nothing(broker: Broker, changes: dict[str, Any], message: str) -> None:
    topic = broker.create_topic("orders", partitions=2)
    before = configs_of(topic)
    with pytest.raises(seglog.ConfigError, match=message):
        broker.alter_topic("orders", **changes)
    assert configs_of(topic) == before


@pytest.mark.parametrize("partitions", [1, 2])
def test_the_three_earlier_names_warn_and_do_the_same(broker: Broker, partitions: int) -> None:
    topic = broker.create_topic("orders", partitions=partitions)
    for alter in (
        lambda: broker.alter_retention("orders", Retention(bytes=9)),
        lambda: broker.alter_compression("orders", "lz4"),
        lambda: topic.alter_segment_age(60),
        lambda: topic.partition(0).alter_retention(Retention(age=7)),
    ):
        with pytest.warns(DeprecationWarning, match="is deprecated; use alter"):
            alter()
    found = topic.partition(0).config
    assert (found.retention, found.compression, found.segment_age) == (Retention(bytes=9, age=7), "lz4", 60)


def test_another_codec_is_every_partitions_also_of_later_ones_and_for_good(broker: Broker, root: Path) -> None:
    topic = broker.create_topic("orders", partitions=2, config=SMALL)
    broker.alter_topic("orders", compression="zstd")
    broker.add_partitions("orders", 3)
    assert [topic.partition(number).config.compression for number in range(3)] == ["zstd"] * 3
    for call in (
        lambda: broker.alter_topic("orders", compression="brotli"),  # type: ignore[arg-type] # on purpose
        lambda: broker.alter_topic("payments", compression="lz4"),
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
    broker.alter_topic("orders", segment_age=timedelta(hours=1))
    broker.add_partitions("orders", 3)
    with pytest.raises(seglog.ConfigError, match="segment_age"):
        broker.alter_topic("orders", segment_age=0)
    with pytest.raises(seglog.TopicNotFound):
        broker.alter_topic("payments", segment_age=60)
    broker.close()
    with Broker(root) as again:
        topic = again.topic("orders")
        configs = [topic.partition(number).config for number in range(3)]
        assert [(one.segment_age, one.segment_bytes) for one in configs] == [(3600, 512)] * 3
        again.alter_topic("orders", segment_age=None)
        assert topic.partition(2).config.segment_age is None


@pytest.mark.parametrize(
    "touch", [lambda path: path.chmod(0o750), lambda path: os.chown(path, -1, -1)], ids=["chmod", "chown"]
)
def test_a_topic_whose_files_get_other_rights_or_times_goes_on(
    broker: Broker, root: Path, touch: Callable[[Path], None]
) -> None:
    topic = broker.create_topic("orders", partitions=2)
    topic.append(b"v", partition=0)
    with Broker(root, mode="r") as reader:
        found = reader.topic("orders")
        for path in (root / "orders").rglob("*"):
            touch(path)
        broker.alter_topic("orders", retention=Retention(age=60))
        topic.append(b"w", partition=0)
        assert [record.value for record in found.partition(0).scan()] == [b"v", b"w"]


def test_partitions_that_are_added_beside_an_alteration_stay(broker: Broker, root: Path) -> None:
    topic = broker.create_topic("orders", partitions=2)
    threads = [
        threading.Thread(target=lambda: [topic.alter(segment_age=60 + number) for number in range(20)]),
        threading.Thread(target=lambda: [topic.add_partitions(number) for number in range(3, 9)]),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [one.segment_age for one in configs_of(topic)] == [79] * 8
    broker.close()
    with Broker(root) as again:
        assert [one.segment_age for one in configs_of(again.topic("orders"))] == [79] * 8
