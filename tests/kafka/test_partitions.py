"""Kafka's admin clients add partitions to topics and delete the first records of partitions."""

from __future__ import annotations

import pytest
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

import kafka as kafka_python
from seglog import Retention
from seglog.client import Client
from seglog.kafka.messages.admin import CREATE_PARTITIONS, DELETE_RECORDS
from tests.kafka.clients import Confluent, Sent
from tests.waiting import until


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.address})


@pytest.fixture
def topic(kafka, admin, name):
    admin.create_topics([NewTopic(name, 2)])[name].result()
    return name


def code_of(future):
    with pytest.raises(KafkaException) as caught:
        future.result()
    return caught.value.args[0].code()


# --- adding partitions -----------------------------------------------------------------------------------------------


def test_partitions_are_added_and_used(kafka, admin, topic):
    admin.create_partitions([NewPartitions(topic, 4)])[topic].result()
    assert sorted(admin.list_topics(topic).topics[topic].partitions) == [0, 1, 2, 3]
    client = Confluent(kafka.address)
    client.produce(topic, [Sent(b"v")], partition=3)
    assert [one.value for one in client.consume(topic, 1, partition=3)] == [b"v"]
    with Client(kafka.url) as http:
        assert http.topic(topic).info().partitions == 4


def test_a_consumer_of_a_group_gets_the_new_partition(kafka, admin, topic):
    given = {"auto.offset.reset": "earliest", "topic.metadata.refresh.interval.ms": 100}
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": topic, **given})
    consumer.subscribe([topic])
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 2)
    admin.create_partitions([NewPartitions(topic, 3)])[topic].result()
    until(lambda: consumer.poll(0.1) is None and len(consumer.assignment()) == 3)
    consumer.close()


@pytest.mark.parametrize("count", [1, 2, 100_000])
def test_a_number_that_is_not_possible_is_refused(admin, topic, count):
    assert code_of(admin.create_partitions([NewPartitions(topic, count)])[topic]) == KafkaError.INVALID_PARTITIONS


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (1, "already has 2 partitions; the number must be higher, up to 1000"),
        (2, "already has 2 partitions; the number must be higher, up to 1000"),
        (1001, r"has 2 partitions and may have up to 1000 \(--partitions\), not 1001"),
    ],
)
def test_the_refusal_of_a_number_of_partitions_says_which_are_possible(admin, topic, count, text):
    with pytest.raises(KafkaException, match=text):
        admin.create_partitions([NewPartitions(topic, count)])[topic].result()


def test_an_addition_can_be_tried(admin, topic):
    admin.create_partitions([NewPartitions(topic, 4)], validate_only=True)[topic].result()
    assert len(admin.list_topics(topic).topics[topic].partitions) == 2
    absent = admin.create_partitions([NewPartitions("absent", 4)])["absent"]
    assert code_of(absent) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("brokers", "code"),
    [
        ([[1], [1]], 0),
        ([[1]], KafkaError.INVALID_REPLICA_ASSIGNMENT),
        ([[1], [2]], KafkaError.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_new_partitions_are_assigned_to_the_only_broker(kafka, topic, brokers, code):
    wanted = {"name": topic, "count": 4, "assignments": [{"broker_ids": one} for one in brokers]}
    with kafka.connection() as raw:
        values = {"topics": [wanted], "timeout_ms": 1000, "validate_only": False}
        assert [one["error_code"] for one in raw.ask(CREATE_PARTITIONS, 1, values)["results"]] == [code]


def test_a_topic_that_is_named_twice_is_refused(kafka, topic):
    wanted = {"name": topic, "count": 4, "assignments": None}
    with kafka.connection() as raw:
        values = {"topics": [wanted, wanted], "timeout_ms": 1000, "validate_only": False}
        found = raw.ask(CREATE_PARTITIONS, 0, values)["results"]
    assert [one["error_code"] for one in found] == [KafkaError.INVALID_REQUEST] * 2


# --- deleting records ------------------------------------------------------------------------------------------------


def test_records_before_an_offset_are_deleted(kafka, admin, topic):
    client = Confluent(kafka.address)
    client.produce(topic, [Sent(b"%d" % number) for number in range(10)])
    place = TopicPartition(topic, 0, 7)
    assert admin.delete_records([place])[place].result().low_watermark == 7
    consumer = Consumer({"bootstrap.servers": kafka.address, "group.id": topic})
    assert consumer.get_watermark_offsets(place) == (7, 10)
    consumer.close()
    assert [one.offset for one in client.consume(topic, 3, start=7)] == [7, 8, 9]
    with pytest.raises(KafkaException) as caught:
        client.consume(topic, 1, start=6)
    assert caught.value.args[0].code() in (KafkaError._AUTO_OFFSET_RESET, KafkaError.OFFSET_OUT_OF_RANGE)


def test_records_of_a_topic_that_is_only_compacted_are_not_deleted_as_with_kafka(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={"cleanup.policy": "compact"})])[name].result()
    Confluent(kafka.address).produce(name, [Sent(b"v", b"k")])
    place = TopicPartition(name, 0, 1)
    assert code_of(admin.delete_records([place])[place]) == KafkaError.POLICY_VIOLATION
    with Client(kafka.url) as http:
        http.alter_topic(name, retention=Retention(compact=False))
    assert admin.delete_records([place])[place].result().low_watermark == 1


def test_all_records_are_deleted(kafka, topic):
    Confluent(kafka.address).produce(topic, [Sent(b"v")] * 3)
    client = kafka_python.KafkaAdminClient(bootstrap_servers=kafka.address)
    place = kafka_python.TopicPartition(topic, 0)
    assert client.delete_records({place: -1})[place]["low_watermark"] == 3
    client.close()
    assert Confluent(kafka.address).produce(topic, [Sent(b"next")]) == [3]


@pytest.mark.parametrize(("partition", "offset", "code"), [(0, 1, 1), (0, -2, 1), (0, 2**63 - 1, 1), (9, 0, 3)])
def test_an_impossible_offset_and_an_absent_partition_are_refused(kafka, topic, partition, offset, code):
    wanted = {"name": topic, "partitions": [{"partition_index": partition, "offset": offset}]}
    with kafka.connection() as raw:
        found = raw.ask(DELETE_RECORDS, 1, {"topics": [wanted], "timeout_ms": 1000})
    [[one]] = [each["partitions"] for each in found["topics"]]
    assert (one["error_code"], one["low_watermark"]) == (code, -1)
