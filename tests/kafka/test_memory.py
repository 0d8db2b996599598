"""What a fetch holds in memory is bounded, however long the records are; a full disk is reported."""

from __future__ import annotations

import subprocess

import confluent_kafka
import httpx
import pytest

from seglog.client import Client
from seglog.kafka import codes
from seglog.kafka.messages.core import FETCH
from tests.kafka.clients import Confluent, Sent

MIB = 1024 * 1024


def test_a_record_that_needs_more_memory_than_all_responses_may_have_is_reported(own_kafka):
    kafka = own_kafka("--memory", "64MiB")  # of which responses have a half, and a record is there twice
    with Client(kafka.url) as http:
        for size in (12 * MIB, 20 * MIB):
            http.topic("default").append(bytes(size))
    found = []
    for offset in (0, 1):
        place = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1}
        topics = [{"topic": "default", "partitions": [place]}]
        with kafka.connection() as raw:
            answer = raw.ask(FETCH, 4, {"max_wait_ms": 10, "min_bytes": 1, "max_bytes": 1, "topics": topics})
        [partition] = answer["responses"][0]["partitions"]
        found.append((partition["error_code"], len(partition["records"] or b"") // MIB))
    assert found == [(codes.NONE, 12), (codes.MESSAGE_TOO_LARGE, 0)]


@pytest.mark.needs("prlimit")
def test_health_is_degraded_while_produced_records_find_no_space(own_kafka):
    kafka = own_kafka()
    limit = ["prlimit", f"--pid={kafka.process.pid}", "--fsize=100000"]  # the kernel refuses what makes a file longer
    subprocess.run(limit, check=True)
    client = Confluent(kafka.address, retries=0)
    with pytest.raises(confluent_kafka.KafkaException):
        client.produce("default", [Sent(b"v" * 200_000)])
    assert httpx.get(f"{kafka.url}/health").json()["status"] == "degraded"
    client.produce("default", [Sent(b"v")])
    assert httpx.get(f"{kafka.url}/health").json()["status"] == "ok"
