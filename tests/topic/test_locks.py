"""Who may write at the same time: a log by itself, all of a topic, all of a directory of topics."""

import gc
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

import seglog
from seglog.topic import Topic

Opening = Callable[[Path], AbstractContextManager[object]]


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    with seglog.Broker(tmp_path / "shop") as broker:
        for name in ("orders", "users"):
            broker.create_topic(name, partitions=2).append(b"v", partition=0)
    return tmp_path / "shop"


OPENINGS: dict[str, Opening] = {
    "broker": seglog.Broker,
    "topic": lambda shop: Topic.open(shop / "orders"),
    "partition 0": lambda shop: seglog.open(shop / "orders" / "0"),
    "partition 1": lambda shop: seglog.open(shop / "orders" / "1"),
    "other topic": lambda shop: Topic.open(shop / "users"),
}
TOGETHER = {
    frozenset({"partition 0", "partition 1"}),
    frozenset({"topic", "other topic"}),
    frozenset({"partition 0", "other topic"}),
    frozenset({"partition 1", "other topic"}),
}


@pytest.mark.parametrize("locks_exist", [True, False])
@pytest.mark.parametrize("second", OPENINGS)
@pytest.mark.parametrize("first", OPENINGS)
def test_two_writers_go_together_only_where_they_have_different_logs(
    shop: Path, first: str, second: str, locks_exist: bool
) -> None:
    if not locks_exist:  # as a version of seglog left it that had no such locks
        for lock in shop.rglob(".seglog.lock"):
            lock.unlink()
    with OPENINGS[first](shop):
        if frozenset({first, second}) in TOGETHER:
            with OPENINGS[second](shop):
                return
        if locks_exist or {first, second} != {"broker", "other topic"}:
            refused(shop, second)
        elif second == "broker":  # it notices a topic's writer when it opens that topic
            with seglog.Broker(shop) as broker, pytest.raises(seglog.LogLocked):
                broker.topic("users")
        else:
            refused(shop, second)
    with OPENINGS[second](shop):
        pass


def refused(shop: Path, what: str) -> None:
    """Opening is refused; a broker that opens may notice only when it opens the topic."""
    with pytest.raises(seglog.LogLocked), OPENINGS[what](shop) as opened:
        if isinstance(opened, seglog.Broker):
            for name in opened.topics():
                opened.topic(name)


def test_a_log_of_an_open_topic_can_be_read_by_others(shop: Path) -> None:
    with seglog.Broker(shop) as broker, seglog.open(shop / "orders" / "0", mode="r") as reader:
        broker.topic("orders").append(b"w", partition=0)
        assert [record.value for record in reader.scan()] == [b"v", b"w"]


def test_a_directory_stays_locked_until_its_last_log_is_closed(shop: Path) -> None:
    topic = Topic.open(shop / "orders")
    log = topic.partition(0)
    log.close()
    with pytest.raises(seglog.LogLocked):
        seglog.open(shop / "orders" / "0")
    topic.close()
    seglog.open(shop / "orders" / "0").close()


def test_a_topic_or_a_partition_behind_a_symbolic_link_has_one_writer_at_a_time(shop: Path, tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    (shop / "orders").rename(disk / "orders")
    (shop / "orders").symlink_to(disk / "orders")
    (shop / "users" / "1").rename(disk / "1")
    (shop / "users" / "1").symlink_to(disk / "1")
    with seglog.Broker(shop) as broker:
        broker.topic("orders").append(b"w", partition=0)
        broker.topic("users").append(b"w", partition=1)
        broker.sync()
        for opening in (lambda: Topic.open(disk / "orders"), lambda: seglog.open(disk / "1")):
            with pytest.raises(seglog.LogLocked), opening():
                pass
    with Topic.open(disk / "orders"), seglog.open(disk / "1"), seglog.Broker(shop) as broker:
        for name in ("orders", "users"):
            with pytest.raises(seglog.LogLocked):
                broker.topic(name)


def test_a_writer_whose_lock_file_was_removed_acknowledges_nothing_more(shop: Path) -> None:
    broker = seglog.Broker(shop)
    topic = broker.topic("orders")
    topic.append(b"w", partition=0)
    topic.sync()
    (shop / ".seglog.lock").unlink()
    topic.append(b"x", partition=0)
    with pytest.raises(seglog.LogPoisoned, match="or LOCK file was removed"):
        topic.sync()
    with pytest.raises(seglog.LogPoisoned):
        topic.append(b"never", partition=0)
    with pytest.raises(seglog.LogPoisoned):
        broker.close()
    with Topic.open(shop / "orders"):
        pass


def test_a_topic_that_was_dropped_without_close_is_free_again(shop: Path) -> None:
    gc.disable()
    try:
        topic = Topic.open(shop / "orders")
        del topic
        with Topic.open(shop / "orders") as again:
            assert again.append(b"w", partition=0) == (0, 1)
    finally:
        gc.enable()


def test_a_topic_that_is_moved_while_its_broker_is_open_has_no_second_writer(shop: Path, tmp_path: Path) -> None:
    broker = seglog.Broker(shop)
    topic = broker.topic("orders")
    (shop / "orders").rename(tmp_path / "elsewhere")
    with pytest.raises(seglog.LogLocked):
        Topic.open(tmp_path / "elsewhere")
    with pytest.raises(seglog.LogLocked):
        seglog.open(tmp_path / "elsewhere" / "0")
    for stop in (topic.sync, broker.close):
        with pytest.raises(seglog.LogPoisoned):
            stop()
    Topic.open(tmp_path / "elsewhere").close()
