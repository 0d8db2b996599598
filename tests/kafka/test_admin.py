"""Admin clients create, describe, alter and delete topics; HTTP shows the same configs."""

from __future__ import annotations

import asyncio
import re

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    ResourceType,
)

import kafka as kafka_python
from seglog import LogConfig, Policies, Retention
from seglog.client import Client
from seglog.errors import ConfigError
from seglog.kafka import codes
from seglog.kafka.codes import MISMATCHED_ENDPOINT_TYPE, UNSUPPORTED_ENDPOINT_TYPE
from seglog.kafka.messages.admin import ALTER_CONFIGS, CREATE_TOPICS, DESCRIBE_CLUSTER, INCREMENTAL_ALTER_CONFIGS
from seglog.kafka.requests.configs import APPEND, SET
from seglog.server.settings import Limits
from tests.kafka.clients import Confluent, Sent
from tests.waiting import HANG_SECONDS, until


@pytest.fixture
def admin(kafka):
    return AdminClient({"bootstrap.servers": kafka.address})


def code_of(future):
    with pytest.raises(KafkaException) as caught:
        future.result()
    return caught.value.args[0].code()


def described(admin, name):
    resource = ConfigResource(ResourceType.TOPIC, name)
    return admin.describe_configs([resource])[resource].result()


def test_a_topic_is_created_with_its_config_and_deleted(kafka, admin, name):
    wanted = {
        "cleanup.policy": "compact,delete",
        "retention.ms": "3600000",
        "retention.bytes": "1000000",
        "segment.bytes": "65536",
        "min.cleanable.dirty.ratio": "0.25",
        "delete.retention.ms": "1500",
        "min.compaction.lag.ms": "10",
        "max.compaction.lag.ms": "20000",
        "max.message.bytes": "1000",
    }
    accepted = {**wanted, "compression.type": "gzip"}
    admin.create_topics([NewTopic(name, 3, 1, config=accepted)])[name].result()
    with Client(kafka.url) as http:
        info = http.topic(name).info()
    assert info.partitions == 3
    assert info.config.segment_bytes == 65536
    kept = Retention(
        age_from="records",
        compact=True,
        age=3600.0,
        bytes=1_000_000,
        min_dirty_ratio=0.25,
        delete_retention=1.5,
        min_compaction_lag=0.01,
        max_compaction_lag=20.0,
    )
    assert info.config.retention == kept
    texts = {"compression.type": "gzip"}
    assert info.policies == Policies(batch_bytes=1000, timestamp_ahead=3600.0, kafka_configs=texts)
    found = described(admin, name)
    assert {each: found[each].value for each in accepted} == accepted
    admin.delete_topics([name])[name].result()
    until(lambda: name not in admin.list_topics().topics)
    assert code_of(admin.delete_topics([name])[name]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_configs_are_altered_one_by_one(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={"retention.ms": "5000"})])[name].result()

    def alter(*entries, **options):
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=list(entries))
        return admin.incremental_alter_configs([resource], **options)[resource]

    operation = AlterConfigOpType
    alter(
        ConfigEntry("retention.ms", None, incremental_operation=operation.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=operation.APPEND),
        ConfigEntry("retention.bytes", "77", incremental_operation=operation.SET),
    ).result()
    alter(ConfigEntry("retention.bytes", "1", incremental_operation=operation.SET), validate_only=True).result()
    with Client(kafka.url) as http:
        info = http.topic(name).info()
    assert info.config.retention == Retention(compact=True, bytes=77, age_from="records")
    assert info.policies == Policies(timestamp_ahead=3600.0, kafka_configs={"cleanup.policy": "delete,compact"})
    assert described(admin, name)["cleanup.policy"].value == "delete,compact"
    alter(ConfigEntry("cleanup.policy", "delete", incremental_operation=operation.SUBTRACT)).result()
    assert described(admin, name)["cleanup.policy"].value == "compact"
    for entry in (
        ConfigEntry("segment.bytes", "200", incremental_operation=operation.SET),
        ConfigEntry("no.such", "1", incremental_operation=operation.SET),
        ConfigEntry("retention.ms", "often", incremental_operation=operation.SET),
        ConfigEntry("retention.ms", "1", incremental_operation=operation.APPEND),
    ):
        assert code_of(alter(entry)) == KafkaError.INVALID_CONFIG


