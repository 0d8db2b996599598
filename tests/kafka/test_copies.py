"""min.insync.replicas: acks=all is answered once this server and its copies, which real processes make, have it."""

from __future__ import annotations

import signal
import subprocess
import sys
from contextlib import contextmanager

import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

import seglog
from tests.kafka.clients import Confluent, Sent
from tests.kafka.producers import RawProducer, stored
from tests.waiting import HANG_SECONDS, until

OK, TOO_FEW, TOO_FEW_AFTER_APPEND = 0, 19, 20
CONFIG = "min.insync.replicas"


@pytest.fixture
def leader(own_kafka):
    server = own_kafka()
    admin = AdminClient({"bootstrap.servers": server.address})
    admin.create_topics([NewTopic("t", 1, config={CONFIG: "2"})])["t"].result()
    return server


def altered(leader, value):
    admin = AdminClient({"bootstrap.servers": leader.address})
    entry = ConfigEntry(CONFIG, value, incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.TOPIC, "t", incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()
    return admin.describe_configs([resource])[resource].result()[CONFIG].value


@contextmanager
def mirroring(leader, target):
    command = [sys.executable, "-m", "seglog", "mirror", leader.url, str(target)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGCONT)
        process.terminate()
        process.wait(HANG_SECONDS)


def copied(target):
    with seglog.Broker(target, mode="r") as copy:
        return [record.value for record in copy.topic("t").records(0)]


def test_without_a_copy_nothing_is_appended(leader):
    assert RawProducer(leader, "t").send(0, [b"v"]) == (TOO_FEW, -1)
    assert stored(leader, "t") == []
    Confluent(leader.address).produce("t", [Sent(b"v")], acks=1)
    assert stored(leader, "t") == [b"v"]


def test_what_is_acknowledged_is_in_the_copy(leader, tmp_path):
    producer = RawProducer(leader, "t")
    with mirroring(leader, tmp_path / "copy") as process:
        until(lambda: producer.send(0, [b"0"]) == (OK, 0))
        for number in range(1, 6):
            until(lambda number=number: producer.send(number, [b"%d" % number]) == (OK, number))
            assert copied(tmp_path / "copy")[-1] == b"%d" % number
        process.send_signal(signal.SIGSTOP)
        assert producer.send(6, [b"6"])[0] == TOO_FEW_AFTER_APPEND
        assert stored(leader, "t")[-1] == b"6"
        process.send_signal(signal.SIGCONT)
        until(lambda: producer.send(6, [b"6"]) == (OK, 6))  # stored once
        assert stored(leader, "t") == copied(tmp_path / "copy") == [b"%d" % number for number in range(7)]


def test_the_number_of_copies_is_altered_and_described(leader, tmp_path):
    assert altered(leader, "1") == "1"
    producer = RawProducer(leader, "t")
    assert producer.send(0, [b"v"]) == (OK, 0)
    assert altered(leader, "3") == "3"
    leader.stop()
    leader.start()
    with mirroring(leader, tmp_path / "copy"):
        until(lambda: (tmp_path / "copy").exists() and len(copied_or_none(tmp_path / "copy")) == 1)
        assert producer.send(1, [b"w"]) == (TOO_FEW, -1)


def copied_or_none(target):
    try:
        return copied(target)
    except seglog.SeglogError:
        return []
