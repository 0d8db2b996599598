"""Idempotent producers: a repeated batch is stored once, a gap is refused; also after kill -9."""

from __future__ import annotations

import threading

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.client import Client
from seglog.kafka.faults import OldProducerEpoch, OutOfOrderSequence
from seglog.kafka.producers.sequences import SEQUENCES, Appended, Producer, Range
from seglog.testing.kafka import KafkaBroker
from seglog.topic.idempotency.memory import WINDOW
from tests.kafka.clients import CLIENTS, Confluent, Sent
from tests.kafka.producers import RawProducer, stored
from tests.waiting import HANG_SECONDS

OK, OUT_OF_ORDER, OLD_EPOCH = 0, 45, 47


def test_a_repeated_batch_is_stored_once_and_gets_its_offset_again(kafka, topic):
    producer = RawProducer(kafka, topic)
    for number in range(7):
        assert producer.send(2 * number, [b"%d" % number, b"+"]) == (OK, 2 * number)
    for number in range(2, 7):  # the last five
        assert producer.send(2 * number, [b"%d" % number, b"+"]) == (OK, 2 * number)
    assert producer.send(0, [b"0", b"+"])[0] == OUT_OF_ORDER  # too old to be known
    assert producer.send(0, [b"other"], partition=1) == (OK, 0)  # each partition counts by itself
    assert len(stored(kafka, topic)) == 14


def test_a_repeated_batch_is_stored_once_although_its_key_is_forgotten(tmp_path):
    with KafkaBroker(tmp_path / "root") as kafka:
        topic = kafka.broker.create_topic("orders")
        producer = RawProducer(kafka, "orders")
        assert producer.send(0, [b"a", b"b"]) == (OK, 0)
        for number in range(WINDOW.keys):
            topic.append(b"other", once=str(number))
        assert producer.send(0, [b"a", b"b"]) == (OK, 0)
        assert topic.partition(0).next_offset == 2 + WINDOW.keys


def test_gaps_and_old_epochs_are_refused(kafka, topic):
    producer = RawProducer(kafka, topic)
    assert producer.send(0, [b"a"]) == (OK, 0)
    assert producer.send(2, [b"c"])[0] == OUT_OF_ORDER
    assert producer.send(0, [b"another"])[0] == OUT_OF_ORDER  # the same sequence with other records
    assert producer.send(1, [b"b"]) == (OK, 1)
    assert producer.send(5, [b"x"], epoch=1)[0] == OUT_OF_ORDER
    assert producer.send(0, [b"x"], epoch=1) == (OK, 2)
    assert producer.send(2, [b"c"])[0] == OLD_EPOCH
    assert stored(kafka, topic) == [b"a", b"b", b"x"]


def test_sequences_survive_a_kill(own_kafka, name):
    kafka = own_kafka()
    Confluent(kafka.address).produce(name, [Sent(b"first")])
    one, other = RawProducer(kafka, name), RawProducer(kafka, name)
    assert one.id != other.id
    assert one.send(0, [b"a", b"b"]) == (OK, 1)
    assert other.send(0, [b"x"]) == (OK, 3)
    kafka.kill()
    kafka.start()
    assert one.send(0, [b"a", b"b"]) == (OK, 1)
    assert one.send(3, [b"d"])[0] == OUT_OF_ORDER
    assert one.send(2, [b"c"]) == (OK, 4)
    assert other.send(1, [b"y"]) == (OK, 5)
    assert stored(kafka, name) == [b"first", b"a", b"b", b"x", b"c", b"y"]


def test_after_a_truncation_the_removed_batches_can_be_sent_again(kafka, topic):
    producer = RawProducer(kafka, topic)
    for number in range(3):
        producer.send(number, [b"%d" % number])
    with Client(kafka.url) as http:
        http.topic(topic).truncate(0, 1)
    assert producer.send(2, [b"2"])[0] == OUT_OF_ORDER
    assert producer.send(1, [b"1"]) == (OK, 1)
    assert stored(kafka, topic) == [b"0", b"1"]


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_produces_idempotently(kafka, topic, client):
    option = {"enable.idempotence": True} if client == "confluent-kafka" else {"enable_idempotence": True}
    CLIENTS[client](kafka.address).produce(topic, [Sent(b"%d" % number) for number in range(500)], **option)
    found = CLIENTS[client](kafka.address).consume(topic, 500)
    assert [one.value for one in found] == [b"%d" % number for number in range(500)]
    assert {one.headers for one in found} == {()}  # what the log remembers is not shown


def test_records_of_an_idempotent_producer_are_stored_once_though_the_server_is_killed(own_kafka, name):
    kafka, count = own_kafka(), 3000
    options = {"enable.idempotence": True, "linger.ms": 1, "batch.num.messages": 20, "reconnect.backoff.max.ms": 100}
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, "log_level": 0, **options})
    acknowledged, enough = [], threading.Event()

    def delivered(error, message):
        assert error is None, error
        acknowledged.append(int(message.value()))
        if len(acknowledged) % 700 == 0:
            enough.set()

    for number in range(count):
        producer.produce(name, b"%d" % number, partition=0, on_delivery=delivered)
        producer.poll(0)
        if enough.is_set() and number < count - 100:
            enough.clear()
            kafka.kill()
            kafka.start()
        elif number % 50 == 0:
            producer.poll(0.005)
    assert producer.flush(HANG_SECONDS) == 0
    assert acknowledged == list(range(count))
    assert [int(value) for value in stored(kafka, name)] == list(range(count))


@given(st.integers(0, SEQUENCES - 1), st.lists(st.integers(1, 50), min_size=1, max_size=12), st.integers(0, 11))
def test_sequences_continue_over_their_end(first, counts, repeated):
    producer, sent = Producer(0), []
    for number, count in enumerate(counts):
        one = Range.of(first, count)
        if number:
            producer.check(0, one)
        producer.note(0, one, Appended(number, checksum=number))
        sent.append(one)
        first = (one.last + 1) % SEQUENCES
    again = sent[repeated % len(sent)]
    if again in sent[-5:]:
        producer.check(0, again)
        number = sent.index(again)
        assert producer.offset_of(0, again, number) == number
        assert producer.offset_of(0, again, number + 1) is None  # the same sequences with other records
    else:
        with pytest.raises(OutOfOrderSequence):
            producer.check(0, again)
    with pytest.raises(OutOfOrderSequence):
        producer.check(0, Range.of((first + 1) % SEQUENCES, 1))
    producer.check(1, Range.of(0, 1))
    producer.note(1, Range.of(0, 1), None)
    with pytest.raises(OldProducerEpoch):
        producer.check(0, Range.of(first, 1))
