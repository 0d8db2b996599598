"""Kafka's VerifiableProducer and VerifiableConsumer: what one reports as sent the other reads once."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

from tests.kafka.programs_run import java
from tests.kafka.suites.sides import each, needed
from tests.kafka.suites.topics import create
from tests.kafka.suites.verdicts import Verdicts

TITLE = "Kafka 4.3.1's VerifiableProducer and VerifiableConsumer"
TOOLS = "org.apache.kafka.tools"
ACKS = {"0": 0, "1": 1, "all": -1}
COUNT = 20_000


def verdicts(side: str, only: str = "") -> Verdicts:
    """Produce and consume with each acks, on a side."""
    needed("java", "mvn")
    return each(side, {f"acks={name}": partial(read_once, acks=acks) for name, acks in ACKS.items()}, only)


def read_once(_: Path, address: str, *, acks: int, topic: str = "verified") -> None:
    """Let the producer send its records, and the consumer read them in a group and commit."""
    create(address, [topic])
    given = ("--bootstrap-server", address, "--topic", topic, "--max-messages", COUNT)
    sent = _events(java(f"{TOOLS}.VerifiableProducer", *given, "--acks", acks))
    assert (sent[-1]["name"], sent[-1]["sent"], sent[-1]["acked"]) == ("tool_data", COUNT, COUNT)
    offsets = {int(one["value"]): one["offset"] for one in sent if one["name"] == "producer_send_success"}
    assert sorted(offsets) == list(range(COUNT))
    assert not acks or sorted(offsets.values()) == list(range(COUNT))
    group = ("--group-id", topic, "--reset-policy", "earliest")
    read = _events(java(f"{TOOLS}.VerifiableConsumer", *given, *group))
    ranges = [one["partitions"][0] for one in read if one["name"] == "records_consumed"]
    assert sum(one["maxOffset"] - one["minOffset"] + 1 for one in ranges) == COUNT
    commits = [one for one in read if one["name"] == "offsets_committed"]
    assert all(one["success"] for one in commits)
    assert commits[-1]["offsets"][0]["offset"] == COUNT


def _events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]