def test_a_limit_that_does_not_apply_can_be_altered(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={"cleanup.policy": "compact", "retention.ms": "5000"})])[
        name
    ].result()
    for value in ("6000", "-1", "7000"):
        resource = ConfigResource(ResourceType.TOPIC, name)
        entry = ConfigEntry("retention.ms", value, incremental_operation=AlterConfigOpType.SET)
        resource.add_incremental_config(entry)
        admin.incremental_alter_configs([resource])[resource].result()
        found = described(admin, name)
        assert (found["cleanup.policy"].value, found["retention.ms"].value) == ("compact", value)
    with Client(kafka.url) as http:
        with pytest.raises(ConfigError, match="expire"):
            http.alter_topic(name, retention=Retention(age=60))
        http.alter_topic(name, retention=Retention(age=60, expire=True))
    assert described(admin, name)["cleanup.policy"].value == "compact,delete"


def test_changes_of_one_topic_at_the_same_time_all_stay(kafka, name):
    admins = [AdminClient({"bootstrap.servers": kafka.address}) for _ in range(2)]
    admins[0].create_topics([NewTopic(name, 1)])[name].result()

    def alter(admin, config, value):
        resource = ConfigResource(ResourceType.TOPIC, name)
        resource.add_incremental_config(ConfigEntry(config, value, incremental_operation=AlterConfigOpType.SET))
        return admin.incremental_alter_configs([resource])[resource]

    for number in range(15):
        wanted = {"cleanup.policy": ("compact", "delete")[number % 2], "retention.ms": str(1000 + number)}
        changes = [alter(admin, *change) for admin, change in zip(admins, wanted.items(), strict=True)]
        with Client(kafka.url) as http:
            http.alter_topic(name, retention=Retention(delete_retention=number))
        for change in changes:
            change.result()
        found = described(admins[0], name)
        wanted["delete.retention.ms"] = str(1000 * number)
        assert {config: found[config].value for config in wanted} == wanted


def test_a_batch_above_max_message_bytes_of_its_topic_is_refused_until_the_config_is_altered(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={"max.message.bytes": "1000"})])[name].result()
    assert described(admin, name)["max.message.bytes"].value == "1000"

    def produce(size, **settings):
        outcomes = []
        producer = Producer({"bootstrap.servers": kafka.address, "linger.ms": 0, **settings})
        producer.produce(name, b"x" * size, on_delivery=lambda error, _: outcomes.append(error))
        producer.flush(HANG_SECONDS)
        return outcomes[0] and outcomes[0].code()

    assert produce(500) is None
    assert produce(2000) == KafkaError.MSG_SIZE_TOO_LARGE
    assert produce(2000, **{"compression.type": "zstd"}) is None  # the size is that of the batch as it is sent
    resource = ConfigResource(ResourceType.TOPIC, name)
    resource.add_incremental_config(
        ConfigEntry("max.message.bytes", None, incremental_operation=AlterConfigOpType.DELETE)
    )
    admin.incremental_alter_configs([resource])[resource].result()
    assert int(described(admin, name)["max.message.bytes"].value) == Limits().batch_bytes
    assert produce(2000) is None


