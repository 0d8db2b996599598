"""What operators see over Kafka's protocol: transactions that are open, and the sizes of partitions."""

from __future__ import annotations

from contextlib import closing

import pytest
from confluent_kafka import ElectionType, TopicCollection, TopicPartition
from confluent_kafka import KafkaError as ConfluentError
from confluent_kafka.admin import AdminClient, OffsetSpec
from kafka.errors import ClusterAuthorizationFailedError, KafkaError

import kafka as kafka_python
from seglog.kafka import codes
from seglog.kafka.messages.admin import DESCRIBE_CONFIGS, ELECT_LEADERS, UPDATE_FEATURES
from seglog.kafka.messages.producers import DESCRIBE_PRODUCERS
from seglog.kafka.requests import operations, producers
from seglog.server.rights.access import Caller
from seglog.testing.kafka import KafkaBroker
from tests.kafka.clients import Confluent, Sent
from tests.kafka.conftest import connected
from tests.kafka.test_security import tokens_in
from tests.kafka.transactional import TransactionalConfluent
from tests.waiting import HANG_SECONDS


def admin_of(address, **options):
    return closing(kafka_python.KafkaAdminClient(bootstrap_servers=address, **options))


def listed(admin, **wanted):
    return {
        one.transactional_id: str(one.state.value)
        for each in admin.list_transactions(**wanted).values()
        for one in each
    }


def test_operators_see_the_states_of_transactions(kafka, topic, name):
    unknown = f"{name}-absent"
    with TransactionalConfluent(kafka.address, name) as producer, admin_of(kafka.address) as admin:
        assert listed(admin)[name] == "Empty"
        producer.begin()
        for partition in (0, 1):
            producer.send(topic, b"v", partition)
        producer.flush()
        assert listed(admin, state_filters=["Ongoing"])[name] == "Ongoing"
        found = admin.describe_transactions([name])[name]
        assert {(one.topic, one.partition) for one in found.topic_partitions} == {(topic, 0), (topic, 1)}
        assert (found.state.value, found.producer_epoch, found.transaction_timeout_ms) == (
            "Ongoing",
            0,
            1000 * HANG_SECONDS,
        )
        assert found.transaction_start_time_ms > 0
        assert name not in listed(admin, producer_id_filters=[found.producer_id + 1])
        producer.end(commit=True)
        assert listed(admin, producer_id_filters=[found.producer_id]) == {name: "CompleteCommit"}
        ended = admin.describe_transactions([name])[name]
        assert (ended.topic_partitions, ended.transaction_start_time_ms) == (set(), -1)
        with pytest.raises(KafkaError, match=unknown):
            admin.describe_transactions([unknown])


def test_the_sizes_of_partitions_and_the_free_space_are_described(kafka, topic):
    Confluent(kafka.address).produce(topic, [Sent(b"v" * 1000)], partition=1)
    with admin_of(kafka.address) as admin:
        [broker] = admin.describe_log_dirs()
    [found] = broker["log_dirs"]
    assert (broker["broker"], found["log_dir"], found["error_code"]) == (1, str(kafka.root), 0)
    assert found["usable_bytes"] > 0
    [shown] = [one for one in found["topics"] if one["name"] == topic]
    sizes = {one["partition_index"]: one["partition_size"] for one in shown["partitions"]}
    assert sizes[0] < 1000  # the head of an empty segment
    assert 1000 < sizes[1] < 2000


def test_the_record_with_the_highest_timestamp_is_found_and_none_in_an_empty_partition(kafka, topic):
    minute = 60_000
    times = [1_700_000_000_000 + late * minute for late in (0, 5, 5, 3)]
    Confluent(kafka.address).produce(topic, [Sent(b"%d" % one, timestamp=one) for one in times], partition=0)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    places = {TopicPartition(topic, number): OffsetSpec.max_timestamp() for number in (0, 1)}
    found = {place.partition: future.result() for place, future in admin.list_offsets(places).items()}
    assert (found[0].offset, found[0].timestamp) == (1, times[1])
    assert found[1].offset == -1


