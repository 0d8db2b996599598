"""Transactions over failing disks, kills at bad moments, and clients that send too much."""

from __future__ import annotations

import errno
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from seglog.kafka.records.layout import TRANSACTIONAL
from seglog.kafka.transactions import room
from seglog.kafka.transactions.state import Size, Transactional
from seglog.storage import LocalStorage
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.testing.kafka import KafkaBroker
from seglog.topic.broker import Broker, transactions_of
from seglog.topic.transactions.journal import Journal
from tests.kafka.producers import RawTransactional
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from pathlib import Path

OK, TIMED_OUT, UNAVAILABLE, POLICY_VIOLATION, CONCURRENT, FENCED = 0, 7, 15, 44, 51, 90


class Producer(RawTransactional):
    """A transactional producer of a topic with one partition; all return error codes."""

    def __init__(self, kafka: KafkaBroker, name: str = "x") -> None:
        super().__init__(kafka, name)

    def add(self, topic: str = "paid") -> int:
        return super().add(topic, 0)[0]

    def send(self, sequence: int, value: bytes, attributes: int = TRANSACTIONAL) -> int:
        return super().send("paid", sequence, [value], attributes=attributes)[0]


def stored(kafka: KafkaBroker) -> list[bytes | None]:
    return [record.value for record in kafka.broker.topic("paid").records(0)]


@pytest.fixture
def storage(tmp_path: Path) -> FaultyStorage:
    root = tmp_path / "root"
    with Broker(root) as broker:
        broker.create_topic("paid")
    return FaultyStorage(LocalStorage(root))


def full(name: str) -> Fault:
    return Fault(operations=frozenset({"pwrite", "pwritev", "create"}), name=name, error=errno.ENOSPC, forever=True)


def test_a_full_disk_does_not_keep_a_server_from_starting(storage: FaultyStorage, tmp_path: Path) -> None:
    kafka = KafkaBroker(storage)
    with kafka:
        lost, kept = Producer(kafka, "lost"), Producer(kafka, "kept")
        assert (lost.add(), lost.send(0, b"lost")) == (OK, OK)
        [path] = (tmp_path / "root" / ".transactions").iterdir()
        assert (kept.add(), kept.send(0, b"kept")) == (OK, OK)
    path.unlink()
    storage.fault = full(".producers")
    with kafka:
        assert kept.add() == OK
        assert lost.end() == FENCED
        storage.fault = None
        assert Producer(kafka, "lost").epoch == lost.epoch + 2
        assert kept.end() == OK
        assert stored(kafka) == [b"kept"]


def test_the_end_of_the_transaction_before_is_not_taken_for_that_of_the_open_one(storage: FaultyStorage) -> None:
    """The name of the first one's file stays, as after a power loss."""
    kafka = KafkaBroker(storage)
    with kafka:
        producer = Producer(kafka)
        assert (producer.add(), producer.send(0, b"first")) == (OK, OK)
        storage.fault = Fault(operations=frozenset({"unlink"}), name=".txn", error=errno.EIO)
        assert producer.end() == OK
        assert (producer.add(), producer.send(1, b"second")) == (OK, OK)
    with kafka:
        assert producer.end() == OK
        assert stored(kafka) == [b"first", b"second"]


def test_sequences_continue_after_a_commit_that_the_next_process_published(storage: FaultyStorage) -> None:
    kafka = KafkaBroker(storage)
    with kafka:
        producer = Producer(kafka)
        assert (producer.add(), producer.send(0, b"aborted"), producer.end(commit=False)) == (OK, OK, OK)
        assert (producer.add(), producer.send(1, b"first")) == (OK, OK)
    with Broker(storage) as broker:
        [[journal], _] = transactions_of(broker).take_over()
        transactions_of(broker).decide(journal)
    with kafka:
        assert producer.end() == OK
        assert (producer.add(), producer.send(2, b"second"), producer.end()) == (OK, OK, OK)
        assert stored(kafka) == [b"first", b"second"]


