"""Groups over Kafka's protocol have the rights of HTTP: who may use one, who may know of it, who may delete it."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from seglog.kafka import codes
from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from seglog.kafka.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from seglog.kafka.messages.security import SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.kafka.test_security import tokens_in
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.kafka.conftest import Raw

PROTOCOLS = [{"name": "range", "metadata": bytes(10)}]
TIMES = dict.fromkeys(("session_timeout_ms", "rebalance_timeout_ms"), 1000 * HANG_SECONDS)
JOINED = {"protocol_type": "consumer", "protocols": PROTOCOLS, **TIMES}
PLACE = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
COMMIT = {"topics": [{"name": "default", "partitions": [PLACE]}]}


@pytest.fixture
def asked_by(own_kafka, tmp_path):
    """asked_by("reader") gives a connection of a token."""
    tokens = tokens_in(
        tmp_path / "tokens.json",
        ops=({"*": ["admin"]}, ()),
        reader=({"default": ["read"]}, ()),
        stranger=({"other": ["read"]}, ()),
    )
    server = own_kafka("--tokens", str(tmp_path / "tokens.json"))

    @contextmanager
    def connected(name: str) -> Iterator[Raw]:
        with server.connection() as raw:
            assert raw.ask(SASL_HANDSHAKE, 1, {"mechanism": "PLAIN"})["error_code"] == 0
            said = f"\0{name}\0{tokens[name]}".encode()
            assert raw.ask(SASL_AUTHENTICATE, 1, {"auth_bytes": said})["error_code"] == 0
            yield raw

    with connected("ops") as raw:
        who = {"group_id": "audit", "generation_id": -1, "member_id": ""}
        found = raw.ask(OFFSET_COMMIT, 2, {**who, **COMMIT})
        assert found["topics"][0]["partitions"][0]["error_code"] == codes.NONE
    return connected


def test_only_an_administrator_of_its_topics_deletes_a_group(asked_by):
    codes_of = {}
    for name in ("stranger", "reader", "ops"):
        with asked_by(name) as raw:
            codes_of[name] = raw.ask(DELETE_GROUPS, 0, {"groups_names": ["audit"]})["results"][0]["error_code"]
    expected = [codes.GROUP_ID_NOT_FOUND, codes.GROUP_AUTHORIZATION_FAILED, codes.NONE]
    assert codes_of == dict(zip(("stranger", "reader", "ops"), expected, strict=True))


def test_a_group_of_hidden_topics_looks_as_if_it_did_not_exist(asked_by):
    with asked_by("stranger") as raw:
        assert raw.ask(LIST_GROUPS, 0, {})["groups"] == []
        for name in ("audit", "absent"):
            [found] = raw.ask(DESCRIBE_GROUPS, 0, {"groups": [name]})["groups"]
            assert (found["error_code"], found["group_state"]) == (codes.NONE, "Dead")
            asked = {"group_id": name, "topics": None}
            found = raw.ask(OFFSET_FETCH, 2, asked)
            assert (found["error_code"], list(found["topics"])) == (codes.NONE, [])
    with asked_by("reader") as raw:
        assert [one["group_id"] for one in raw.ask(LIST_GROUPS, 0, {})["groups"]] == ["audit"]


def test_who_may_not_use_a_group_removes_no_static_member(asked_by):
    member = {"group_id": "audit", "member_id": "", "group_instance_id": "one", **JOINED}
    leaving = {"group_id": "audit", "members": [{"member_id": "", "group_instance_id": "one"}]}
    with asked_by("ops") as ops, asked_by("stranger") as stranger:
        assert ops.ask(JOIN_GROUP, 5, member)["error_code"] == codes.NONE
        [left] = stranger.ask(LEAVE_GROUP, 3, leaving)["members"]
        assert left["error_code"] == codes.UNKNOWN_MEMBER_ID
        [left] = ops.ask(LEAVE_GROUP, 3, leaving)["members"]
        assert left["error_code"] == codes.NONE


def test_a_member_subscribes_only_to_topics_that_its_token_may_read(asked_by):
    first = {"member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 1000, "topic_partitions": []}

    def joined(raw, group, **values):
        found = raw.ask(CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": group, **first, **values})
        places = [one["partitions"] for one in (found["assignment"] or {"topic_partitions": []})["topic_partitions"]]
        return found["error_code"], places

    with asked_by("stranger") as raw:
        assert joined(raw, "mine", subscribed_topic_names=["default"]) == (codes.TOPIC_AUTHORIZATION_FAILED, [])
        assert joined(raw, "mine", subscribed_topic_regex=".*") == (codes.NONE, [])
        assert joined(raw, "audit", subscribed_topic_regex=".*") == (codes.GROUP_AUTHORIZATION_FAILED, [])
    with asked_by("reader") as raw:
        assert joined(raw, "audit", subscribed_topic_regex=".*") == (codes.NONE, [[0]])
        assert raw.ask(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["audit"]})["groups"][0]["group_state"] == "Stable"
    with asked_by("stranger") as raw:
        hidden = raw.ask(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": ["audit"]})["groups"][0]
        assert (hidden["error_code"], hidden["members"]) == (codes.GROUP_ID_NOT_FOUND, [])
        removed = [{"member_id": "m", "group_instance_id": None}]
        left = raw.ask(LEAVE_GROUP, 3, {"group_id": "audit", "members": removed})
        assert left["members"][0]["error_code"] == codes.UNKNOWN_MEMBER_ID
