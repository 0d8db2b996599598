"""What a request is answered while the server has no memory for its answer, or no thread: what clients repeat."""

from __future__ import annotations

import asyncio
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from seglog.errors import Busy
from seglog.kafka import codes
from seglog.kafka.messages.admin import (
    DESCRIBE_CONFIGS,
    DESCRIBE_LOG_DIRS,
    DESCRIBE_TOPIC_PARTITIONS,
    LIST_CONFIG_RESOURCES,
)
from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from seglog.kafka.messages.core import FETCH, METADATA
from seglog.kafka.messages.groups import DESCRIBE_GROUPS, JOIN_GROUP, LIST_GROUPS, OFFSET_COMMIT, OFFSET_FETCH
from seglog.kafka.messages.producers import DESCRIBE_PRODUCERS
from seglog.kafka.messages.transactions import DESCRIBE_TRANSACTIONS, LIST_TRANSACTIONS
from seglog.kafka.requests.call import Call
from seglog.kafka.wire.buffers import Reader
from seglog.server.runtime.workers import Workers
from seglog.testing.kafka import KafkaBroker
from tests.kafka.conftest import Raw, connected
from tests.kafka.test_busy_coordinator import busy_after
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ID = "0" * 31 + "1"
MINUTE = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
JOIN = {"group_id": "classic", "member_id": "", "protocol_type": "consumer", **MINUTE}
JOIN |= {"protocols": [{"name": "range", "metadata": b""}]}
BEAT = {"group_id": "new", "member_id": "m", "member_epoch": 0, "rebalance_timeout_ms": 60_000}
BEAT |= {"subscribed_topic_names": ["t"], "topic_partitions": []}
TOPIC = {"topics": [{"name": None, "topic_id": ID}], "allow_auto_topic_creation": False}
PART = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}
READ = {"max_wait_ms": 0, "min_bytes": 0, "topics": [{"topic_id": ID, "partitions": [PART]}]}
OFFSET = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
COMMIT = {"group_id": "g", "topics": [{"topic_id": ID, "partitions": [OFFSET]}]}
COMMIT |= {"generation_id_or_member_epoch": -1, "generation_id": -1, "member_id": ""}
CONFIG = {"resources": [{"resource_type": 2, "resource_name": "t", "configuration_keys": None}]}
NAMED = {"topics": [{"name": "t"}], "allow_auto_topic_creation": False}
REQUESTS: list[tuple[Any, int, dict[str, Any], str, int]] = [
    (
        METADATA,
        4,
        {"topics": [{"name": "t"}], "allow_auto_topic_creation": False},
        "topics",
        codes.LEADER_NOT_AVAILABLE,
    ),
    (METADATA, 12, TOPIC, "topics", codes.LEADER_NOT_AVAILABLE),
    (FETCH, 13, READ, "", codes.REQUEST_TIMED_OUT),
    (DESCRIBE_CONFIGS, 1, CONFIG, "results", codes.REQUEST_TIMED_OUT),
    (LIST_CONFIG_RESOURCES, 1, {"resource_types": [2]}, "", codes.REQUEST_TIMED_OUT),
    (DESCRIBE_LOG_DIRS, 1, {"topics": None}, "results", codes.REQUEST_TIMED_OUT),
    (
        DESCRIBE_PRODUCERS,
        0,
        {"topics": [{"name": "t", "partition_indexes": [0]}]},
        "topics partitions",
        codes.REQUEST_TIMED_OUT,
    ),
    (JOIN_GROUP, 1, {**JOIN, "group_id": "other"}, "", codes.COORDINATOR_NOT_AVAILABLE),
    (LIST_GROUPS, 0, {}, "", codes.COORDINATOR_NOT_AVAILABLE),
    (DESCRIBE_GROUPS, 0, {"groups": ["classic"]}, "groups", codes.COORDINATOR_NOT_AVAILABLE),
    (CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": ["new"]}, "groups", codes.COORDINATOR_NOT_AVAILABLE),
    (LIST_TRANSACTIONS, 0, {"state_filters": [], "producer_id_filters": []}, "", codes.COORDINATOR_NOT_AVAILABLE),
    (
        DESCRIBE_TRANSACTIONS,
        0,
        {"transactional_ids": ["x"]},
        "transaction_states",
        codes.COORDINATOR_NOT_AVAILABLE,
    ),
    (OFFSET_COMMIT, 10, COMMIT, "topics partitions", codes.COORDINATOR_NOT_AVAILABLE),
    (
        OFFSET_FETCH,
        1,
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]},
        "topics partitions",
        codes.COORDINATOR_LOAD_IN_PROGRESS,
    ),
    (
        OFFSET_FETCH,
        2,
        {"group_id": "g", "topics": [{"name": "t", "partition_indexes": [0]}]},
        "",
        codes.COORDINATOR_LOAD_IN_PROGRESS,
    ),
    (
        OFFSET_FETCH,
        10,
        {"groups": [{"group_id": "g", "topics": [{"topic_id": ID, "partition_indexes": [0]}]}]},
        "groups",
        codes.COORDINATOR_LOAD_IN_PROGRESS,
    ),
]


