"""`seglog.testing.kafka`: a broker in the process of a test, in memory or on disk."""

from __future__ import annotations

import gc
import socket
from contextlib import ExitStack

import pytest

import seglog
from seglog.errors import ConfigError
from seglog.testing.kafka import KafkaBroker
from tests.kafka.clients import CLIENTS, Confluent, Sent
from tests.waiting import HANG_SECONDS

pytest_plugins = ["seglog.testing.kafka_fixtures"]


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_uses_a_broker_in_memory(shared_kafka_broker, client, name):
    one = CLIENTS[client](shared_kafka_broker.address)
    one.produce(name, [Sent(b"a", b"k"), Sent(b"b")])
    assert [found.value for found in one.consume(name, 2)] == [b"a", b"b"]
    assert shared_kafka_broker.broker.topic(name).partition(0).read(0).key == b"k"


def test_a_new_broker_has_no_topics(kafka_broker):
    assert kafka_broker.broker.topics() == []


def test_a_directory_is_used_again(tmp_path):
    with KafkaBroker(tmp_path / "root") as broker:
        Confluent(broker.address).produce("orders", [Sent(b"kept")])
    with seglog.Broker(tmp_path / "root", mode="r") as broker:
        assert broker.topic("orders").partition(0).read(0).value == b"kept"
    with KafkaBroker(tmp_path / "root") as broker:
        assert Confluent(broker.address).consume("orders", 1)[0].value == b"kept"


def test_a_broker_is_entered_again_at_its_address():
    broker = KafkaBroker()
    with broker:
        address = broker.address
        Confluent(address).produce("t", [Sent(b"v")])
    with broker:
        assert broker.address == address
        assert Confluent(address).consume("t", 1)[0].value == b"v"


def test_a_port_in_use_is_refused(kafka_broker):
    port = int(kafka_broker.address.rpartition(":")[2])
    with pytest.raises(ConfigError, match="choose another --kafka"), KafkaBroker(port=port):
        pass


@pytest.mark.parametrize("rounds", [5, pytest.param(30, marks=pytest.mark.proof)])
def test_a_broker_that_stops_closes_connections_that_it_has_just_accepted(rounds):
    for _ in range(rounds):
        with ExitStack() as clients:
            with KafkaBroker() as kafka:
                host, port = kafka.address.split(":")
                for _ in range(10):
                    clients.enter_context(socket.create_connection((host, int(port)), timeout=HANG_SECONDS))
            del kafka
            gc.collect()  # a socket that is open still is reported, and fails the test