def test_the_idempotent_producers_of_a_partition_are_described(kafka, topic):
    places = [kafka_python.TopicPartition(topic, number) for number in (0, 1)]
    idempotent = {"enable.idempotence": True}
    Confluent(kafka.address).produce(topic, [Sent(b"v", timestamp=5000), Sent(b"w", timestamp=7000)], **idempotent)
    with admin_of(kafka.address) as admin:
        found = admin.describe_producers(places)
        [known] = found[places[0]].active_producers
        assert (known.producer_epoch, known.last_sequence, known.last_timestamp) == (0, 1, 7000)
        assert known.producer_id > 0
        assert known.current_transaction_start_offset == -1
        assert found[places[1]].active_producers == []
        with pytest.raises(KafkaError, match="no partition 9"):
            admin.describe_producers([kafka_python.TopicPartition(topic, 9)], broker_id=1)


def test_the_producers_of_transactions_are_described_while_these_are_open_and_afterwards(kafka, topic, name):
    with admin_of(kafka.address) as admin, TransactionalConfluent(kafka.address, name) as producer:
        place = kafka_python.TopicPartition(topic, 0)
        for last, commits in ((0, True), (1, False)):
            producer.begin()
            producer.send(topic, b"v", 0)
            producer.flush()
            [open_one] = admin.describe_producers([place])[place].active_producers
            assert (open_one.last_sequence, open_one.current_transaction_start_offset) == (last, -1)
            assert open_one.producer_id == admin.describe_transactions([name])[name].producer_id
            producer.end(commit=commits)
            assert admin.describe_producers([place])[place].active_producers == [open_one]


def test_producers_are_known_after_a_restart_without_the_time_of_their_batch(own_kafka, name):
    kafka = own_kafka()
    Confluent(kafka.address).produce(name, [Sent(b"v"), Sent(b"w")], **{"enable.idempotence": True})
    asked = {"topics": [{"name": name, "partition_indexes": [0]}]}

    def known():
        with kafka.connection() as raw:
            [partition] = raw.ask(DESCRIBE_PRODUCERS, 0, asked)["topics"][0]["partitions"]
        return partition["active_producers"]

    [before] = known()
    kafka.kill()
    kafka.start()
    assert known() == [{**before, "last_timestamp": -1}]


def test_a_response_has_a_limited_number_of_producers(name, monkeypatch):
    with KafkaBroker() as embedded:
        client = Confluent(embedded.address)
        for partition in (0, 1):
            embedded.broker.create_topic(f"{name}-{partition}")
            for _ in range(2):
                client.produce(f"{name}-{partition}", [Sent(b"v")], **{"enable.idempotence": True})
        monkeypatch.setattr(producers, "MOST_DESCRIBED", 3)
        asked = {"topics": [{"name": f"{name}-{number}", "partition_indexes": [0, 0]} for number in (0, 1)]}
        with connected(embedded.address) as raw:
            found = [each for one in raw.ask(DESCRIBE_PRODUCERS, 0, asked)["topics"] for each in one["partitions"]]
    assert [(len(one["active_producers"]), one["error_code"]) for one in found] == [(2, 0), (0, 44)]


def test_no_leader_is_elected_as_every_partition_has_the_one_broker(kafka, topic):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    places = [TopicPartition(topic, 0), TopicPartition(topic, 9), TopicPartition(f"{topic}-absent", 0)]
    found = admin.elect_leaders(ElectionType.PREFERRED, places).result()
    refused = {place.partition: error.code() for place, error in found.items() if place.topic == topic}
    assert refused == {0: ConfluentError.ELECTION_NOT_NEEDED, 9: ConfluentError.UNKNOWN_TOPIC_OR_PART}
    assert found[places[2]].code() == ConfluentError.UNKNOWN_TOPIC_OR_PART
    with kafka.connection() as raw:
        assert raw.ask(ELECT_LEADERS, 1, {"topic_partitions": None})["replica_election_results"] == []
        assert raw.ask(ELECT_LEADERS, 2, {"topic_partitions": None, "election_type": 2})["error_code"] == 42


def test_the_features_of_the_server_are_listed_and_stay_as_they_are(kafka):
    with admin_of(kafka.address) as admin:
        found = admin.describe_features()
        assert found == {"group.version": {"supported": (1, 1), "finalized": (1, 1), "finalized_epoch": 0}}
        assert admin.update_features({"group.version": 1}) == {"group.version": "OK"}
        for changes in ({"group.version": 2}, {"no.such.feature": 1}, {"group.version": ("UNSAFE_DOWNGRADE", 0)}):
            with pytest.raises(KafkaError):
                admin.update_features(changes)
    updates = [{"feature": name, "max_version_level": 1} for name in ("group.version", "transaction.version")]
    with kafka.connection() as raw:
        for version in (0, 1, 2):
            found = raw.ask(UPDATE_FEATURES, version, {"feature_updates": updates})
            assert found["error_code"] == codes.INVALID_UPDATE_VERSION
            assert "transaction.version" in found["error_message"]
        found = raw.ask(UPDATE_FEATURES, 1, {"feature_updates": updates[:1]})
        assert [(one["feature"], one["error_code"]) for one in found["results"]] == [("group.version", 0)]


