"""Epochs of a log as Kafka's clients see them, also after a failover and in a backup that became a log of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from seglog import Mirror
from seglog.format.cuts import first_epoch, separate_epoch
from seglog.kafka.messages.core import FETCH, NO_EPOCH
from seglog.kafka.requests.epochs import shown_epoch
from seglog.replication.promote import promote
from seglog.testing.kafka import KafkaBroker
from tests.kafka.clients import Confluent, Sent
from tests.kafka.conftest import connected

if TYPE_CHECKING:
    from pathlib import Path

TERMS = st.integers(0, 2**15 - 2)
CUTS = st.integers(0, 1000)


@given(TERMS, CUTS, CUTS)
def test_a_shown_epoch_fits_kafka_and_rises_with_every_cut_and_with_every_leader(term, first, more) -> None:
    began = first_epoch(term) if term else 0
    shown = [shown_epoch(began + first), shown_epoch(began + first + 1 + more), shown_epoch(first_epoch(term + 1))]
    assert 0 <= shown[0] < shown[1] < shown[2] < 2**31


@given(TERMS, CUTS)
def test_a_backup_that_becomes_a_log_of_its_own_shows_a_higher_epoch(term, cuts) -> None:
    epoch = first_epoch(term) + cuts
    assert shown_epoch(epoch) < shown_epoch(separate_epoch(epoch)) < 2**31


def test_clients_go_on_with_a_promoted_copy(tmp_path: Path) -> None:
    with KafkaBroker(tmp_path / "first") as kafka:
        client = Confluent(kafka.address)
        client.produce("orders", [Sent(b"old") for _ in range(5)])
        with Mirror(tmp_path / "first", tmp_path / "second") as mirror:
            mirror.step()
    assert promote(tmp_path / "second") == 1
    _produces_and_consumes(tmp_path / "second")


def _produces_and_consumes(root: Path) -> None:
    with KafkaBroker(root) as kafka:
        old = kafka.broker.topic("orders").partition(0)
        assert old.view().manifest.epoch >= 2**16
        count = old.next_offset
        client = Confluent(kafka.address)
        client.produce("orders", [Sent(b"new")])
        assert [one.value for one in client.consume("orders", count + 1)] == [b"old"] * count + [b"new"]
        kafka.broker.topic("orders").partition(0).truncate(count)
        client.produce("orders", [Sent(b"newer")])
        assert [one.value for one in client.consume("orders", count + 1)][-1] == b"newer"


def test_a_fetch_reports_where_the_records_of_a_client_differ() -> None:
    with KafkaBroker() as kafka, connected(kafka.address) as raw:
        client = Confluent(kafka.address)
        client.produce("orders", [Sent(b"old") for _ in range(5)])

        def fetched(last: int, start: int) -> tuple[dict[str, int], int]:
            place = {"partition": 0, "fetch_offset": start, "last_fetched_epoch": last, "partition_max_bytes": 1000}
            topics = [{"topic": "orders", "partitions": [place]}]
            found = raw.ask(FETCH, 12, {"max_wait_ms": 0, "min_bytes": 0, "topics": topics})
            partition = found["responses"][0]["partitions"][0]
            assert partition["error_code"] == 0
            return partition["diverging_epoch"], len(partition["records"])

        log = kafka.broker.topic("orders").partition(0)
        before = shown_epoch(log.view().manifest.epoch)
        assert fetched(before, 5) == (NO_EPOCH, 0)
        log.truncate(3)
        client.produce("orders", [Sent(b"new") for _ in range(4)])
        assert fetched(before, 5) == ({"epoch": before, "end_offset": 3}, 0)
        unchanged, size = fetched(before, 3)
        assert unchanged == NO_EPOCH
        assert size > 0
