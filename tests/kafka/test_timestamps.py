"""message.timestamp.type: with LogAppendTime records get the server's time, and responses contain that time."""

from __future__ import annotations

import asyncio
import time

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

import kafka as kafka_python
from seglog import Policies
from seglog.client import Client
from tests.kafka.clients import CLIENTS, Confluent, Sent
from tests.kafka.producers import RawProducer
from tests.waiting import HANG_SECONDS

TYPE = "message.timestamp.type"
BORN = 1_700_000_000_123
RECORDS = [Sent(b"%d" % number, None, (("h", b"v"),), BORN + number) for number in range(30)]


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.address})


@pytest.fixture
def stamped(admin, name):
    """A topic of LogAppendTime."""
    admin.create_topics([NewTopic(name, 1, config={TYPE: "LogAppendTime"})])[name].result()
    return name


def now():
    return time.time_ns() // 1_000_000


def alter(admin, name, value, operation=AlterConfigOpType.SET):
    resource = ConfigResource(
        ResourceType.TOPIC, name, incremental_configs=[ConfigEntry(TYPE, value, incremental_operation=operation)]
    )
    admin.incremental_alter_configs([resource])[resource].result()


def shown(admin, name):
    resource = ConfigResource(ResourceType.TOPIC, name)
    return admin.describe_configs([resource])[resource].result()[TYPE].value


def polled(kafka, topic, count):
    """Return (kind of timestamp, timestamp) of records, as librdkafka shows them."""
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.address, "group.id": "unused"})
    consumer.assign([confluent_kafka.TopicPartition(topic, 0, 0)])
    found = []
    while len(found) < count:
        came = consumer.consume(count - len(found), HANG_SECONDS)
        assert came, f"{len(found)} of {count} records"
        found += [one.timestamp() for one in came]
    consumer.close()
    return found


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_records_get_the_time_of_the_server(kafka, stamped, client, codec):
    began = now()
    CLIENTS[client](kafka.address).produce(stamped, RECORDS, codec=codec)
    CLIENTS[client](kafka.address).produce(stamped, [Sent(b"alone", timestamp=BORN)])
    ended = now()
    found = polled(kafka, stamped, len(RECORDS) + 1)
    assert {kind for kind, _ in found} == {confluent_kafka.TIMESTAMP_LOG_APPEND_TIME}
    assert all(began <= one <= ended for _, one in found)
    with Client(kafka.url) as http:
        assert [one.timestamp // 1000 for one in http.topic(stamped).records(0)] == [one for _, one in found]


def test_a_producer_is_told_the_time_that_its_record_got(kafka, stamped):
    told = []
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address})
    for number in range(5):
        producer.produce(
            stamped, b"%d" % number, timestamp=BORN, on_delivery=lambda _, message: told.append(message.timestamp())
        )
        assert producer.flush(HANG_SECONDS) == 0
    assert told == polled(kafka, stamped, 5)


def test_the_other_clients_show_the_kind_of_the_timestamps(kafka, stamped):
    Confluent(kafka.address).produce(stamped, RECORDS[:3])
    consumer = kafka_python.KafkaConsumer(bootstrap_servers=kafka.address, auto_offset_reset="earliest")
    consumer.assign([kafka_python.TopicPartition(stamped, 0)])
    assert next(consumer).timestamp_type == 1
    consumer.close()

    async def read():
        consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=kafka.address, auto_offset_reset="earliest")
        await consumer.start()
        consumer.assign([aiokafka.TopicPartition(stamped, 0)])
        try:
            return await consumer.getone()
        finally:
            await consumer.stop()

    assert asyncio.run(read()).timestamp_type == 1


def test_a_repeated_batch_gets_its_time_again(kafka, stamped):
    producer, batch = RawProducer(kafka, stamped), [b"a", b"b"]
    times = []
    for _ in range(2):
        times.append(producer.answer(stamped, 0, batch, epoch=0, attributes=0)["log_append_time_ms"])
        while now() <= times[0]:  # the clock must have advanced
            pass
    assert times[0] == times[1] == polled(kafka, stamped, 1)[0][1]


def test_a_transaction_gets_the_time_of_the_server(kafka, stamped, name):
    began = now()
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, "transactional.id": name})
    producer.init_transactions(HANG_SECONDS)
    producer.begin_transaction()
    producer.produce(stamped, b"v", timestamp=BORN)
    producer.commit_transaction(HANG_SECONDS)
    [(kind, found)] = polled(kafka, stamped, 1)
    assert kind == confluent_kafka.TIMESTAMP_LOG_APPEND_TIME
    assert began <= found <= now()


def test_the_kind_is_altered(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1)])[name].result()
    assert shown(admin, name) == "CreateTime"
    client, began = Confluent(kafka.address), now()
    client.produce(name, RECORDS[:2])
    alter(admin, name, "LogAppendTime")
    client.produce(name, RECORDS[:2])
    assert shown(admin, name) == "LogAppendTime"
    given, stamped = (polled(kafka, name, 4)[part] for part in (slice(2), slice(2, 4)))
    assert [one for _, one in given] == [BORN, BORN + 1], "a record keeps the time that it got when it was appended"
    assert all(one >= began for _, one in stamped)
    alter(admin, name, None, AlterConfigOpType.DELETE)
    client.produce(name, RECORDS[:1])
    kinds, times = zip(*polled(kafka, name, 5), strict=True)
    assert set(kinds) == {confluent_kafka.TIMESTAMP_CREATE_TIME}
    assert times[4] == BORN
    with pytest.raises(confluent_kafka.KafkaException, match="accepts CreateTime or LogAppendTime"):
        alter(admin, name, "Never")


def test_the_kind_stays_over_a_kill_and_http_shows_it(own_kafka, name):
    kafka = own_kafka()
    with Client(kafka.url) as http:
        http.create_topic(name, policies=Policies(timestamps="server"))
        http.topic(name).append(b"by http", timestamp=BORN * 1000)
    kafka.kill()
    kafka.start()
    began = now()
    Confluent(kafka.address).produce(name, RECORDS[:1])
    assert polled(kafka, name, 2)[0][1] == BORN, "HTTP decides by itself"
    assert polled(kafka, name, 2)[1][1] >= began
    with Client(kafka.url) as http:
        assert http.topic(name).info().policies == Policies(timestamps="server")


def test_many_times_are_read_in_several_responses(kafka, stamped):
    producer, times = RawProducer(kafka, stamped), list[int]()
    for number in range(30):
        times.append(producer.answer(stamped, number, [b"v"], epoch=0, attributes=0)["log_append_time_ms"])
    with Client(kafka.url) as http:
        for number in range(600):
            http.topic(stamped).append(b"v", timestamp=(BORN + number) * 1000, partition=0)
    expected = times + [BORN + number for number in range(600)]
    assert [one for _, one in polled(kafka, stamped, 630)] == expected
