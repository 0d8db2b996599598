"""Whatever end a broker comes to, its topics are whole or gone, and what groups have committed fits them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Broker
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from tests.topic.contents import values_of

if TYPE_CHECKING:
    from pathlib import Path

POINTS = {
    "before the rename": Fault(operations=frozenset({"rename"})),
    "before the sync of the name": Fault(operations=frozenset({"sync_directory"})),
    "before the offsets go": "seglog.topic.groups.Groups.forget_topic",
    "before the files go": "seglog.topic.layout.deletion.remove",
}


@pytest.mark.parametrize("point", POINTS)
def test_a_crash_anywhere_leaves_a_topic_that_is_whole_or_gone(
    root: Path, monkeypatch: pytest.MonkeyPatch, point: str
) -> None:
    fault = POINTS[point]
    storage = FaultyStorage(LocalStorage(root))
    broker = Broker(storage)
    broker.create_topic("orders", partitions=2).append(b"v", partition=1)
    broker.groups.commit("billing", {"orders": {1: 1}})
    with monkeypatch.context() as patch:
        if isinstance(fault, Fault):
            storage.fault = fault
        else:
            patch.setattr(fault, crash)
        with pytest.raises(Crashed):
            broker.delete_topic("orders")
    storage.crash()
    deleted = not (root / "orders").exists()
    with Broker(root) as again:
        assert deleted == (point != "before the rename")
        assert not list(root.glob(".deleted-*"))
        if deleted:
            assert again.topics() == []
            assert again.groups.names() == []
        else:
            assert values_of(again.topic("orders")) == [[], [b"v"]]
            assert again.groups.committed("billing") == {"orders": {1: 1}}


def crash(*_: object) -> None:
    raise Crashed


@pytest.mark.parametrize("call", ["rename", "sync_directory"])
def test_a_medium_that_refuses_leaves_a_broker_that_goes_on(root: Path, call: str) -> None:
    storage = FaultyStorage(LocalStorage(root))
    with Broker(storage) as broker:
        broker.create_topic("orders").append(b"v")
        broker.groups.commit("billing", {"orders": {0: 1}})
        storage.fault = Fault(operations=frozenset({call}), error=5)
        with pytest.raises(seglog.StorageError):
            broker.delete_topic("orders")
        if call == "rename":
            assert values_of(broker.topic("orders")) == [[b"v"]]
            broker.delete_topic("orders")
        broker.create_topic("orders")
        assert broker.groups.committed("billing") == {}, (
            "a topic of the same name begins without the offsets of the old one"
        )


def test_a_topic_that_was_not_created_to_its_end_is_none_and_may_be_created_again(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Broker(root) as broker:
        with monkeypatch.context() as patch, pytest.raises(Crashed):
            patch.setattr("seglog.topic.layout.description.write", crash)
            broker.create_topic("orders", partitions=3)
        assert broker.topics() == []
        assert values_of(broker.create_topic("orders", partitions=2)) == [[], []]


PROGRAM = """
import sys, seglog
with seglog.Broker(sys.argv[1]) as broker:
    for number in range(10**6):
        name = f"topic-{number % 3}"
        if name in broker.topics():
            broker.groups.commit("group", {name: {0: 5}})
            broker.delete_topic(name)
        topic = broker.create_topic(name, partitions=2)
        for offset in range(5):
            topic.append(b"%d" % offset, partition=0)
        print(number, flush=True)
"""


def test_a_process_that_is_killed_leaves_topics_that_are_whole_or_gone(root: Path) -> None:
    for kill_at in (1, 4, 7, 9):
        with subprocess.Popen([sys.executable, "-c", PROGRAM, str(root)], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(kill_at):
                assert process.stdout.readline()
            process.kill()
        with Broker(root) as broker:
            assert broker.topics()
            for name in broker.topics():
                topic = broker.topic(name)
                written = [b"%d" % offset for offset in range(5)]
                assert topic.partitions == 2
                assert values_of(topic) in [[written[:end], []] for end in range(6)]
            committed = broker.groups.committed("group") if "group" in broker.groups.names() else {}
            assert committed.keys() <= set(broker.topics())
            assert all(broker.topic(name).partition(0).next_offset >= 5 for name in committed)
            assert sorted(one.name for one in root.iterdir()) == [".groups", ".seglog.lock", *broker.topics()]


# --- after a power loss -----------------------------------------------------------------------------------------------


def test_a_commit_beyond_what_a_power_loss_left_is_set_back_and_told(root: Path, tmp_path: Path) -> None:
    with Broker(root) as broker:
        topic = broker.create_topic("orders", partitions=2)
        for partition in (0, 1, 1):
            topic.append(b"synced", partition=partition)
        topic.sync()
        shutil.copytree(root / "orders", tmp_path / "on the medium")
        for _ in range(4):
            topic.append(b"not synced", partition=1)
        broker.groups.commit("billing", {"orders": {0: 1, 1: 6}}, durable=True)
    shutil.rmtree(root / "orders")
    shutil.copytree(tmp_path / "on the medium", root / "orders")

    with Broker(root) as broker:
        assert broker.groups.committed("billing") == {"orders": {0: 1, 1: 2}}
        (told,) = broker.recovered
        assert "'billing'" in told
        assert "6" in told
    with Broker(root) as broker:
        assert broker.recovered == ()
        assert broker.groups.committed("billing") == {"orders": {0: 1, 1: 2}}
