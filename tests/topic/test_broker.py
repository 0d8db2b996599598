"""A broker: topics by name, and one writer at a time. See test_broker_altering.py, and test_broker_crashes.py."""

from __future__ import annotations

import contextlib
import tempfile
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import seglog
from seglog import Broker, LogConfig, Retention, TopicExists, TopicNotFound
from seglog.topic import Topic
from seglog.topic.cleaning import Cleaner
from seglog.topic.groups import Groups
from seglog.topic.layout import description
from tests.topic.contents import values_of
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

SMALL = LogConfig(segment_bytes=512)


def visible(root: Path) -> list[str]:
    return sorted(entry.name for entry in root.iterdir() if entry.name != ".seglog.lock")


# --- topics by name ---------------------------------------------------------------------------------------------------


def test_what_was_created_is_listed_opened_and_kept(broker: Broker, root: Path) -> None:
    made = broker.create_topic("orders", partitions=3, config=SMALL)
    broker.create_topic("about")
    place = made.append(b"v", key=b"k")
    assert broker.topics() == ["about", "orders"]
    assert broker.topic("orders") is made
    broker.close()
    with Broker(root) as again:
        topic = again.topic("orders")
        assert (topic.name, topic.partitions, topic.partition(0).config) == ("orders", 3, SMALL)
        assert topic.partition(place[0]).read(place[1]).value == b"v"
        assert again.topic("about").partitions == 1
        assert again.recovered == ()


def test_a_name_is_taken_once(broker: Broker) -> None:
    broker.create_topic("orders").append(b"v")
    with pytest.raises(TopicExists) as caught:
        broker.create_topic("orders", partitions=5)
    assert caught.value.topic == "orders"
    assert broker.topic("orders").partitions == 1


def test_a_topic_that_is_not_there_is_named(broker: Broker) -> None:
    for call in (broker.topic, broker.delete_topic, lambda name: broker.alter_topic(name, retention=Retention())):
        with pytest.raises(TopicNotFound, match="'orders'") as caught:
            call("orders")
        assert caught.value.topic == "orders"


@pytest.mark.parametrize("name", ["", ".", "..", ".hidden", "a/b", "a b", "ä", "x" * 201, "a\n"])
def test_a_name_that_cannot_be_a_directory_everywhere_is_refused(broker: Broker, root: Path, name: str) -> None:
    for call in (broker.create_topic, broker.topic, broker.delete_topic):
        with pytest.raises(seglog.InvalidArgument, match="cannot be the name of a topic"):
            call(name)
    with pytest.raises(seglog.InvalidType):
        broker.topic(5)  # type: ignore[arg-type] # the point of the test
    assert visible(root) == [".groups"]


def test_the_longest_name_of_all_kinds_of_characters_will_do(broker: Broker) -> None:
    name = ("A-z_0.9" * 29)[:200]
    broker.create_topic(name)
    assert broker.topics() == [name]


def test_a_topic_that_its_user_closed_is_opened_again(broker: Broker) -> None:
    topic = broker.create_topic("orders")
    topic.append(b"v")
    topic.close()
    again = broker.topic("orders")
    assert again is not topic
    assert values_of(again) == [[b"v"]]
    broker.sync()


def test_another_directory_beside_the_topics_is_none_of_ours(broker: Broker, root: Path) -> None:
    (root / "notes").mkdir()
    (root / "notes" / "a.txt").write_text("mine")
    assert broker.topics() == []
    with pytest.raises(seglog.NotALog, match=r"a\.txt"):
        broker.create_topic("notes")
    assert (root / "notes" / "a.txt").read_text() == "mine"


