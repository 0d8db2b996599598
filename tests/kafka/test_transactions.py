"""Transactions of real clients: all of one or nothing, with the offsets that it commits; zombies are fenced."""

from __future__ import annotations

import confluent_kafka
import pytest

from seglog.client import Client


def stored(kafka, topic, partition=0):
    with Client(kafka.url) as http:
        return [record.value for record in http.topic(topic).records(partition)]


@pytest.fixture
def topic(kafka, name):
    with Client(kafka.url) as http:
        http.create_topic(name, partitions=2)
    return name


def transactional(kafka, name, **options):
    given = {"transactional.id": name, "log_level": 0, "linger.ms": 1, **options}
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, **given})
    producer.init_transactions(30)
    return producer


def test_a_commit_shows_all_partitions_and_an_abort_none(kafka, topic, name):
    producer = transactional(kafka, name)
    for outcome in ("commit", "abort", "commit"):
        producer.begin_transaction()
        for number in range(10):
            producer.produce(topic, f"{outcome} {number}".encode(), partition=number % 2)
        producer.flush(30)
        before = len(stored(kafka, topic)), len(stored(kafka, topic, 1))
        if outcome == "abort":
            producer.abort_transaction(30)
            assert (len(stored(kafka, topic)), len(stored(kafka, topic, 1))) == before
        else:
            producer.commit_transaction(30)
            assert (len(stored(kafka, topic)), len(stored(kafka, topic, 1))) == (before[0] + 5, before[1] + 5)
    assert stored(kafka, topic) == [b"commit %d" % number for number in range(0, 10, 2)] * 2