def test_only_an_administrator_may_ask_for_another_version_of_a_feature(own_kafka, tmp_path):
    tokens = tokens_in(tmp_path / "tokens.json", one=({"a": ["admin"]}, ()))
    server = own_kafka("--tokens", str(tmp_path / "tokens.json"))
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": "one"}
    with (
        admin_of(server.address, **given, sasl_plain_password=tokens["one"]) as admin,
        pytest.raises(ClusterAuthorizationFailedError),
    ):
        admin.update_features({"group.version": 1})


def test_a_client_that_asks_is_told_what_it_may_do(kafka, topic):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    every = {"ALTER", "ALTER_CONFIGS", "CREATE", "DESCRIBE", "DESCRIBE_CONFIGS"}
    cluster = admin.describe_cluster(include_authorized_operations=True).result()
    assert {one.name for one in cluster.authorized_operations} == every | {"CLUSTER_ACTION", "IDEMPOTENT_WRITE"}
    described = admin.describe_topics(TopicCollection([topic]), include_authorized_operations=True)[topic].result()
    assert {one.name for one in described.authorized_operations} == every | {"DELETE", "READ", "WRITE"}
    assert not admin.describe_cluster().result().authorized_operations


def test_the_rights_of_a_token_are_shown_as_operations():
    reader = Caller("reader", {"a": frozenset({"read"})}, ())
    assert operations.on_topic(reader, "a") == 1 << operations.READ | 1 << operations.DESCRIBE | 1 << 10
    assert not operations.on_cluster(reader) & (1 << operations.ALTER)


@pytest.mark.parametrize("kind", ["broker", "topic"])
def test_each_config_is_documented_for_tools_that_ask(kafka, topic, kind):
    resource = {"resource_type": 4 if kind == "broker" else 2, "resource_name": "1" if kind == "broker" else topic}
    asked = {"resources": [{**resource, "configuration_keys": None}], "include_synonyms": False}
    with kafka.connection() as raw:
        for wanted in (True, False):
            [found] = raw.ask(DESCRIBE_CONFIGS, 3, {**asked, "include_documentation": wanted})["results"]
            assert found["error_code"] == 0
            assert {bool(one["documentation"]) for one in found["configs"]} == {wanted}


def test_a_resource_that_is_named_very_often_is_described_once(kafka, topic):
    names = [(4, "1"), (2, topic), (4, ""), (2, topic)] * 2000
    wanted = [{"resource_type": kind, "resource_name": name, "configuration_keys": None} for kind, name in names]
    asked = {"resources": wanted, "include_synonyms": False, "include_documentation": False}
    with kafka.connection() as raw:
        found = raw.ask(DESCRIBE_CONFIGS, 3, asked)["results"]
    assert [(one["resource_type"], one["resource_name"]) for one in found] == [(4, "1"), (2, topic), (4, "")]
    assert all(one["configs"] for one in found)


def test_tokens_see_their_own_transactions_and_no_sizes(own_kafka, tmp_path):
    tokens = tokens_in(
        tmp_path / "tokens.json", ops=({"*": ["admin"]}, ()), one=({"a": ["write"]}, ()), other=({"a": ["write"]}, ())
    )
    server = own_kafka("--tokens", str(tmp_path / "tokens.json"))

    def options(name):
        given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_plain_username": name}
        return {**given, "sasl_plain_password": tokens[name]}

    producer = kafka_python.KafkaProducer(bootstrap_servers=server.address, transactional_id="x", **options("one"))
    producer.init_transactions()
    producer.close()
    for name, seen in {"ops": {"x"}, "one": {"x"}, "other": set()}.items():
        with admin_of(server.address, **options(name)) as admin:
            assert set(listed(admin)) == seen
            [broker] = admin.describe_log_dirs()
            assert bool(broker["log_dirs"]) == (name == "ops")
