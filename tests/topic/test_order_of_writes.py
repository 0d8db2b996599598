"""The order in which calls on topics and groups write and sync: what is acknowledged is on the disk, names included."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Broker, MemoryStorage
from seglog.log.appends.group import Draft
from seglog.storage import Subdirectory
from seglog.testing.faulty import WRITING, FaultyStorage
from seglog.topic import transaction
from seglog.topic.layout.root import OFFSETS
from seglog.topic.repair.reserved_names import rename

if TYPE_CHECKING:
    from collections.abc import Iterator


class Calls:
    """A storage and what was written to it since last asked, without the lookups, which are derived."""

    def __init__(self) -> None:
        self.storage = FaultyStorage(MemoryStorage())

    def take(self) -> list[str]:
        calls, self.storage.calls = self.storage.calls, []
        written = [call for call in calls if call.operation in WRITING and not call.name.endswith(".index")]
        return [f"{call.operation} {call.name}".strip() for call in written]


@pytest.fixture
def calls() -> Calls:
    return Calls()


@pytest.fixture
def broker(calls: Calls) -> Iterator[Broker]:
    """A broker of one topic with an unsynced record and an unsynced commit."""
    with Broker(calls.storage) as broker:
        broker.create_topic("orders").append(b"v")
        broker.groups.commit("billing", {"orders": {0: 1}})
        calls.take()
        yield broker


def store(of: str) -> str:
    return f"{of}/{0:020d}-1.store"


def test_a_broker_syncs_its_topics_and_then_the_commits_that_refer_to_them(broker: Broker, calls: Calls) -> None:
    broker.sync()
    assert calls.take() == [f"datasync {store('orders/0')}", f"datasync {store(OFFSETS)}"]


def test_a_durable_commit_is_on_the_disk(broker: Broker, calls: Calls) -> None:
    broker.groups.commit("billing", {"orders": {0: 0}}, durable=True)
    assert calls.take() == [f"pwrite {store(OFFSETS)}", f"datasync {store(OFFSETS)}"]


def test_a_group_that_was_reset_by_a_truncation_is_reset_on_the_disk(broker: Broker, calls: Calls) -> None:
    broker.groups.cut("orders", 0, 0)
    assert calls.take() == [f"pwrite {store(OFFSETS)}", f"datasync {store(OFFSETS)}"]


def test_offsets_of_records_that_a_power_cut_took_are_reset_on_the_disk_by_the_opening(calls: Calls) -> None:
    with Broker(calls.storage) as broker:
        broker.create_topic("orders").append(b"v")
        broker.groups.commit("billing", {"orders": {0: 1}})
        broker.topic("orders").partition(0).truncate(0)
    calls.take()
    with Broker(calls.storage) as broker:
        assert broker.groups.committed("billing") == {"orders": {0: 0}}
        opening = calls.take()
    assert f"datasync {store(OFFSETS)}" in opening[opening.index(f"pwrite {store(OFFSETS)}") :]


def test_a_topic_is_synced_before_its_deletion_and_its_new_name_is_on_the_disk_before_its_groups_change(
    broker: Broker, calls: Calls
) -> None:
    broker.delete_topic("orders")
    done = calls.take()
    renamed = next(number for number, call in enumerate(done) if call.startswith("rename "))
    assert done[:renamed] == [f"datasync {store('orders/0')}"]
    assert done[renamed + 1] == "sync_directory"
    assert done.index(f"datasync {store(OFFSETS)}") > done.index(f"pwrite {store(OFFSETS)}") > renamed + 1
    assert done[-1].startswith("remove_directory .deleted-")


def test_a_topic_that_is_renamed_by_a_repair_has_its_new_name_on_the_disk(calls: Calls) -> None:
    with Broker(calls.storage) as broker:
        broker.create_topic("orders")
    calls.take()
    rename(calls.storage, "orders", "orders-renamed")
    assert calls.take()[-2:] == ["rename orders-renamed", "sync_directory"]
    with Broker(calls.storage) as broker:
        assert broker.topic("orders-renamed").name == "orders-renamed"


def test_a_transaction_syncs_the_name_of_its_directory_although_another_process_made_it(calls: Calls) -> None:
    with Broker(calls.storage) as broker:
        broker.create_topic("orders")
    topic = Subdirectory(calls.storage, "orders")
    topic.make([transaction.DIRECTORY])  # by a process that died before it had synced the name
    calls.take()
    committed = transaction.Transaction(query="q", batch=0, staged={})
    transaction.commit(topic, committed)
    done = calls.take()
    created = done.index("create orders/txn/.tmp")
    assert "sync_directory orders" in done[:created]
    assert done[created:] == [
        "create orders/txn/.tmp",
        "pwrite orders/txn/.tmp",
        "datasync orders/txn/.tmp",
        f"rename orders/{committed.file}",
        "sync_directory orders/txn",
    ]


def test_a_broker_that_only_reads_refuses_every_change(calls: Calls) -> None:
    with Broker(calls.storage) as broker:
        broker.create_topic("orders")
    with Broker(calls.storage, mode="r") as reader:
        calls.take()
        for change in (lambda: reader.create_topic("other"), lambda: reader.delete_topic("orders")):
            with pytest.raises(seglog.LogReadOnly, match="needs a broker opened with mode"):
                change()
        assert calls.take() == []
        assert reader.topics() == ["orders"]


def test_what_a_partitions_writer_appended_is_synced_where_it_is_stored(calls: Calls) -> None:
    with Broker(calls.storage) as broker:
        topic = broker.create_topic("two", partitions=2)
        first, second = topic.writer(0), topic.writer(1)
        assert second.append(Draft(b"v"), "key") == (1, 0)
        calls.take()
        assert first.append(Draft(b"v"), "key", durable=True) == (1, 0), "a repetition, which is stored there"
        assert calls.take() == [f"datasync {store('two/1')}"]
        first.append(Draft(b"w"))
        calls.take()
        first.sync()
        assert calls.take() == [f"datasync {store('two/0')}"]
