"""Configs of groups and users of SCRAM: admin clients are answered with what this server does."""

from __future__ import annotations

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from seglog.kafka import codes
from seglog.kafka.groups.consumer_group import SESSION_SECONDS, STEADY_SECONDS
from seglog.kafka.messages.admin import DESCRIBE_CONFIGS, INCREMENTAL_ALTER_CONFIGS
from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from seglog.kafka.messages.security import DESCRIBE_USER_SCRAM_CREDENTIALS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.kafka.test_security import tokens_in

GROUP = 32
SESSION = "consumer.session.timeout.ms"


def described(kafka, name):
    wanted = [{"resource_type": GROUP, "resource_name": name, "configuration_keys": None}]
    with kafka.connection() as raw:
        [found] = raw.ask(DESCRIBE_CONFIGS, 3, {"resources": wanted, "include_documentation": True})["results"]
    return found


def test_a_group_that_need_not_exist_has_the_configs_of_all(kafka, name):
    found = {one["name"]: one for one in described(kafka, name)["configs"]}
    assert {each: int(one["value"]) / 1000 for each, one in found.items()} == {
        "consumer.heartbeat.interval.ms": STEADY_SECONDS,
        SESSION: SESSION_SECONDS,
    }
    assert all(one["read_only"] and one["documentation"] for one in found.values())


def test_members_are_told_the_interval_that_is_described(kafka, name, topic):
    beat = {"group_id": name, "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000}
    with kafka.connection() as raw:
        found = raw.ask(
            CONSUMER_GROUP_HEARTBEAT, 1, {**beat, "subscribed_topic_names": [topic], "topic_partitions": []}
        )
    shown = {one["name"]: one["value"] for one in described(kafka, name)["configs"]}
    assert (found["error_code"], str(found["heartbeat_interval_ms"])) == (0, shown["consumer.heartbeat.interval.ms"])


def test_a_name_that_no_group_can_have_is_refused(kafka):
    assert described(kafka, "")["error_code"] == codes.INVALID_CONFIG


def test_the_configs_of_a_group_cannot_be_altered(kafka, name):
    change = {"name": SESSION, "config_operation": 0, "value": "50000"}
    resource = {"resource_type": GROUP, "resource_name": name, "configs": [change]}
    with kafka.connection() as raw:
        values = {"resources": [resource], "validate_only": False}
        [found] = raw.ask(INCREMENTAL_ALTER_CONFIGS, 0, values)["responses"]
    assert found["error_code"] == codes.INVALID_CONFIG
    assert "cannot be altered" in found["error_message"]


def test_no_user_has_credentials_of_scram(kafka):
    admin = AdminClient({"bootstrap.servers": kafka.address})
    assert admin.describe_user_scram_credentials().result() == {}
    with pytest.raises(KafkaException) as caught:
        admin.describe_user_scram_credentials(["ann"])["ann"].result()
    assert caught.value.args[0].code() == KafkaError.RESOURCE_NOT_FOUND


def test_a_user_that_is_named_twice_is_reported_once(kafka):
    with kafka.connection() as raw:
        users = [{"name": one} for one in ("ann", "bo", "ann")]
        found = raw.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": users})["results"]
    assert [(one["user"], one["error_code"]) for one in found] == [
        ("ann", codes.DUPLICATE_RESOURCE),
        ("bo", codes.RESOURCE_NOT_FOUND),
    ]


def test_very_many_users_take_no_time_that_grows_with_their_square(kafka):
    users = [{"name": f"user {number}"} for number in range(50_000)]  # a minute and more, if each is counted in all
    with kafka.connection() as raw:
        found = raw.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": users})["results"]
    assert [one["user"] for one in found] == [one["name"] for one in users]


def test_only_an_administrator_of_everything_lists_users(own_kafka, tmp_path):
    tokens = tokens_in(tmp_path / "tokens.json", ops=({"*": ["admin"]}, ()), reader=({"*": ["read"]}, ()))
    server, found = own_kafka("--tokens", str(tmp_path / "tokens.json")), {}
    for user, token in tokens.items():
        with server.connection() as raw:
            raw.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
            raw.ask(SASL_AUTHENTICATE, 1, {"auth_bytes": f"\0{user}\0{token}".encode()})
            found[user] = raw.ask(DESCRIBE_USER_SCRAM_CREDENTIALS, 0, {"users": None})["error_code"]
    assert found == {"ops": codes.NONE, "reader": codes.CLUSTER_AUTHORIZATION_FAILED}
