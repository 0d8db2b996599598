"""What a request to a coordinator is answered while the server is at a limit: what clients repeat, or what is final."""

from __future__ import annotations

import pytest

from seglog import MemoryStorage
from seglog.errors import Busy
from seglog.kafka import codes
from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_HEARTBEAT
from seglog.kafka.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    JOIN_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_FETCH,
)
from seglog.kafka.messages.producers import INIT_PRODUCER_ID
from seglog.kafka.messages.transactions import ADD_OFFSETS_TO_TXN, TXN_OFFSET_COMMIT
from seglog.server.runtime.shares import ShareFull
from seglog.server.runtime.workers import Workers
from seglog.testing.kafka import KafkaBroker
from tests.kafka.test_shares import MALLORY, from_address

PART = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
TOPICS = [{"name": "t", "partitions": [PART]}]
OF_NO_MEMBER = {"group_id": "g", "generation_id": -1, "member_id": "", "retention_time_ms": -1}
TRANSACTION = {"transactional_id": "x", "transaction_timeout_ms": 60_000}


def first(answer):
    """Return the code of the only partition."""
    return answer["topics"][0]["partitions"][0]["error_code"]


def join(raw):
    timeouts = {"session_timeout_ms": 6000, "rebalance_timeout_ms": 6000}
    who = {"group_id": "g", "member_id": "", "protocol_type": "consumer", **timeouts}
    return raw.ask(JOIN_GROUP, 1, {**who, "protocols": [{"name": "range", "metadata": b""}]})["error_code"]


def beat(raw):
    sent = {"rebalance_timeout_ms": 6000, "subscribed_topic_names": ["t"], "topic_partitions": []}
    return raw.ask(CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": "g", "member_id": "m", "member_epoch": 0, **sent})


@pytest.fixture
def asked():
    """Give a connection, and the names of a transaction to which the group "g" was added."""
    with KafkaBroker(MemoryStorage()) as kafka:
        kafka.broker.create_topic("t")
        with from_address(kafka, MALLORY) as raw:
            found = raw.ask(INIT_PRODUCER_ID, 0, TRANSACTION)
            producer = {"producer_id": found["producer_id"], "producer_epoch": found["producer_epoch"]}
            begun = {"transactional_id": "x", "group_id": "g", **producer}
            assert raw.ask(ADD_OFFSETS_TO_TXN, 0, begun)["error_code"] == codes.NONE
            yield raw, begun


def answers(raw, begun):
    """Return the codes with which each request that needs the groups is answered."""
    return {
        "join": join(raw),
        "beat": beat(raw)["error_code"],
        "commit": first(raw.ask(OFFSET_COMMIT, 2, {**OF_NO_MEMBER, "topics": TOPICS})),
        "transaction": first(raw.ask(TXN_OFFSET_COMMIT, 0, {**begun, "topics": TOPICS})),
        "add": raw.ask(ADD_OFFSETS_TO_TXN, 0, begun)["error_code"],
        "delete": raw.ask(DELETE_GROUPS, 0, {"groups_names": ["g"]})["results"][0]["error_code"],
        "fetch": raw.ask(OFFSET_FETCH, 2, {"group_id": "g", "topics": None})["error_code"],
    }


def test_requests_are_repeated_while_all_threads_for_groups_are_busy(asked, monkeypatch):
    def count(workers):
        if workers.name == "group":
            raise Busy("64 group calls are running or waiting; retry in a moment")
        workers.busy += 1

    monkeypatch.setattr(Workers, "_count", count)
    found = answers(*asked)
    assert found.pop("fetch") == codes.COORDINATOR_LOAD_IN_PROGRESS  # the one that clients repeat it after
    assert set(found.values()) == {codes.COORDINATOR_NOT_AVAILABLE}


def busy_after(monkeypatch, calls, kind="group"):
    """Let a number of calls of a kind run, and no more."""
    run, left = Workers.run, [None] * calls

    async def counted(self, *given):
        if self.name == kind:
            if not left:
                raise Busy("64 calls are running or waiting; retry in a moment")
            left.pop()
        return await run(self, *given)

    monkeypatch.setattr(Workers, "run", counted)


@pytest.mark.parametrize(
    ("api", "values", "calls", "code"),
    [
        (LIST_GROUPS, {}, 3, codes.COORDINATOR_NOT_AVAILABLE),  # one for each group with members, and two for all
        (DESCRIBE_GROUPS, {"groups": ["kept"]}, 2, codes.COORDINATOR_NOT_AVAILABLE),
        (OFFSET_FETCH, {"group_id": "kept", "topics": None}, 2, codes.COORDINATOR_LOAD_IN_PROGRESS),
    ],
)
def test_what_is_shown_of_groups_is_all_or_an_error_whenever_the_threads_get_busy(
    asked, monkeypatch, api, values, calls, code
):
    raw, _ = asked
    assert join(raw) == codes.NONE
    kept = {**OF_NO_MEMBER, "group_id": "kept"}
    assert first(raw.ask(OFFSET_COMMIT, 2, {**kept, "topics": TOPICS})) == codes.NONE
    version = 2 if api is OFFSET_FETCH else 0
    found = []
    for number in range(calls + 1):
        with monkeypatch.context() as patched:
            busy_after(patched, number)
            answer = raw.ask(api, version, values)
        found.append((answer if "error_code" in answer else answer["groups"][0])["error_code"])
    assert found == [code] * calls + [codes.NONE]
    shown = {"groups": {"g", "kept"}} if api is LIST_GROUPS else {}
    assert {key: {one["group_id"] for one in answer[key]} for key in shown} == shown


def test_a_share_that_is_full_is_final(asked, monkeypatch):
    def refuse(*_):
        raise ShareFull("delete groups that are not used, or raise --memory")

    monkeypatch.setattr("seglog.server.runtime.kept_groups.KeptGroups._admit", refuse)
    monkeypatch.setattr("seglog.kafka.transactions.ids.Ids._new", refuse)
    raw, begun = asked
    assert first(raw.ask(OFFSET_COMMIT, 2, {**OF_NO_MEMBER, "topics": TOPICS})) == codes.POLICY_VIOLATION
    assert first(raw.ask(TXN_OFFSET_COMMIT, 0, {**begun, "topics": TOPICS})) == codes.POLICY_VIOLATION
    other = {**TRANSACTION, "transactional_id": "y"}
    assert raw.ask(INIT_PRODUCER_ID, 0, other)["error_code"] == codes.POLICY_VIOLATION
    monkeypatch.setattr("seglog.server.api.group_rights.admit", refuse)
    assert (join(raw), beat(raw)["error_code"]) == (codes.POLICY_VIOLATION, codes.POLICY_VIOLATION)
