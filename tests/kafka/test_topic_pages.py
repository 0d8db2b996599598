"""DescribeTopicPartitions and ListConfigResources: what admin clients list, in pages and with rights."""

from __future__ import annotations

import subprocess

import pytest

import kafka as kafka_python
from seglog.client import Client
from seglog.kafka import codes
from seglog.kafka.messages.admin import DESCRIBE_TOPIC_PARTITIONS, LIST_CONFIG_RESOURCES
from seglog.kafka.messages.core import METADATA
from seglog.kafka.messages.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.kafka.programs_run import java
from tests.kafka.test_security import tokens_in


@pytest.fixture
def topics(own_kafka):
    """A server with the topics a (1 partition), b (3) and c (2)."""
    server = own_kafka("--kafka-partitions", "1")
    with Client(server.url) as http:
        for name, partitions in (("b", 3), ("c", 2), ("a", 1)):
            http.create_topic(name, partitions=partitions)
        http.delete_topic("default")
    return server


def page(kafka, *names, limit=2000, cursor=None):
    wanted = {"topics": [{"name": name} for name in names], "response_partition_limit": limit}
    at = None if cursor is None else {"topic_name": cursor[0], "partition_index": cursor[1]}
    with kafka.connection() as raw:
        return raw.ask(DESCRIBE_TOPIC_PARTITIONS, 0, {**wanted, "cursor": at})


def numbers(found):
    return [(one["name"], [each["partition_index"] for each in one["partitions"]]) for one in found["topics"]]


def following(found):
    cursor = found["next_cursor"]
    return None if cursor is None else (cursor["topic_name"], cursor["partition_index"])


@pytest.mark.parametrize("limit", [0, 1, 2, 3, 4, 6, 2000])
def test_pages_have_every_partition_once_in_order(topics, limit):
    found, cursor = [], None
    while True:
        one = page(topics, limit=limit, cursor=cursor)
        found += [(name, number) for name, partitions in numbers(one) for number in partitions]
        assert sum(len(partitions) for _, partitions in numbers(one)) <= max(limit, 1)
        cursor = following(one)
        if cursor is None:
            break
    assert found == [("a", 0), ("b", 0), ("b", 1), ("b", 2), ("c", 0), ("c", 1)]


def test_topics_that_do_not_exist_count_as_partitions_of_a_page(topics):
    found = page(topics, "a", "nope 1", "nope2", "nope3", limit=2)
    assert [name for name, _ in numbers(found)] == ["a", "nope 1"]
    assert following(found) == ("nope2", 0)


def test_a_page_ends_at_a_topic_if_it_is_full(topics):
    found = page(topics, "c", "b", limit=3)
    assert numbers(found) == [("b", [0, 1, 2])]
    assert following(found) == ("c", 0)
    assert numbers(page(topics, "c", "b", cursor=("b", 2))) == [("b", [2]), ("c", [0, 1])]
    assert numbers(page(topics, cursor=("b2", 1))) == [("c", [0, 1])]


def test_a_topic_is_described_as_by_metadata(topics):
    [found] = page(topics, "b")["topics"]
    with topics.connection() as raw:
        wanted = {"topics": [{"name": "b"}], "include_topic_authorized_operations": True}
        [other] = raw.ask(METADATA, 12, wanted)["topics"]
    ours = {"eligible_leader_replicas": [], "last_known_elr": []}
    assert found == {**other, "partitions": [{**one, **ours} for one in other["partitions"]]}


def test_missing_topics_are_reported_and_not_created(topics):
    found = page(topics, "missing", "no name")["topics"]
    assert [(one["name"], one["error_code"]) for one in found] == [
        ("missing", codes.UNKNOWN_TOPIC_OR_PARTITION),
        ("no name", codes.INVALID_TOPIC),
    ]
    assert [name for name, _ in numbers(page(topics))] == ["a", "b", "c"]


@pytest.mark.parametrize("cursor", [("a", 0), ("b", -1)])
def test_a_cursor_of_no_named_topic_is_refused(topics, cursor):
    found = page(topics, "b", cursor=cursor)["topics"]
    assert [(one["name"], one["error_code"]) for one in found] == [("b", codes.INVALID_REQUEST)]


def test_kafka_python_lists_what_has_configs(topics):
    client = kafka_python.KafkaAdminClient(bootstrap_servers=topics.address)
    assert client.list_config_resources() == {"topic": ["a", "b", "c"], "broker": ["1"]}
    assert client.list_config_resources(["BROKER", "GROUP"]) == {"broker": ["1"]}
    assert [len(one["partitions"]) for one in client.describe_topic_partitions(["a", "b"])["topics"]] == [1, 3]
    client.close()


def test_the_first_version_lists_only_metrics_of_clients_and_unknown_kinds_are_refused(topics):
    with topics.connection() as raw:
        assert raw.ask(LIST_CONFIG_RESOURCES, 0, {})["config_resources"] == []
        found = raw.ask(LIST_CONFIG_RESOURCES, 1, {"resource_types": [2, 3]})
    assert (found["error_code"], found["config_resources"]) == (codes.UNSUPPORTED_VERSION, [])


def test_a_token_sees_only_topics_on_which_it_has_a_right(own_kafka, tmp_path):
    tokens = tokens_in(tmp_path / "tokens.json", reader=({"mine": ["read"]}, ()), ops=({"*": ["admin"]}, ()))
    server = own_kafka("--tokens", str(tmp_path / "tokens.json"))
    with Client(server.url, token=tokens["ops"]) as http:
        for name in ("mine", "others"):
            http.create_topic(name)
    with server.connection() as raw:
        raw.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})
        raw.ask(SASL_AUTHENTICATE, 1, {"auth_bytes": f"\0reader\0{tokens['reader']}".encode()})
        every = raw.ask(DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": []})
        named = raw.ask(DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [{"name": "others"}]})
        listed = raw.ask(LIST_CONFIG_RESOURCES, 1, {"resource_types": [2]})
    assert [name for name, _ in numbers(every)] == ["mine"]
    assert named["topics"][0]["error_code"] == codes.TOPIC_AUTHORIZATION_FAILED
    assert [one["resource_name"] for one in listed["config_resources"]] == ["mine"]


@pytest.mark.deep
def test_kafkas_own_tool_describes_topics(topics):
    tool = ("org.apache.kafka.tools.TopicCommand", "--bootstrap-server", topics.address)
    said = java(*tool, "--describe")
    assert [line.split()[1] for line in said.splitlines() if line.startswith("Topic:")] == ["a", "b", "c"]
    assert said.count("Leader: 1") == 6
    with pytest.raises((OSError, subprocess.SubprocessError), match="does not exist as expected"):
        java(*tool, "--describe", "--topic", "missing")
