"""A copy of all topics of a server, by the path of its directory and over HTTP: the same contract."""

from __future__ import annotations

import itertools
import shutil
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, LogConfig, Mirror, Retention
from seglog.errors import CompactionAborted
from tests.conftest import Served
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SMALL = LogConfig(segment_bytes=2048)
numbers = itertools.count()


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    server = Served(tmp_path_factory.mktemp("leader"), ())
    yield server
    server.stop()


@pytest.fixture
def client(served: Served) -> Iterator[seglog.Client]:
    with seglog.Client(served.url) as client:
        yield client


@pytest.fixture(params=["path", "http"])
def leader(request: Any, served: Served) -> Any:
    """What a mirror is given as its source."""
    return served.root if request.param == "path" else served.url


@pytest.fixture
def name(client: seglog.Client) -> Iterator[str]:
    """A name that no other test has; its topics are deleted, so that later tests copy less."""
    name = f"topic{next(numbers)}"
    yield name
    delete_topics(client)


def delete_topics(client: seglog.Client) -> None:
    for topic in client.topics():
        client.delete_topic(topic.name)


def same(served: Served, target: Path, name: str) -> None:
    """Assert that a topic is the same in both places."""
    with Broker(served.root, mode="r") as leader, Broker(target, mode="r") as copy:
        ours, theirs = leader.topic(name), copy.topic(name)
        assert (ours.id, ours.partitions) == (theirs.id, theirs.partitions)
        for number in range(ours.partitions):
            one, other = ours.partition(number), theirs.partition(number)
            assert list(one.scan()) == list(other.scan())
            assert (one.lowest_offset, one.next_offset) == (other.lowest_offset, other.next_offset)
            assert one.config == other.config


def fill(client: seglog.Client, name: str, count: int, word: str = "value") -> None:
    producer = client.producer(name)
    for number in range(count):
        producer.send(f"{word} {number}".encode(), key=b"%d" % (number % 5))
    producer.close()


def test_every_partition_and_the_description_of_a_topic_are_copied(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str
) -> None:
    client.create_topic(name, partitions=3, config=SMALL)
    fill(client, name, 300)
    with Mirror(leader, target) as mirror:
        assert mirror.step() > 0
        same(served, target, name)
        assert mirror.step() == 0
        assert mirror.lag.records == mirror.lag.bytes == mirror.lag.seconds == 0
        assert {(name, 0), (name, 1), (name, 2)} <= mirror.lags.keys()
        fill(client, name, 10)
        mirror.step()
        same(served, target, name)


def test_topics_come_and_go(client: seglog.Client, served: Served, leader: Any, target: Path, name: str) -> None:
    client.create_topic(name)
    fill(client, name, 5)
    with Mirror(leader, target) as mirror:
        mirror.step()
    client.delete_topic(name)
    client.create_topic(f"{name}-later")
    fill(client, f"{name}-later", 5)
    with Mirror(leader, target) as mirror:
        mirror.step()
        assert not (target / name).exists()
        same(served, target, f"{name}-later")
    client.create_topic(name, partitions=2)
    fill(client, name, 9)
    with Mirror(leader, target) as mirror:
        mirror.step()
    same(served, target, name)


