"""What a fetch holds in memory is bounded, however long the records are; a full disk is reported."""

from __future__ import annotations

import ssl
import struct
import subprocess

import confluent_kafka
import httpx
import pyarrow as pa
import pytest

from seglog.client import Client
from seglog.kafka import codes
from seglog.kafka.messages.core import FETCH
from seglog.kafka.requests.fetch import WITHOUT_ROOM
from tests.kafka.clients import Confluent, Sent
from tests.kafka.conftest import body_of
from tests.tls import TlsPeer
from tests.waiting import HANG_SECONDS, until

MIB = 1024 * 1024
METRIC = 'seglog_memory_bytes{kind="%s"}'


def fetch_of(topic, offset=0, size=64 * MIB, wait_ms=10):
    """Return the values of a Fetch of one partition."""
    place = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": size}
    topics = [{"topic": topic, "partitions": [place]}]
    return {"max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": size, "topics": topics, "replica_id": -1}


def held(url, kind="answers", **given):
    """Return the bytes of a kind that the server holds."""
    found = httpx.get(f"{url}/metrics", **given).text
    return int(float(next(line.split()[1] for line in found.splitlines() if line.startswith(METRIC % kind))))


def test_a_record_that_needs_more_memory_than_all_responses_may_have_is_reported(own_kafka):
    kafka = own_kafka("--memory", "64MiB")  # of which responses have a half, and a record is there twice
    with Client(kafka.url) as http:
        for size in (12 * MIB, 20 * MIB):
            http.topic("default").append(bytes(size))
    found = []
    for offset in (0, 1):
        with kafka.connection() as raw:
            answer = raw.ask(FETCH, 4, fetch_of("default", offset, size=1))
        [partition] = answer["responses"][0]["partitions"]
        found.append((partition["error_code"], len(partition["records"] or b"") // MIB))
    assert found == [(codes.NONE, 12), (codes.MESSAGE_TOO_LARGE, 0)]


def test_clients_that_do_not_read_delay_others_only_until_they_are_dropped(own_kafka):
    kafka = own_kafka("--memory", "64MiB")
    with Client(kafka.url) as http:
        http.topic("default").append_batch(pa.table({"value": [bytes(100_000)] * 200}))
    with kafka.connection() as unread, kafka.connection() as raw:
        unread.send(FETCH, 4, fetch_of("default"))
        until(lambda: held(kafka.url) > 20 * MIB)
        [partition] = raw.ask(FETCH, 4, fetch_of("default"))["responses"][0]["partitions"]
        assert 0 < len(partition["records"]) < WITHOUT_ROOM  # a small response needs no room
        until(lambda: raw.ask(FETCH, 4, fetch_of("default")) and held(kafka.url) < 20 * MIB)
        assert raw.ask(FETCH, 4, fetch_of("default"))["responses"][0]["partitions"][0]["records"][MIB:]
    assert any("others need the memory" in line for line in kafka.process.stdout)


def test_only_the_first_record_of_a_response_may_exceed_its_size(kafka, name):
    with Client(kafka.url) as http:
        http.create_topic(name, partitions=3)
        for partition in range(3):
            http.topic(name).append(bytes(200_000), partition=partition)
    values = fetch_of(name, size=MIB)
    [place] = values["topics"][0]["partitions"]
    values["topics"][0]["partitions"] = [{**place, "partition": partition} for partition in range(3)]
    found = {}
    with kafka.connection() as raw:
        for most in (1000, 300_000, 500_000, MIB):
            [topic] = raw.ask(FETCH, 4, values | {"max_bytes": most})["responses"]
            found[most] = [len(one["records"] or b"") // 200_000 for one in topic["partitions"]]
    assert found == {1000: [1, 0, 0], 300_000: [1, 0, 0], 500_000: [1, 1, 0], MIB: [1, 1, 1]}


def test_a_response_over_tls_holds_memory_until_it_is_read(own_kafka, certificate):
    kafka = own_kafka("--tls-cert", certificate[0], "--tls-key", certificate[1], "--memory", "64MiB")
    url, trusted = kafka.url.replace("http:", "https:"), ssl.create_default_context(cafile=certificate[0])
    with Client(url, verify=trusted) as http:
        http.topic("default").append_batch(pa.table({"value": [bytes(100_000)] * 150}))
    frame = struct.pack(">hhih", FETCH.key, 4, 7, -1) + body_of(FETCH, 4, fetch_of("default"))
    with kafka.connection() as raw:
        peer = TlsPeer(raw.socket, certificate[0])
        peer.send(struct.pack(">i", len(frame)) + frame)
        until(lambda: held(url, verify=trusted) > 20 * MIB)
        head = peer.receive()
        assert held(url, verify=trusted) > 20 * MIB
        left = int.from_bytes(head[:4], "big") + 4 - len(head)
        while left:
            left -= len(peer.receive())
        until(lambda: held(url, verify=trusted) == 0)


@pytest.mark.needs("prlimit")
def test_health_is_degraded_while_produced_records_find_no_space(own_kafka):
    kafka = own_kafka()
    limit = ["prlimit", f"--pid={kafka.process.pid}", "--fsize=100000"]  # the kernel refuses what makes a file longer
    subprocess.run(limit, check=True)
    client = Confluent(kafka.address, retries=0)
    with pytest.raises(confluent_kafka.KafkaException):
        client.produce("default", [Sent(b"v" * 200_000)])
    assert httpx.get(f"{kafka.url}/health", timeout=HANG_SECONDS).json()["status"] == "degraded"
    client.produce("default", [Sent(b"v")])
    assert httpx.get(f"{kafka.url}/health", timeout=HANG_SECONDS).json()["status"] == "ok"