@pytest.mark.parametrize(
    ("api", "version", "values", "path", "code"), REQUESTS, ids=[f"{one[0].name} {one[1]}" for one in REQUESTS]
)
def test_a_client_without_room_for_its_answer_keeps_its_connection_and_is_told_to_ask_again(
    monkeypatch: pytest.MonkeyPatch, api: Any, version: int, values: dict[str, Any], path: str, code: int
) -> None:
    async def refuse(*_: object) -> None:
        raise Busy("no memory")

    with KafkaBroker() as kafka:
        kafka.broker.create_topic("t")
        with connected(kafka.address) as raw:
            assert raw.ask(JOIN_GROUP, 1, JOIN)["error_code"] == codes.NONE
            assert raw.ask(CONSUMER_GROUP_HEARTBEAT, 1, BEAT)["error_code"] == codes.NONE
            with monkeypatch.context() as patched:
                patched.setattr(Call, "room", refuse)
                patched.setattr(Call, "name_of", refuse)
                patched.setattr(Workers, "run_when_free", refuse)
                found = code_in(raw, api, version, values, path)
            assert found == code
            assert code_in(raw, api, version, values, path) != code


def code_in(raw: Raw, api: Any, version: int, values: dict[str, Any], path: str) -> int:
    """Return the first error code of an answer. path: the lists that have it."""
    answer = raw.ask(api, version, values)
    for name in path.split():
        answer = answer[name][0]
    found: int = answer["error_code"]
    return found


def test_the_sizes_of_partitions_are_all_or_an_error_whenever_the_threads_get_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found, values = [], {"topics": None}
    with KafkaBroker() as kafka, connected(kafka.address) as raw:
        kafka.broker.create_topic("t")
        for calls in range(3):
            with monkeypatch.context() as patched:
                busy_after(patched, calls, "read")
                answer = raw.ask(DESCRIBE_LOG_DIRS, 3, values)
            found.append((answer["error_code"], len(answer["results"][0]["topics"])))
    assert found == [(codes.REQUEST_TIMED_OUT, 0)] * 2 + [(codes.NONE, 1)]


@contextmanager
def all_threads_read(kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], object]]:
    """Have as many calls read as may wait for a thread, until what this gives is called."""
    reads, ended = kafka._services.reads, threading.Event()
    monkeypatch.setattr(reads, "_most", 1)
    asyncio.run_coroutine_threadsafe(reads.run(lambda: ended.wait(HANG_SECONDS)), kafka._loop)
    until(lambda: reads.busy)
    try:
        yield ended.set
    finally:
        ended.set()


@pytest.mark.parametrize(
    ("api", "version", "values", "listed"),
    [
        (METADATA, 9, {"topics": None}, "topics"),
        (DESCRIBE_TOPIC_PARTITIONS, 0, {"topics": [], "response_partition_limit": 10, "cursor": None}, "topics"),
        (LIST_CONFIG_RESOURCES, 1, {"resource_types": [2]}, "config_resources"),
    ],
    ids=lambda one: getattr(one, "name", None),
)
def test_a_client_that_lists_all_topics_while_all_threads_are_busy_gets_them_when_one_is_free(
    monkeypatch: pytest.MonkeyPatch, api: Any, version: int, values: dict[str, Any], listed: str
) -> None:
    with KafkaBroker() as kafka:
        kafka.broker.create_topic("t")
        with connected(kafka.address) as raw, all_threads_read(kafka, monkeypatch) as end:
            form = api.form(version)
            raw.send(api, version, values)
            until(lambda: [one.sender.requests for one in kafka._listener._connections] == [1])
            end()
            answer = api.response.read(Reader(raw.response()[4 + form.flexible :]), form)
    assert len(answer[listed]) == 1