def test_a_topic_created_and_deleted_while_the_mirror_runs(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.replication.broker_mirror.LOOK_SECONDS", 0)
    with Mirror(leader, target) as mirror:
        mirror.step()
        client.create_topic(name)
        fill(client, name, 5)
        mirror.step()
        same(served, target, name)
        client.delete_topic(name)
        mirror.step()
        assert not (target / name).exists()
        client.create_topic(name)
        fill(client, name, 7)
        mirror.step()
        same(served, target, name)


def test_truncates_are_followed(client: seglog.Client, served: Served, leader: Any, target: Path, name: str) -> None:
    topic = client.create_topic(name, config=SMALL)
    fill(client, name, 200, "old")
    with Mirror(leader, target) as mirror:
        mirror.step()
        topic.truncate(0, 120)
        fill(client, name, 100, "new")
        mirror.step()
        same(served, target, name)
    topic.truncate(0, 60)
    fill(client, name, 300, "newest")
    with Mirror(leader, target) as mirror:
        mirror.step()
    same(served, target, name)


def test_a_change_of_retention_and_compacted_records_are_copied(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str
) -> None:
    topic = client.create_topic(name, config=SMALL)
    fill(client, name, 200)
    with Mirror(leader, target) as mirror:
        mirror.step()
        client.alter_topic(name, retention=Retention(compact=True))  # the server may compact at once
        mirror.step()
    with Broker(target, mode="r") as copy:
        assert copy.topic(name).partition(0).config.retention.compact
    fill(client, name, 200)
    while client.topic(name).bounds()[0].next_offset and next(client.topic(name).records(0)).offset == 0:
        with suppress(CompactionAborted):  # the server compacts at this moment
            topic.compact()
    fill(client, name, 3)
    shutil.rmtree(target)
    with Mirror(leader, target) as mirror:
        mirror.step()
    same(served, target, name)


def test_committed_offsets_are_copied_and_consumers_go_on_in_the_copy(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str
) -> None:
    client.create_topic(name, partitions=2)
    fill(client, name, 20)
    consumer = client.consumer(f"group-{name}", [name])
    assert consumer.poll(max_records=5, timeout=HANG_SECONDS)
    consumer.commit()
    consumer.close()
    committed = client.committed(f"group-{name}")
    assert committed
    with Mirror(leader, target) as mirror:
        mirror.step()
    with Broker(target, mode="r") as copy:
        assert copy.groups.committed(f"group-{name}") == committed


def test_a_record_longer_than_an_answer_is_copied_in_pieces(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.replication.source.FETCH_BYTES", 100_000)
    topic = client.create_topic(name)
    fill(client, name, 5)
    topic.append(bytes(range(256)) * 20_000, key=b"long")
    fill(client, name, 5)
    with Mirror(leader, target) as mirror:
        while mirror.step():
            pass
    same(served, target, name)


def test_a_copy_that_was_away_too_long_says_so_and_can_restart(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str
) -> None:
    client.create_topic(name, config=LogConfig(segment_bytes=512, retention=Retention(bytes=1024)))
    fill(client, name, 10)
    with Mirror(leader, target) as mirror:
        mirror.step()
    fill(client, name, 200)
    with Mirror(leader, target) as mirror, pytest.raises(seglog.CopyExpired, match="restart"):
        mirror.step()
    with Mirror(leader, target, restart=True) as mirror:
        mirror.step()
    with Broker(served.root, mode="r") as one, Broker(target, mode="r") as other:
        source, copy = (each.topic(name).partition(0) for each in (one, other))
        start = max(source.lowest_offset, copy.lowest_offset)  # each expires its own segments
        assert start < source.next_offset == copy.next_offset
        assert list(source.scan(start)) == list(copy.scan(start))


def test_a_copy_is_pinned_at_its_position(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str
) -> None:
    client.create_topic(name)
    fill(client, name, 10)
    with Mirror(leader, target) as mirror:
        mirror.step()
    with seglog.open(served.root / name / "0", mode="r") as log:
        assert list(log.pins.values()) == [10]


def test_a_directory_of_copies_takes_no_other_writer(
    client: seglog.Client, served: Served, leader: Any, target: Path, name: str
) -> None:
    client.create_topic(name)
    with Mirror(leader, target) as mirror:
        mirror.step()
        with pytest.raises(seglog.LogLocked):
            Broker(target)
    with pytest.raises(seglog.LogReadOnly, match="promote"):
        Broker(target)
    with pytest.raises(seglog.LogReadOnly, match="promote"):
        seglog.Topic.open(target / name)


def test_a_topic_that_is_no_copy_is_not_deleted(leader: Any, target: Path) -> None:
    with Broker(target) as other:
        other.create_topic("mine").append(b"precious")
    with pytest.raises(seglog.CopyDiverged), Mirror(leader, target) as mirror:
        mirror.step()
    with Broker(target) as other:
        assert other.topic("mine").partition(0).read(0).value == b"precious"


def test_a_source_without_anything_deletes_nothing(tmp_path: Path, target: Path) -> None:
    with Broker(tmp_path / "leader") as broker:
        broker.create_topic("orders").append(b"1")
        with Mirror(tmp_path / "leader", target) as mirror:
            mirror.step()
    shutil.rmtree(tmp_path / "leader")
    (tmp_path / "leader").mkdir()
    with pytest.raises(seglog.SeglogError):
        Mirror(tmp_path / "leader", target)
    assert (target / "orders").exists()


def test_one_topic_is_copied_by_its_path(tmp_path: Path, target: Path) -> None:
    with seglog.Topic.create(tmp_path / "orders", partitions=2) as topic:
        for number in range(20):
            topic.append(b"%d" % number)
        with Mirror(tmp_path / "orders", target) as mirror:
            mirror.step()
            assert set(mirror.lags) == {("orders", 0), ("orders", 1)}
        with seglog.Topic.open(target, mode="r") as copy:
            assert (copy.id, copy.name) == (topic.id, topic.name)
            for number in range(2):
                assert list(copy.partition(number).scan()) == list(topic.partition(number).scan())


def test_a_topic_that_the_leader_cannot_read_is_kept_in_the_copy(tmp_path: Path, target: Path) -> None:
    root = tmp_path / "leader"
    with Broker(root) as broker:
        broker.create_topic("orders").append(b"1")
        broker.create_topic("lost").append(b"2")
        with Mirror(root, target) as mirror:
            mirror.step()
    (root / "orders" / "topic.json").write_bytes(b"damaged")
    (root / "lost" / "topic.json").unlink()
    with Mirror(root, target) as mirror:
        mirror.step()
    with Broker(target, mode="r") as copy:
        assert copy.topic("orders").partition(0).read(0).value == b"1"
        assert copy.topic("lost").partition(0).read(0).value == b"2"


def test_a_topic_that_the_server_cannot_open_is_kept_in_the_copy(
    serve: Callable[..., Served], tmp_path: Path, target: Path
) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client:
        client.create_topic("orders").append(b"1")
        with Mirror(leader.url, target) as mirror:
            mirror.step()
    leader.stop()
    (leader.root / "orders" / "topic.json").write_bytes(b"damaged")
    leader.start()
    with Mirror(leader.url, target) as mirror:
        mirror.step()
    with Broker(target, mode="r") as copy:
        assert copy.topic("orders").partition(0).read(0).value == b"1"


class Pauses(threading.Event):
    """Records how long a mirror pauses between rounds, and ends it at the first pause."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        self.set()
        return True


def test_a_copy_of_a_server_without_topics_looks_for_them_twice_a_second(
    leader: Any, client: seglog.Client, tmp_path: Path
) -> None:
    delete_topics(client)
    pauses = Pauses()
    with Mirror(leader, tmp_path / "copy") as mirror:
        mirror.run(stop=pauses)
    assert pauses.seconds == [0.5]


@pytest.mark.parametrize("topic", ["", "/orders"])
def test_a_copy_of_a_server_has_the_policies_and_their_changes(
    serve: Callable[..., Served], tmp_path: Path, topic: str
) -> None:
    leader = serve()
    described = tmp_path / "copy" if topic else tmp_path / "copy/orders"
    with seglog.Client(leader.url) as client:
        client.create_topic("orders", policies=seglog.Policies(copies=1, batch_bytes=9))
        with seglog.Mirror(leader.url + topic, tmp_path / "copy") as mirror:
            for wanted in (seglog.Policies(copies=2, batch_bytes=9), seglog.Policies(copies=0, batch_bytes=None)):
                info = client.alter_topic("orders", policies=wanted)
                assert info.policies == wanted

                def has_them(wanted: seglog.Policies = wanted) -> bool:
                    mirror.step()
                    with seglog.Topic.open(described, mode="r") as copy:
                        return copy.policies == wanted

                until(has_them)
