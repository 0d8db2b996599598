"""Clients that close their connections while the server works for them."""

from __future__ import annotations

import socket
import ssl
import struct
import threading
from contextlib import closing, contextmanager
from functools import partial

import pytest

from seglog.kafka import connection
from seglog.kafka.connection import AT_ONCE
from seglog.kafka.messages.core import FETCH, METADATA, PRODUCE
from seglog.kafka.messages.groups import JOIN_GROUP, LIST_GROUPS
from seglog.kafka.wire.buffers import Reader
from seglog.server.settings import Limits, Settings
from seglog.testing import kafka as testing
from seglog.testing.internals import state_of
from seglog.testing.kafka import KafkaBroker
from seglog.topic.idempotency.memory import OnceWindow
from tests.kafka.conftest import Raw, connected
from tests.kafka.producers import RawProducer, batch_of, produce_of, produced
from tests.tls import TlsPeer, server_context
from tests.waiting import HANG_SECONDS, until

pytest_plugins = ["seglog.testing.kafka_fixtures"]
KEYS = 10


def test_records_that_have_arrived_are_appended_although_the_client_is_gone(kafka_broker):
    log = kafka_broker.broker.create_topic("orders").partition(0)
    with state_of(log).mutex:  # so both appends wait
        for value in (b"first", b"second"):
            _produce_and_leave(kafka_broker.address, value)
        with connected(kafka_broker.address) as raw:
            raw.ask(LIST_GROUPS, 0, {})  # answered after the server has seen that the clients are gone
        assert log.view().next_offset == 0
    until(lambda: log.next_offset == 2)
    assert sorted(record.value for record in log.scan()) == [b"first", b"second"]


def _produce_and_leave(address, value):
    with connected(address) as raw:
        raw.request(PRODUCE.key, 8, produce_of([batch_of([value])], acks=0))


def test_a_batch_whose_tls_connection_is_reset_while_it_is_appended_counts_as_sent(certificate):
    client = _client_tls()
    kafka = KafkaBroker()
    with kafka:
        topic = kafka.broker.create_topic("orders")
        log = topic.partition(0)
        producer = RawProducer(kafka, "orders")
        assert producer.send(0, [b"a"]) == (0, 0)
        kafka._tls = server_context(certificate)
    with kafka:
        log = kafka.broker.topic("orders").partition(0)

        def sent(sequence, value):
            batch = batch_of([value], producer=producer.id, epoch=producer.epoch, sequence=sequence)
            return produce_of([batch], acks=1)

        assert _answered(kafka, client, sent(1, b"b")) == (0, 1)
        with state_of(log).mutex:  # so the next batch is in the middle of its append
            raw = _tls(kafka, client)
            raw.request(PRODUCE.key, 8, sent(2, b"c"))
            until(lambda: kafka._services.appends._writers.busy)
            raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            raw.socket.close()
            until(lambda: all(one._transport.is_closing() for one in [*kafka._listener._connections]))
        until(lambda: log.next_offset == 3)
        until(lambda: not kafka._listener._connections)
        topic = kafka.broker.topic("orders")
        topic._appending._memory._window = OnceWindow(keys=KEYS)
        for number in range(KEYS):  # so that the topic forgets the key of the batch
            topic.append(b"other", once=str(number))
        assert _answered(kafka, client, sent(3, b"d")) == (0, 3 + KEYS)
        assert _answered(kafka, client, sent(2, b"c")) == (0, 2)
        assert log.next_offset == 4 + KEYS


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.0\r\n\r\n", b"\x16\x03\x01", b""], ids=["text", "a part", "nothing"])
def test_a_handshake_that_fails_is_no_error_of_the_server(certificate, sent):
    with _without_errors(certificate) as raw:
        raw.socket.sendall(sent)
        raw.socket.shutdown(socket.SHUT_WR)
        assert raw.bytes(2**16)[:1] in (b"", b"\x15")  # an alert


def test_a_client_that_ends_with_its_handshake_is_no_error_of_the_server(certificate):
    with _without_errors(certificate) as raw:
        TlsPeer(raw.socket, certificate[0]).send(ends=True)  # with the end of the handshake
        raw.socket.shutdown(socket.SHUT_WR)
        raw.bytes(2**16)


def test_a_request_that_comes_with_the_end_of_the_handshake_is_answered(certificate):
    with _without_errors(certificate) as raw:
        peer, found = TlsPeer(raw.socket, certificate[0]), b""
        peer.send(_frame(1))
        while len(found) < 8:
            found += peer.receive()
    assert found[4:8] == struct.pack(">i", 7)


def test_batches_that_come_with_the_end_of_a_tls_connection_are_appended(certificate):
    kafka = KafkaBroker()
    with _without_errors(certificate, kafka) as raw:
        log = kafka.broker.create_topic("orders").partition(0)
        TlsPeer(raw.socket, certificate[0]).send(3 * AT_ONCE * _frame(0), ends=True)
        until(lambda: log.next_offset == 3 * AT_ONCE)


def _frame(acks):
    """Return a Produce with its head."""
    data = struct.pack(">hhih", PRODUCE.key, 8, 7, -1) + produce_of([batch_of([b"v"])], acks=acks)
    return struct.pack(">i", len(data)) + data