def test_configs_are_replaced(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1, config={"retention.ms": "5000", "segment.bytes": "9999"})])[name].result()
    configs = [{"name": "retention.bytes", "value": "5000"}]
    resource = {"resource_type": 2, "resource_name": name, "configs": configs}
    with kafka.connection() as raw:
        found = raw.ask(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": False})
    assert [one["error_code"] for one in found["responses"]] == [0]
    with Client(kafka.url) as http:
        info = http.topic(name).info()
    assert (info.config.retention, info.config.segment_bytes) == (
        Retention(bytes=5000, age_from="records"),
        LogConfig().segment_bytes,
    )
    assert info.policies == Policies(timestamp_ahead=3600.0)


@pytest.mark.parametrize(
    ("config", "value"), [("segment.bytes", "16777216"), ("flush.messages", "10"), ("flush.ms", "1000")]
)
def test_how_a_topic_is_written_can_be_altered_and_reset(kafka, admin, name, config, value):
    admin.create_topics([NewTopic(name, 2)])[name].result()
    default = described(admin, name)[config]
    changes = ((AlterConfigOpType.SET, value, value), (AlterConfigOpType.DELETE, None, default.value))
    for operation, given, shown in changes:
        resource = ConfigResource(ResourceType.TOPIC, name)
        resource.add_incremental_config(ConfigEntry(config, given, incremental_operation=operation))
        admin.incremental_alter_configs([resource])[resource].result()
        assert described(admin, name)[config].value == shown
    assert not default.is_read_only


@pytest.mark.parametrize(
    ("config", "operation", "value", "code"),
    [
        ("retention.ms", SET, None, codes.INVALID_REQUEST),
        ("any.name", SET, None, codes.INVALID_REQUEST),
        ("leader.replication.throttled.replicas", APPEND, "0:1", codes.NONE),
        ("preallocate", APPEND, "true", codes.INVALID_CONFIG),
        ("remote.log.copy.disable", SET, "true", codes.NONE),
    ],
)
def test_a_change_without_a_value_or_an_effect_is_answered_as_by_kafka(
    kafka, admin, name, config, operation, value, code
):
    admin.create_topics([NewTopic(name, 1)])[name].result()
    change = {"name": config, "config_operation": operation, "value": value}
    resource = {"resource_type": 2, "resource_name": name, "configs": [change]}
    with kafka.connection() as raw:
        [found] = raw.ask(INCREMENTAL_ALTER_CONFIGS, 0, {"resources": [resource], "validate_only": False})["responses"]
    assert found["error_code"] == code


def test_the_age_of_segments_is_altered(kafka, admin, name):
    admin.create_topics([NewTopic(name, 2)])[name].result()

    def alter(value, operation=AlterConfigOpType.SET):
        entry = ConfigEntry("segment.ms", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        return admin.incremental_alter_configs([resource])[resource]

    alter("50").result()
    assert described(admin, name)["segment.ms"].value == "50"
    with Client(kafka.url) as http:
        topic = http.topic(name)
        assert topic.info().config.segment_age == 0.05
        topic.append(b"old", partition=1)
        until(lambda: topic.append(b"new", partition=1) and len(topic.partition(1).segments) > 1)
        alter(None, AlterConfigOpType.DELETE).result()
        assert topic.info().config.segment_age is None
    assert code_of(alter("0")) == KafkaError.INVALID_CONFIG


@pytest.mark.parametrize("age", [0.0004, 0.0015, 3600.0004])
def test_an_age_that_is_no_whole_milliseconds_stays_when_other_configs_are_altered(kafka, admin, name, age):
    with Client(kafka.url) as http:
        http.create_topic(name, partitions=1, config=LogConfig(segment_age=age))
        entry = ConfigEntry("retention.ms", "5000", incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result()
        config = http.topic(name).info().config
    assert (config.segment_age, config.retention.age) == (age, 5.0)


def test_the_compression_type_is_the_codec_of_segments(kafka, admin, name):
    config = {"compression.type": "zstd", "segment.bytes": "2000"}
    admin.create_topics([NewTopic(name, 2, config=config)])[name].result()

    def alter(value, operation=AlterConfigOpType.SET):
        entry = ConfigEntry("compression.type", value, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=[entry])
        return admin.incremental_alter_configs([resource])[resource]

    with Client(kafka.url) as http:
        topic = http.topic(name)
        assert topic.info().config.compression == described(admin, name)["compression.type"].value == "zstd"
        for _ in range(20):
            topic.append(b"x" * 300, partition=0)
        for value, codec in (("producer", "none"), ("zstd", "zstd"), ("gzip", "none"), ("lz4", "lz4")):
            alter(value).result()
            assert topic.info().config.compression == codec
            assert described(admin, name)["compression.type"].value == value
        until(lambda: {one.codec for one in topic.partition(0).segments[:-1]} == {"lz4"})
        alter("uncompressed").result()
        assert topic.info().config.compression == "none"
        alter("zstd").result()
        alter(None, AlterConfigOpType.DELETE).result()
        assert topic.info().config.compression == "none"
    assert code_of(alter("brotli")) == KafkaError.INVALID_CONFIG


def test_a_client_gets_the_refusal_of_its_config(admin, name):
    with pytest.raises(KafkaException, match=r"retention.ms is -5; it must be 0 to .*, or -1 \(no limit\)"):
        admin.create_topics([NewTopic(name, 1, config={"retention.ms": "-5"})])[name].result()


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("default", 1), KafkaError.TOPIC_ALREADY_EXISTS),
        (NewTopic("a b", 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("new", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("new", 100_000, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("new", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
        (NewTopic("new", 1, 1, config={"min.insync.replicas": "0"}), KafkaError.INVALID_CONFIG),
        (NewTopic("new", 1, 1, config={"max.message.bytes": "2000000000"}), KafkaError.INVALID_CONFIG),
        (NewTopic("new", 1, 1, config={"max.message.bytes": "-1"}), KafkaError.INVALID_CONFIG),
    ],
)
def test_what_cannot_be_created_is_refused(admin, topic, code):
    assert code_of(admin.create_topics([topic])[topic.topic]) == code


def test_a_creation_can_be_tried(kafka, admin, name):
    admin.create_topics([NewTopic(name, 1)], validate_only=True)[name].result()
    assert name not in admin.list_topics().topics
    assigned = [{"partition_index": number, "broker_ids": [1]} for number in range(2)]
    wanted = {"name": name, "num_partitions": -1, "replication_factor": -1, "assignments": assigned, "configs": []}
    with kafka.connection() as raw:
        assert raw.ask(CREATE_TOPICS, 4, {"topics": [wanted]})["topics"][0]["error_code"] == 0
    assert len(admin.list_topics(name).topics[name].partitions) == 2


def test_topics_are_listed_with_their_partitions(admin, name):
    admin.create_topics([NewTopic(name, 4)])[name].result()
    found = admin.list_topics()
    assert found.cluster_id == "seglog"
    assert [one.id for one in found.brokers.values()] == [1]
    assert sorted(found.topics[name].partitions) == [0, 1, 2, 3]
    assert found.topics[name].partitions[3].leader == 1
    assert admin.describe_cluster().result().controller.id == 1


def test_the_cluster_is_described_to_kafka_python(kafka):
    found = kafka_python.KafkaAdminClient(bootstrap_servers=kafka.address)
    described = found.describe_cluster()
    found.close()
    assert (described["cluster_id"], described["controller_id"]) == ("seglog", 1)
    assert [one["broker_id"] for one in described["brokers"]] == [1]


def test_the_broker_says_that_it_is_no_controller(kafka):
    with kafka.connection() as raw:
        wanted = {"include_cluster_authorized_operations": False}
        assert raw.ask(DESCRIBE_CLUSTER, 2, wanted | {"endpoint_type": 2})["error_code"] == MISMATCHED_ENDPOINT_TYPE
        assert raw.ask(DESCRIBE_CLUSTER, 2, wanted | {"endpoint_type": 3})["error_code"] == UNSUPPORTED_ENDPOINT_TYPE


def test_the_broker_describes_itself(admin):
    resource = ConfigResource(ResourceType.BROKER, "1")
    found = admin.describe_configs([resource])[resource].result()
    assert found["auto.create.topics.enable"].value == "true"
    assert re.fullmatch(r"PLAINTEXT://127\.0\.0\.1:\d+", found["advertised.listeners"].value)
    assert found["log.cleaner.backoff.ms"].value == "15000"
    assert found["log.segment.bytes"].value == str(LogConfig().segment_bytes)
    assert {one.is_read_only for one in found.values()} == {True}
    absent = ConfigResource(ResourceType.TOPIC, "absent")
    assert code_of(admin.describe_configs([absent])[absent]) == KafkaError.UNKNOWN_TOPIC_OR_PART


def test_no_config_of_the_broker_is_altered(kafka, admin):
    entry = ConfigEntry("log.cleaner.backoff.ms", "1", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    with pytest.raises(KafkaException, match="options of `seglog serve`") as caught:
        admin.incremental_alter_configs([resource])[resource].result()
    assert caught.value.args[0].code() == KafkaError.INVALID_CONFIG
    resource = {"resource_type": 4, "resource_name": "1", "configs": []}
    with kafka.connection() as raw:
        [found] = raw.ask(ALTER_CONFIGS, 1, {"resources": [resource], "validate_only": True})["responses"]
    assert found["error_code"] == KafkaError.INVALID_CONFIG


def test_the_other_admin_clients_create_and_delete(kafka, name):
    client = kafka_python.KafkaAdminClient(bootstrap_servers=kafka.address)
    client.create_topics([kafka_python.admin.NewTopic(f"{name}-1", 2, 1)])
    assert f"{name}-1" in client.list_topics()
    client.delete_topics([f"{name}-1"])
    client.close()

    async def use():
        client = AIOKafkaAdminClient(bootstrap_servers=kafka.address)
        await client.start()
        await client.create_topics([AioTopic(f"{name}-2", 2, 1)])
        assert f"{name}-2" in await client.list_topics()
        await client.delete_topics([f"{name}-2"])
        await client.close()

    asyncio.run(use())


def test_topics_are_created_by_use_only_if_the_server_allows_it(own_kafka, name):
    kafka = own_kafka("--kafka-partitions", "0")
    with pytest.raises(KafkaException) as caught:
        Confluent(kafka.address, **{"topic.metadata.propagation.max.ms": 0}).produce(name, [Sent(b"v")])
    assert caught.value.args[0].code() in (KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC)