def test_a_commit_that_a_full_disk_keeps_from_being_published_is_published_later(storage: FaultyStorage) -> None:
    kafka = KafkaBroker(storage)
    with kafka:
        producer = Producer(kafka)
        assert (producer.add(), producer.send(0, b"a")) == (OK, OK)
        storage.fault = full("paid/0")
        assert (producer.end(), producer.end()) == (CONCURRENT, CONCURRENT)
        assert Producer(kafka).error == CONCURRENT
        assert [*kafka.broker.unpublished]
    with kafka:
        assert producer.end() == CONCURRENT
        assert stored(kafka) == []
        storage.fault = None
        until(lambda: producer.end() == OK)
        assert stored(kafka) == [b"a"]
        assert kafka.broker.unpublished == {}


def test_a_batch_outside_of_a_transaction_cannot_take_the_key_of_one_in_it(storage: FaultyStorage) -> None:
    with KafkaBroker(storage) as kafka:
        producer = Producer(kafka)
        assert (producer.add(), producer.send(0, b"in")) == (OK, OK)
        assert producer.send(0, b"out", attributes=0) == OK
        assert producer.end() == OK
        assert stored(kafka) == [b"out", b"in"]


def test_open_transactions_have_limits_that_a_client_cannot_exceed(
    storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "MOST_OPEN", 3)  # of which one client may have three quarters
    monkeypatch.setattr(room, "MOST_PARTS", 10)
    with KafkaBroker(storage) as kafka:
        one, two, three = (Producer(kafka, name) for name in ("one", "two", "three"))
        assert (one.add(), two.add(), three.add()) == (OK, OK, UNAVAILABLE)
        assert one.add_group("g") == OK
        assert [one.send(number, b"a") for number in range(8)] == [OK] * 8
        assert (one.send(8, b"a"), one.add_group("h")) == (POLICY_VIOLATION, POLICY_VIOLATION)
        assert [two.add_group(f"g{number}") for number in range(10)] == [OK] * 9 + [POLICY_VIOLATION]
        assert one.end() == two.end() == three.add() == OK


def test_a_client_that_stages_in_two_transactions_at_once_gets_room_for_one(
    storage: FaultyStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "ALL_PARTS", 4)  # of which one client may have three quarters
    started, goes_on, stage = threading.Event(), threading.Event(), Journal.stage

    def wait(*given: Any) -> None:
        started.set()
        assert goes_on.wait(HANG_SECONDS)
        stage(*given)

    monkeypatch.setattr(Journal, "stage", wait)
    with KafkaBroker(storage) as kafka, ThreadPoolExecutor(2) as pool:
        one, two = Producer(kafka, "one"), Producer(kafka, "two")
        assert (one.add(), two.add()) == (OK, OK)
        first = pool.submit(one.send, 0, b"a")
        assert started.wait(HANG_SECONDS)
        started.clear()
        second = pool.submit(two.send, 0, b"b")
        until(lambda: second.done() or started.is_set())
        goes_on.set()
        assert (first.result(), second.result()) == (OK, TIMED_OUT)


def test_room_is_checked_while_a_thread_stages_the_offsets_of_more_groups(tmp_path: Path) -> None:
    journal = Journal.create(LocalStorage(tmp_path), {})
    one = Transactional("id", "owner", 0, 0, 1.0, journal=journal)
    groups = 2000

    def stage() -> None:
        for number in range(groups):
            journal.stage_offsets(f"g{number}", {("a", 0): (1, "")})

    with ThreadPoolExecutor(1) as pool:
        staging = pool.submit(stage)
        while not staging.done():
            room.check_room([one], one, Size(0, 1), 1 << 30)
            room.check_offsets([one], one, 0, 1 << 30)
        staging.result()
    assert journal.parts == groups
    journal.remove()
