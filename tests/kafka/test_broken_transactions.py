"""Transactions over failing disks, kills at bad moments, and clients that send too much."""

from __future__ import annotations

import errno
import io
from typing import TYPE_CHECKING, Any

import pytest
from kio.records.schema import NewRecordBatch
from kio.records.writers import write_batch

from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.messages.producers import INIT_PRODUCER_ID
from seglog.kafka.messages.transactions import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, END_TXN
from seglog.kafka.records.layout import TRANSACTIONAL
from seglog.kafka.transactions import room
from seglog.storage import LocalStorage
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.testing.kafka import KafkaBroker
from seglog.topic.broker import Broker, transactions_of
from tests.kafka.conftest import connected, until
from tests.kafka.test_record_batches import kio_records

if TYPE_CHECKING:
    from pathlib import Path

OK, TIMED_OUT, POLICY_VIOLATION, CONCURRENT, FENCED = 0, 7, 44, 51, 90


class Producer:
    """A transactional producer of a topic with one partition; all return error codes."""

    def __init__(self, kafka: KafkaBroker, name: str = "x") -> None:
        self.kafka, self.name = kafka, name
        found = self.ask(INIT_PRODUCER_ID, 1, transactional_id=name, transaction_timeout_ms=60_000)
        self.error, self.id, self.epoch = found["error_code"], found["producer_id"], found["producer_epoch"]

    def ask(self, api: Any, version: int, **values: Any) -> dict[str, Any]:
        with connected(self.kafka.address) as raw:
            return raw.ask(api, version, values)

    def who(self) -> dict[str, Any]:
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def add(self, topic: str = "paid") -> int:
        topics = [{"name": topic, "partitions": [0]}]
        found = self.ask(ADD_PARTITIONS_TO_TXN, 2, **self.who(), topics=topics)["results_by_topic"]
        return found[0]["results_by_partition"][0]["partition_error_code"]

    def add_group(self, group: str) -> int:
        return self.ask(ADD_OFFSETS_TO_TXN, 2, **self.who(), group_id=group)["error_code"]

    def send(self, sequence: int, value: bytes, attributes: int = TRANSACTIONAL) -> int:
        target = io.BytesIO()
        records = kio_records([(1000, None, value, ())])
        head = {"producer_epoch": self.epoch, "partition_leader_epoch": 0, "base_sequence": sequence}
        write_batch(target, NewRecordBatch(producer_id=self.id, records=records, attributes=attributes, **head))
        data = [{"name": "paid", "partition_data": [{"index": 0, "records": target.getvalue()}]}]
        found = self.ask(PRODUCE, 8, transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=data)
        return found["responses"][0]["partition_responses"][0]["error_code"]

    def end(self, *, commit: bool = True) -> int:
        return self.ask(END_TXN, 2, **self.who(), committed=commit)["error_code"]


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
    monkeypatch.setattr(room, "MOST_OPEN", 2)
    monkeypatch.setattr(room, "MOST_PARTS", 10)
    with KafkaBroker(storage) as kafka:
        one, two, three = (Producer(kafka, name) for name in ("one", "two", "three"))
        assert (one.add(), two.add(), three.add()) == (OK, OK, TIMED_OUT)
        assert one.add_group("g") == OK
        assert [one.send(number, b"a") for number in range(8)] == [OK] * 8
        assert (one.send(8, b"a"), one.add_group("h")) == (POLICY_VIOLATION, POLICY_VIOLATION)
        assert [two.add_group(f"g{number}") for number in range(10)] == [OK] * 9 + [POLICY_VIOLATION]
        assert one.end() == two.end() == three.add() == OK
