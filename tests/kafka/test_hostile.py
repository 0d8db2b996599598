"""Connections that no client makes: too large, incomplete, unread, too many. The server goes on with the others."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from seglog import LogConfig, Retention
from seglog.client import Client
from seglog.kafka.messages.core import API_VERSIONS, FETCH, METADATA, PRODUCE
from seglog.kafka.messages.groups import JOIN_GROUP, LEAVE_GROUP
from seglog.kafka.wire.buffers import Reader, Writer
from tests.kafka.clients import Confluent, Sent
from tests.kafka.conftest import KafkaServer
from tests.kafka.test_record_batches import kio_batch

PROGRAM = """
import json, sys
from seglog.kafka.listener import KafkaListener
from seglog.kafka.settings import KafkaSettings
from seglog.server.serving import serve
from seglog.server.settings import Limits, Settings
settings = Settings(port=0, limits=Limits(**json.loads(sys.argv[2])))
serve(sys.argv[1], settings, lambda text: print(text, flush=True), beside=[KafkaListener(KafkaSettings(port=0))])
"""


class Limited(KafkaServer):
    """A server with limits that its command does not offer."""

    def __init__(self, root: Path, **limits: object) -> None:
        command = [sys.executable, "-c", PROGRAM, str(root), json.dumps(limits)]
        self.said = []
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"Kafka clients connect to .*:(\d+)", line):
                self.kafka_port = int(found[1])
            if "listening on" in line:
                return
        raise AssertionError("the server ended: " + "".join(self.said))

    def resident(self) -> int:
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024


@pytest.fixture(scope="module")
def limited(tmp_path_factory):
    server = Limited(
        tmp_path_factory.mktemp("limited") / "root",
        idle_seconds=0.5,
        connections=20,
        batch_bytes=4_000_000,
        memory_bytes=16_000_000,
    )
    yield server
    server.stop()


def body(kind, values, form):
    target = Writer()
    kind.write(target, values, form)
    return b"".join(bytes(part) for part in target.parts())


def still_answers(server):
    with server.connection() as raw:
        raw.request(18, 0, b"")
        found = raw.response()
        assert struct.unpack_from(">ih", found) == (7, 0)
        return API_VERSIONS.response.read(Reader(found[4:]), API_VERSIONS.form(0))


def test_an_unknown_version_of_api_versions_is_answered_with_the_list(kafka):
    with kafka.connection() as raw:
        raw.request(18, 99, b"\x00")
        found = API_VERSIONS.response.read(Reader(raw.response()[4:]), API_VERSIONS.form(0))
        assert found["error_code"] == 35
        assert found["api_keys"] == still_answers(kafka)["api_keys"]


@pytest.mark.parametrize(
    ("key", "version", "data"),
    [
        (99, 0, b""),
        (3, 99, b""),
        (3, 4, b"\x7f\xff\xff\xff"),
        (3, 4, b"\x00\x00\x00\x01\x00\x05a"),
        (18, 3, b"\xff" * 9),
    ],
)
def test_an_invalid_request_closes_its_connection_only(limited, key, version, data):
    with limited.connection() as raw:
        raw.request(key, version, data)
        assert raw.response() == b""
    still_answers(limited)


@pytest.mark.parametrize("size", [-1, 0, 7, 2**31 - 1, 5_000_000])
def test_a_length_out_of_range_closes_the_connection(limited, size):
    with limited.connection() as raw:
        raw.socket.sendall(struct.pack(">ihh", size, 3, 4) + bytes(100))
        assert raw.response() == b""
    still_answers(limited)


@pytest.mark.parametrize("sent", [1, 8, 50, 100_000])
def test_a_request_that_stops_arriving_is_dropped(limited, sent):
    with limited.connection() as raw:
        raw.socket.sendall((struct.pack(">ihh", 3_000_000, 0, 4) + bytes(100_000))[:sent])
        assert raw.response() == b""
    still_answers(limited)


def test_announced_requests_take_no_memory_before_they_arrive(limited):
    before = limited.resident()
    with ExitStack() as opened:
        for _ in range(19):
            raw = opened.enter_context(limited.connection())
            raw.socket.sendall(struct.pack(">ihh", 4_000_000, 0, 4))
    assert limited.resident() - before < 8_000_000


def test_more_connections_than_allowed_are_refused(limited):
    with ExitStack() as opened:
        held = [opened.enter_context(limited.connection()) for _ in range(20)]
        for raw in held:
            raw.request(18, 0, b"")
        assert all(raw.response() for raw in held)
        with limited.connection() as raw:
            raw.request(18, 0, b"")
            assert raw.response() == b""


def test_refusals_that_repeat_are_logged_once_for_each_kind(own_kafka):
    server = own_kafka("--connections", "2", "--batch-bytes", "100000")
    requests = [struct.pack(">ihh", 200_000, PRODUCE.key, 8), b"GET / HTTP/1.1\r\n\r\n", struct.pack(">ihh", 9, 99, 0)]
    for data in requests * 5:
        with server.connection() as raw:
            raw.socket.sendall(data)
            assert raw.response() == b""
    with ExitStack() as opened:
        for raw in [opened.enter_context(server.connection()) for _ in range(2)]:
            raw.request(18, 0, b"")
            assert raw.response()
        for _ in range(5):
            with server.connection() as raw:
                assert raw.response() == b""
    said = [line for line in server.stop().splitlines() if "connection" in line]
    assert len(said) < 20, "one for each"
    assert {re.sub(r" \(and \d+ more in the last \d+ s\)", "", line) for line in said} == {
        f"the connection from 127.0.0.1 was closed: {why}"
        for why in (
            "the Produce request has 200000 bytes, and may have 165536 (--batch-bytes and 64 KiB)",
            "this looks like HTTP; the Kafka listener knows only Kafka's protocol, and HTTP is at --port",
            "this server does not know the request 99",
        )
    } | {"a connection was refused: 2 connections are open already"}


def test_a_response_that_is_not_read_is_dropped(limited, name):
    client = Confluent(limited.address)
    client.produce(name, [Sent(bytes(900_000)) for _ in range(12)])
    place = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 2**30}
    values = {"max_wait_ms": 0, "min_bytes": 0, "max_bytes": 2**30, "topics": [{"topic": name, "partitions": [place]}]}
    with limited.connection() as raw:
        for _ in range(20):
            raw.request(1, 4, body(FETCH.request, values | {"replica_id": -1, "isolation_level": 0}, FETCH.form(4)))
        assert len(client.consume(name, 12)) == 12  # others are not affected
        assert any("does not read its response" in line for line in limited.process.stdout)
    still_answers(limited)


def test_requests_sent_ahead_are_answered_in_order(kafka, name):
    data = body(METADATA.request, {"topics": [{"name": name}]}, METADATA.form(4))
    with kafka.connection() as raw:
        for number in range(20):
            raw.request(3, 4, data, number)
        assert [struct.unpack_from(">i", raw.response())[0] for _ in range(20)] == list(range(20))


@pytest.mark.parametrize("version", PRODUCE.versions)
def test_what_is_no_record_batch_is_refused_with_the_reason(kafka, name, version):
    Confluent(kafka.address).produce(name, [Sent(b"v")])
    old = bytes(16) + b"\x01" + bytes(20)
    part = [{"index": 0, "records": old}, {"index": 9, "records": old}]
    values = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": name, "partition_data": part}]}
    with kafka.connection() as raw:
        found = raw.ask(PRODUCE, version, values)["responses"][0]["partition_responses"]
    assert [one["error_code"] for one in found] == [43, 3]
    assert version < 8 or "format 1" in found[0]["error_message"]


def test_a_refused_batch_with_acks_0_ends_its_connection(kafka, name):
    with Client(kafka.url) as http:
        http.create_topic(name, config=LogConfig(retention=Retention(compact=True)))
    with kafka.connection() as raw:
        for keys in ([b"k"], [None], [b"late"]):
            part = {"index": 0, "records": kio_batch([(1000, key, b"v", ()) for key in keys])}
            raw.send(
                PRODUCE, 8, {"acks": 0, "timeout_ms": 1000, "topic_data": [{"name": name, "partition_data": [part]}]}
            )
        assert raw.response() == b""
    with Client(kafka.url) as http:
        assert next(record.key for record in http.topic(name).records(0)) == b"k"


def test_the_records_without_a_key_are_named_if_a_topic_needs_keys(kafka, name):
    with Client(kafka.url) as http:
        http.create_topic(name, config=LogConfig(retention=Retention(compact=True)))
    for keys, missing in (([b"k", None, b"k", None], [1, 3]), ([None], [0])):
        batch = kio_batch([(1000, key, b"v", ()) for key in keys])
        part = {"index": 0, "records": batch}
        with kafka.connection() as raw:
            wanted = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": name, "partition_data": [part]}]}
            found = raw.ask(PRODUCE, 8, wanted)["responses"][0]["partition_responses"][0]
        assert (found["error_code"], [one["batch_index"] for one in found["record_errors"]]) == (87, missing)


def test_members_hold_bounded_memory_until_they_leave(limited):
    """What a member tells its leader stays in memory after the request."""
    size, most = 250_000, 16_000_000 // 8 * 3 // 4  # of which one client may have three quarters

    def join(raw, group):
        protocols = [{"name": "range", "metadata": bytes(size)}]
        who = {"group_id": group, "session_timeout_ms": 60_000, "member_id": "", "protocol_type": "consumer"}
        found = raw.ask(JOIN_GROUP, 0, {**who, "protocols": protocols})
        return found["error_code"], found["member_id"]

    with limited.connection() as raw:
        answers = [join(raw, f"held-{number}") for number in range(12)]
        assert [code for code, _ in answers] == [0] * (most // size - 1) + [81] * (12 - most // size + 1)
        for number, (code, member) in enumerate(answers):
            if not code:
                raw.ask(LEAVE_GROUP, 0, {"group_id": f"held-{number}", "member_id": member})
        code, member = join(raw, "held-after")
        assert code == 0
        raw.ask(LEAVE_GROUP, 0, {"group_id": "held-after", "member_id": member})
    still_answers(limited)