def test_a_topic_that_is_being_created_is_nobodys_yet(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    inner, seen = description.write, []

    def write(*arguments: Any) -> None:
        inner(*arguments)
        seen.append(broker.topics())
        with pytest.raises(TopicNotFound):
            broker.topic("orders")

    monkeypatch.setattr("seglog.topic.layout.description.write", write)
    made = broker.create_topic("orders")
    assert (seen, broker.topics(), broker.failed) == ([[]], ["orders"], {})
    assert broker.topic("orders") is made


# --- who may open it --------------------------------------------------------------------------------------------------


def test_a_second_writer_is_told_that_there_is_one(broker: Broker, root: Path) -> None:
    with pytest.raises(seglog.LogLocked, match="already has this open for writing"):
        Broker(root)


def test_a_reader_sees_what_the_writer_does_and_changes_nothing(broker: Broker, root: Path) -> None:
    broker.create_topic("orders").append(b"v")
    with Broker(root, mode="r") as reader:
        assert values_of(reader.topic("orders")) == [[b"v"]]
        broker.topic("orders").append(b"w")
        assert values_of(reader.topic("orders")) == [[b"v", b"w"]]
        broker.groups.commit("billing", {"orders": {0: 1}})
        assert reader.groups.committed("billing") == {"orders": {0: 1}}
        for call in (
            reader.create_topic,
            reader.delete_topic,
            lambda name: reader.alter_topic(name, retention=Retention()),
        ):
            with pytest.raises(seglog.LogReadOnly, match='mode="a"'):
                call("other")
        with pytest.raises(seglog.LogReadOnly):
            reader.groups.commit("billing", {"orders": {0: 2}})


def test_a_reader_follows_a_topic_that_is_deleted_and_made_anew(broker: Broker, root: Path) -> None:
    broker.create_topic("orders").append(b"old")
    with Broker(root, mode="r") as reader:
        assert values_of(reader.topic("orders")) == [[b"old"]]
        broker.delete_topic("orders")
        with pytest.raises(TopicNotFound):
            reader.topic("orders")
        broker.create_topic("orders", partitions=2)
        assert values_of(reader.topic("orders")) == [[], []]


def test_a_reader_creates_nothing(root: Path) -> None:
    with pytest.raises(seglog.LogNotFound):
        Broker(root, mode="r")
    assert not root.exists()
    root.mkdir()
    Topic.create(root / "orders", partitions=1).close()
    with Broker(root, mode="r") as reader:
        assert (reader.topics(), reader.groups.names()) == (["orders"], [])
    assert visible(root) == ["orders"]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_topic_a_log_and_a_file_are_no_broker(tmp_path: Path, mode: Any) -> None:
    Topic.create(tmp_path / "topic", partitions=1).close()
    seglog.open(tmp_path / "log").close()
    (tmp_path / "file").write_text("mine")
    for name in ("topic", "log", "file"):
        with pytest.raises(seglog.NotALog, match=f"this is a {name}"):
            Broker(tmp_path / name, mode=mode)
    assert not (tmp_path / "topic" / ".groups").exists()


def test_a_mode_that_is_none_is_refused(root: Path) -> None:
    with pytest.raises(seglog.InvalidArgument, match="mode"):
        Broker(root, mode="w")  # type: ignore[arg-type] # the point of the test


def test_a_closed_broker_says_so(root: Path) -> None:
    broker = Broker(root)
    topic = broker.create_topic("orders")
    broker.close()
    broker.close()
    calls: list[Callable[[], Any]] = [
        broker.topics,
        broker.sync,
        lambda: broker.groups,
        lambda: broker.topic("orders"),
        lambda: broker.create_topic("other"),
        lambda: topic.append(b"v"),
    ]
    for call in calls:
        with pytest.raises(seglog.LogClosed):
            call()


def test_closing_closes_all_even_if_one_fails(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broker = Broker(root)
    first, second = broker.create_topic("first"), broker.create_topic("second")

    def fail() -> None:
        raise seglog.StorageError(5, "input/output error")

    monkeypatch.setattr(second, "close", fail)
    with pytest.raises(seglog.StorageError):
        broker.close()
    assert first.closed
    with pytest.raises(seglog.LogLocked):  # as long as one of its logs is open, the whole directory stays locked
        Topic.open(root / "second")
    Topic.close(second)
    Topic.open(root / "first").close()
    Topic.open(root / "second").close()


# --- all logs ---------------------------------------------------------------------------------------------------------


def test_all_logs_are_in_a_cleaners_care_also_those_that_come_and_go(broker: Broker, clock: Any) -> None:
    keyed = LogConfig(segment_bytes=512, retention=Retention(compact=True, min_dirty_ratio=0.0))
    broker.create_topic("orders", partitions=2, config=keyed)
    cleaner = Cleaner(broker.logs, clock=clock)
    for number in range(50):
        broker.topic("orders").append(b"%d" % number, key=b"k", partition=1)
    assert ("compacted", "orders/1") in [(event.what, event.name) for event in cleaner.run_once()]
    broker.create_topic("other")
    broker.delete_topic("orders")
    cleaner.run_once()
    assert sorted(state.name for state in cleaner.state()) == [".groups", "other/0"]


def test_a_topic_that_does_not_open_hinders_only_itself(broker: Broker, root: Path) -> None:
    broker.create_topic("bad").close()
    broker.create_topic("good")
    (root / "bad" / "topic.json").write_text("nothing")
    assert sorted(broker.logs()) == [".groups", "good/0"]
    with pytest.raises(seglog.CorruptLog):
        broker.topic("bad")
    assert {name: type(error) for name, error in broker.failed.items()} == {"bad": seglog.CorruptLog}
    broker.delete_topic("bad")
    assert (broker.failed, broker.topics()) == ({}, ["good"])


# --- deleting ---------------------------------------------------------------------------------------------------------


def test_a_deleted_topic_is_gone_with_its_offsets_and_its_name_is_free(broker: Broker, root: Path) -> None:
    topic = broker.create_topic("orders", partitions=2)
    topic.append(b"v", partition=1)
    broker.create_topic("other").append(b"v")
    broker.groups.commit("billing", {"orders": {1: 1}, "other": {0: 1}})
    broker.delete_topic("orders")
    assert visible(root) == [".groups", "other"]
    assert broker.groups.committed("billing") == {"other": {0: 1}}
    with pytest.raises(seglog.LogClosed):
        topic.append(b"w")
    assert values_of(broker.create_topic("orders")) == [[]]
    assert broker.groups.committed("billing") == {"other": {0: 1}}


def test_a_reader_of_a_deleted_topic_ends_with_what_it_held(broker: Broker) -> None:
    topic = broker.create_topic("orders")
    topic.append(b"v")
    records = topic.partition(0).scan()
    broker.delete_topic("orders")
    assert [record.value for record in records] == [b"v"]


# --- threads ----------------------------------------------------------------------------------------------------------


def test_threads_that_create_delete_commit_and_append_neither_hang_nor_break(broker: Broker) -> None:
    broker.create_topic("steady", partitions=2)
    errors: list[BaseException] = []

    def structure(name: str) -> None:
        for _ in range(6):
            broker.create_topic(name)
            broker.groups.commit(name, {"steady": {0: 0}, name: {0: 0}})
            broker.delete_topic(name)

    def traffic() -> None:
        for number in range(100):
            _, offset = broker.topic("steady").append(b"%d" % number, partition=0)
            broker.groups.commit("billing", {"steady": {0: offset + 1}})
            broker.groups.describe("billing")
            broker.logs()

    def guarded(call: Callable[[], None]) -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - handed to the test below
            errors.append(error)

    calls: list[Callable[[], None]] = [lambda: structure("a"), lambda: structure("b"), traffic]
    threads = [threading.Thread(target=guarded, args=(call,), daemon=True) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(HANG_SECONDS)
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"
    assert (errors, broker.failed) == ([], {})
    assert (broker.topics(), broker.topic("steady").partition(0).next_offset) == (["steady"], 100)


# --- whatever is done -------------------------------------------------------------------------------------------------


class BrokerMachine(RuleBasedStateMachine):
    """A broker, and a dict name -> (retention, values by partition, committed offsets)."""

    NAMES = st.sampled_from(["a", "b", "c"])
    RETENTIONS = st.sampled_from([Retention(), Retention(bytes=10**6), Retention(age=3600.0)])

    @initialize()
    def begin(self) -> None:
        self.directory = tempfile.TemporaryDirectory()
        self.broker = Broker(self.directory.name)
        self.known: dict[str, tuple[Retention, list[list[bytes]], dict[int, int]]] = {}

    @rule(name=NAMES, partitions=st.integers(1, 3), retention=RETENTIONS)
    def create(self, name: str, partitions: int, retention: Retention) -> None:
        if name in self.known:
            with pytest.raises(TopicExists):
                self.broker.create_topic(name, partitions=partitions)
            return
        config = LogConfig(segment_bytes=512, retention=retention)
        self.broker.create_topic(name, partitions=partitions, config=config)
        self.known[name] = retention, [[] for _ in range(partitions)], {}

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        with self._missing(name):
            self.broker.delete_topic(name)
            del self.known[name]

    @rule(name=NAMES, retention=RETENTIONS)
    def alter(self, name: str, retention: Retention) -> None:
        with self._missing(name):
            self.broker.alter_topic(name, retention=retention)
            old, *rest = self.known[name]
            self.known[name] = retention.over(old), *rest

    @rule(name=NAMES, value=st.binary(max_size=300), key=st.none() | st.binary(max_size=4))
    def append(self, name: str, value: bytes, key: bytes | None) -> None:
        with self._missing(name):
            partition, offset = self.broker.topic(name).append(value, key=key)
            rows = self.known[name][1][partition]
            assert offset == len(rows)
            rows.append(value)

    @rule(name=NAMES, data=st.data())
    def commit(self, name: str, data: st.DataObject) -> None:
        if name in self.known:
            partition = data.draw(st.integers(0, len(self.known[name][1]) - 1))
            offset = data.draw(st.integers(0, len(self.known[name][1][partition])))
            self.broker.groups.commit("group", {name: {partition: offset}})
            self.known[name][2][partition] = offset

    @rule()
    def reopen(self) -> None:
        self.broker.close()
        self.broker = Broker(self.directory.name)
        assert self.broker.recovered == ()

    @contextlib.contextmanager
    def _missing(self, name: str) -> Iterator[None]:
        """Expect TopicNotFound of a topic that is not there."""
        expected = contextlib.nullcontext() if name in self.known else pytest.raises(TopicNotFound)
        with expected:
            yield

    @precondition(lambda self: hasattr(self, "broker"))
    @invariant()
    def it_is_what_the_dict_says(self) -> None:
        assert self.broker.topics() == sorted(self.known)
        for name, (retention, rows, _) in self.known.items():
            topic = self.broker.topic(name)
            assert values_of(topic) == rows
            assert all(topic.partition(number).config.retention == retention for number in range(topic.partitions))
        committed = {name: offsets for name, (_, _, offsets) in self.known.items() if offsets}
        known = self.broker.groups.committed("group") if "group" in self.broker.groups.names() else {}
        assert known == committed

    def teardown(self) -> None:
        if hasattr(self, "broker"):
            self.broker.close()
            self.directory.cleanup()


TestBrokerMachine = pytest.mark.no_cover(BrokerMachine.TestCase)
TestBrokerMachine.settings = settings(max_examples=15, stateful_step_count=25)


def test_its_groups_are_groups(broker: Broker) -> None:
    assert isinstance(broker.groups, Groups)
    assert broker.groups is broker.groups


def test_a_topic_that_cannot_be_prepared_is_not_created_and_can_be_later(tmp_path: Path) -> None:
    def fails(_: Topic) -> None:
        raise seglog.StorageError(28, "no space left", str(tmp_path))

    with Broker(tmp_path) as broker:
        broker._prepare_topics(fails)
        with pytest.raises(seglog.StorageError) as failure:  # which keeps the topic from being collected
            broker.create_topic("orders")
        assert failure.value.errno == 28
        assert broker.topics() == []
        broker._prepare_topics(lambda _: None)
        assert broker.create_topic("orders").append(b"1") == (0, 0)
