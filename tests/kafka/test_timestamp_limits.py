"""message.timestamp.after.max.ms and before.max.ms: how far a producer's timestamps may be from the server's time."""

from __future__ import annotations

import time

import confluent_kafka
import pytest
from confluent_kafka import KafkaError
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from seglog import Policies
from seglog.client import Client
from tests.kafka.clients import Confluent, Sent
from tests.kafka.producers import RawTransactional, stored
from tests.waiting import HANG_SECONDS

AFTER, BEFORE = "message.timestamp.after.max.ms", "message.timestamp.before.max.ms"
NONE = str(2**63 - 1)
HOUR = 3_600_000
KAFKAS = Policies(timestamp_ahead=3600.0)


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.address})


def now():
    return time.time_ns() // 1_000_000


def produced(kafka, topic, *timestamps, **options):
    """Send records in one batch; return the error code of each, None for a stored one."""
    codes = []
    producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, "linger.ms": 60_000, **options})
    for timestamp in timestamps:
        producer.produce(topic, b"v", timestamp=timestamp, on_delivery=lambda error, _: codes.append(error))
    assert producer.flush(HANG_SECONDS) == 0
    return [None if error is None else error.code() for error in codes]


def described(admin, name):
    resource = ConfigResource(ResourceType.TOPIC, name)
    return {each: one.value for each, one in admin.describe_configs([resource])[resource].result().items()}


def alter(admin, name, config, value, operation=AlterConfigOpType.SET):
    entry = ConfigEntry(config, value, incremental_operation=operation)
    resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
    admin.incremental_alter_configs([resource])[resource].result()


def policies_of(kafka, name):
    with Client(kafka.url) as http:
        return http.topic(name).info().policies


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_batch_with_a_time_too_far_ahead_is_refused_as_a_whole(kafka, admin, name, codec):
    admin.create_topics([NewTopic(name, 1)])[name].result()
    far = now() + 2 * HOUR
    codes = produced(kafka, name, now(), far, now(), **{"compression.type": codec})
    assert codes[1] == KafkaError.INVALID_TIMESTAMP
    assert None not in codes
    assert produced(kafka, name, far) == [KafkaError.INVALID_TIMESTAMP]
    assert stored(kafka, name) == []
    assert produced(kafka, name, now() + HOUR // 2, 5, now()) == [None] * 3, "the past has no limit"
    assert len(stored(kafka, name)) == 3


def test_a_time_too_far_behind_is_refused_where_the_topic_has_a_limit(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={BEFORE: str(HOUR)})])[name].result()
    assert produced(kafka, name, now() - 2 * HOUR) == [KafkaError.INVALID_TIMESTAMP]
    assert produced(kafka, name, now() - HOUR // 2) == [None]
    alter(admin, name, BEFORE, NONE)
    assert produced(kafka, name, now() - 2 * HOUR) == [None]
    assert len(stored(kafka, name)) == 2


def test_topics_that_kafkas_clients_create_have_kafkas_limit_and_others_none(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1)])[name].result()
    assert policies_of(kafka, name) == KAFKAS
    shown = described(admin, name)
    assert (shown[AFTER], shown[BEFORE]) == (str(HOUR), NONE)
    Confluent(kafka.address).produce(f"{name}-auto", [Sent(b"v")])
    assert policies_of(kafka, f"{name}-auto") == KAFKAS
    with Client(kafka.url) as http:
        http.create_topic(f"{name}-http")
    assert policies_of(kafka, f"{name}-http") == Policies()
    assert described(admin, f"{name}-http")[AFTER] == NONE
    assert produced(kafka, f"{name}-http", now() + 1000 * HOUR) == [None]


def test_the_limits_are_altered_and_reset(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={AFTER: NONE, BEFORE: "5000"})])[name].result()
    assert policies_of(kafka, name) == Policies(timestamp_behind=5.0)
    alter(admin, name, AFTER, "1500")
    assert policies_of(kafka, name) == Policies(timestamp_ahead=1.5, timestamp_behind=5.0)
    for config in (AFTER, BEFORE):
        alter(admin, name, config, None, AlterConfigOpType.DELETE)
    assert policies_of(kafka, name) == KAFKAS
    with pytest.raises(confluent_kafka.KafkaException, match="it must be 0 to"):
        alter(admin, name, AFTER, "-1")
    with Client(kafka.url) as http:
        http.alter_topic(name, policies=Policies(timestamp_ahead=None, timestamp_behind=60))
    shown = described(admin, name)
    assert (shown[AFTER], shown[BEFORE]) == (NONE, "60000")


def test_a_topic_of_the_servers_time_has_no_limit(kafka, admin, name):
    config = {AFTER: "0", BEFORE: "0", "message.timestamp.type": "LogAppendTime"}
    admin.create_topics([NewTopic(name, 1, config=config)])[name].result()
    assert produced(kafka, name, now() + 2 * HOUR, 5) == [None, None]


def test_http_decides_by_itself(kafka, name):
    with Client(kafka.url) as http:
        topic = http.create_topic(name, policies=Policies(timestamp_ahead=1, timestamp_behind=1))
        topic.append(b"v", timestamp=(now() + 2 * HOUR) * 1000)
        topic.append(b"v", timestamp=5)


def test_a_transaction_is_refused_when_its_records_come(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={BEFORE: str(HOUR)})])[name].result()
    producer = RawTransactional(kafka, name)
    assert producer.add(name, 0) == [0]
    code, _ = producer.send(name, 0, [b"of long ago"])
    assert code == KafkaError.INVALID_TIMESTAMP


def test_times_that_look_like_seconds_are_kafkas_own(kafka, name):
    assert produced(kafka, name, 1_000_000, 1_729_990) == [None, None]
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.address, "group.id": "unused"})
    [found] = consumer.offsets_for_times([confluent_kafka.TopicPartition(name, 0, 1_500_000)], timeout=HANG_SECONDS)
    consumer.close()
    assert found.offset == 1
    with Client(kafka.url) as http:
        assert [one.timestamp for one in http.topic(name).records(0)] == [1_000_000_000, 1_729_990_000]