@contextmanager
def _without_errors(certificate, kafka=None):
    """Give a connection to a broker with TLS, whose event loop must have reported no error at the end."""
    kafka, found = kafka or KafkaBroker(), []
    kafka._tls = server_context(certificate)
    with kafka:
        handler = kafka._loop.set_exception_handler
        kafka._loop.call_soon_threadsafe(handler, lambda _loop, context: found.append(context))
        with connected(kafka.address) as raw:
            yield raw
    assert not found


def _client_tls():
    client = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    client.check_hostname, client.verify_mode = False, ssl.CERT_NONE
    return client


def _tls(kafka, context):
    host, port = kafka.address.rsplit(":", 1)
    return Raw(context.wrap_socket(socket.create_connection((host, int(port)), timeout=HANG_SECONDS)))


def _answered(kafka, context, body):
    """Send a Produce; return its error code and offset."""
    raw = _tls(kafka, context)
    raw.request(PRODUCE.key, 8, body)
    found = produced(raw.response())
    raw.socket.close()
    return found


def test_who_joins_a_group_while_the_groups_are_written_delays_nobody(kafka_broker):
    groups = kafka_broker.broker.groups
    kafka_broker.broker.create_topic("orders").append(b"v")
    member = {"member_id": "", "group_instance_id": None, "protocol_type": "consumer"}
    protocols = [{"name": "range", "metadata": b""}]
    wish = {
        "group_id": "g",
        "session_timeout_ms": 1000 * HANG_SECONDS,
        "rebalance_timeout_ms": 10_000,
        "protocols": protocols,
    }
    with connected(kafka_broker.address) as raw, connected(kafka_broker.address) as other:
        with state_of(groups.log).mutex:
            committing = threading.Thread(target=groups.commit, args=("another", {"orders": {0: 1}}))
            committing.start()
            until(lambda: not _is_free(groups._lock))
            raw.send(JOIN_GROUP, 2, wish | member)
            until(lambda: kafka_broker._services.groups.busy)
            assert other.ask(METADATA, 4, {"topics": [], "allow_auto_topic_creation": False})["brokers"]
            assert committing.is_alive()
        committing.join()
        joined = JOIN_GROUP.response.read(Reader(raw.response()[4:]), JOIN_GROUP.form(2))
        assert (joined["error_code"], joined["generation_id"]) == (0, 1)


def _is_free(lock):
    if lock.acquire(blocking=False):
        lock.release()
        return True
    return False


@pytest.fixture
def patient_kafka(monkeypatch):
    """A broker that lets requests wait for long."""
    limits = Limits(wait_seconds=HANG_SECONDS)
    monkeypatch.setattr(testing, "Settings", partial(Settings, limits=limits))
    with KafkaBroker() as kafka:
        yield kafka


def _fetch_of(partitions):
    parts = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": 1000} for number in range(partitions)]
    wish = {"replica_id": -1, "max_bytes": 1000, "max_wait_ms": 2**31 - 1, "min_bytes": 1}
    return {**wish, "topics": [{"topic": "orders", "partitions": parts}]}


def test_a_fetch_for_which_there_is_no_room_to_wait_is_answered_and_holds_no_room_for_an_answer(patient_kafka):
    partitions = 300  # whose fetch needs a claim
    patient_kafka.broker.create_topic("orders", partitions=partitions)
    memory = patient_kafka._services.memory
    memory.change("waits", memory.share("waits"))  # others wait
    with connected(patient_kafka.address) as raw:
        found = raw.ask(FETCH, 11, _fetch_of(partitions))
        assert [one["records"] for one in found["responses"][0]["partitions"]] == [b""] * partitions
        assert found["throttle_time_ms"]
        until(lambda: memory.held["answers"] == 0)
        patient_kafka.broker.topic("orders").append(b"v", partition=7)
        memory.change("waits", -1)
        found = raw.ask(FETCH, 11, _fetch_of(partitions))
        assert [bool(one["records"]) for one in found["responses"][0]["partitions"]].index(True) == 7
        assert not found["throttle_time_ms"]


def test_an_idle_connection_ends_although_its_client_does_not_read_the_last_response(monkeypatch):
    monkeypatch.setattr(testing, "Settings", partial(Settings, limits=Limits(idle_seconds=0.2)))
    with KafkaBroker() as kafka, closing(socket.socket()) as client:
        kafka.broker.create_topic("orders").append(b"x" * 50_000)  # less than a transport holds before it pauses
        open_ones = kafka._listener._connections
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        client.connect(("127.0.0.1", int(kafka.address.rpartition(":")[2])))
        until(lambda: open_ones)
        [one] = open_ones
        one._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
        part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100_000}
        wish = {"replica_id": -1, "max_bytes": 100_000, "max_wait_ms": 0, "min_bytes": 1}
        Raw(client).send(FETCH, 11, {**wish, "topics": [{"topic": "orders", "partitions": [part]}]})
        until(lambda: one._transport.get_write_buffer_size() and not one._is_busy)
        assert one._stalled is None
        monkeypatch.setattr(connection, "IDLE_CONNECTION_SECONDS", 0.4)
        until(lambda: not open_ones)
