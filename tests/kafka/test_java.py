"""Kafka's own Java clients and test programs against this server. Deep: Maven fetches them, and each starts a JVM."""

from __future__ import annotations

import json

import pytest

from tests.kafka.programs_run import java, try_java, try_kcat

pytestmark = [
    pytest.mark.deep,
    pytest.mark.needs("java", "maven"),
]
TOOLS = "org.apache.kafka.tools"
COUNT = 20_000


def events(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_each_feature_of_the_java_clients_works(kafka):
    assert set(try_java(kafka.address, ("transactional", "consumer")).values()) == {"yes"}


@pytest.mark.needs("kcat")
def test_each_feature_of_kcat_works(kafka):
    assert set(try_kcat(kafka.address).values()) == {"has none", "yes"}


@pytest.mark.parametrize("acks", [0, 1, -1])
def test_what_the_verifiable_producer_has_sent_the_verifiable_consumer_reads(kafka, name, acks):
    server, most = ("--bootstrap-server", kafka.address), ("--max-messages", COUNT)
    sent = events(
        java(f"{TOOLS}.VerifiableProducer", *server, "--topic", name, "--max-messages", COUNT, "--acks", acks)
    )
    assert (sent[-1]["name"], sent[-1]["sent"], sent[-1]["acked"]) == ("tool_data", COUNT, COUNT)
    values = {int(one["value"]): one["offset"] for one in sent if one["name"] == "producer_send_success"}
    assert sorted(values) == list(range(COUNT))
    if acks:
        assert sorted(values.values()) == list(range(COUNT))
    given = ("--topic", name, "--group-id", name, *most, "--reset-policy", "earliest")
    read = events(java(f"{TOOLS}.VerifiableConsumer", *server, *given))
    ranges = [one["partitions"][0] for one in read if one["name"] == "records_consumed"]
    assert sum(one["maxOffset"] - one["minOffset"] + 1 for one in ranges) == COUNT
    commits = [one for one in read if one["name"] == "offsets_committed"]
    assert all(one["success"] for one in commits)
    assert commits[-1]["offsets"][0]["offset"] == COUNT
