"""What an operator sees of Kafka's clients: connections, groups with members, transactional ids; and who sees it."""

from __future__ import annotations

import asyncio
import struct
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog import errors
from seglog.client import Client
from seglog.kafka.groups.assigned import assigned
from seglog.kafka.messages.core import API_VERSIONS
from seglog.kafka.messages.groups import JOIN_GROUP, SYNC_GROUP
from seglog.server.overview import MOST_LISTED, MOST_TEXT
from tests.kafka.clients import Confluent, Sent
from tests.kafka.test_consumer_groups import member as new_member
from tests.kafka.test_groups import consumer
from tests.kafka.test_security import tokens_in
from tests.kafka.transactional import TransactionalConfluent
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.kafka.conftest import KafkaServer

LISTS = ("connections", "groups", "producers")


def every(client: Client, what: str, limit: int = 200) -> list[dict[str, Any]]:
    """All entries of a list, page by page."""
    found, after = [], None
    while True:
        page = getattr(client, f"kafka_{what}")(after=after, limit=limit)
        assert len(page["entries"]) <= limit
        found += page["entries"]
        after = page["after"]
        if after is None:
            return found


def test_a_connection_shows_its_client_its_library_its_address_and_its_requests(kafka: KafkaServer, topic: str) -> None:
    made = confluent_kafka.Producer({"bootstrap.servers": kafka.address, "client.id": f"c-{topic}", "log_level": 0})
    made.produce(topic, b"one")
    assert made.flush(HANG_SECONDS) == 0
    with Client(kafka.url) as http:
        mine = [one for one in every(http, "connections") if one["client"] == f"c-{topic}"]
        assert http.kafka_connections()["address"] == kafka.address
    assert mine
    for one in mine:
        assert one["software"] == "confluent-kafka-python"
        assert one["version"].startswith(confluent_kafka.__version__)
        assert one["address"].startswith("127.0.0.1:")
        assert (one["token"], one["id"] > 0) == ("anybody", True)
        assert one["requests"] > 0
        assert one["connected_at"] <= one["used_at"]


def test_members_show_what_they_read_and_how_far_they_are_behind(kafka: KafkaServer, topic: str) -> None:
    Confluent(kafka.address).produce(topic, [Sent(b"%d" % number) for number in range(10)], partition=0)
    member = consumer(kafka, f"g-{topic}", **{"client.id": "reader"})
    member.subscribe([topic])

    def found() -> dict[str, Any] | None:
        member.poll(0.05)
        with Client(kafka.url) as http:
            mine = [one for one in every(http, "groups") if one["name"] == f"g-{topic}"]
        return mine[0] if mine and mine[0]["members"] and mine[0]["members"][0]["partitions"] else None

    until(lambda: found() is not None)
    member.commit(offsets=[confluent_kafka.TopicPartition(topic, 0, 4)], asynchronous=False)
    group = found()
    assert group is not None
    assert (group["state"], group["count"], group["lag"]) == ("Stable", 1, 6)
    [one] = group["members"]
    assert (one["client"], one["address"], one["complete"]) == ("reader", "127.0.0.1", True)
    assert one["partitions"] == [
        {"topic": topic, "partition": 0, "lag": 6},
        {"topic": topic, "partition": 1, "lag": None},
    ]
    member.close()


def test_an_open_transaction_is_listed_first_with_what_it_has_staged(kafka: KafkaServer, topic: str) -> None:
    def mine() -> list[dict[str, Any]]:
        with Client(kafka.url) as http:
            return [one for one in every(http, "producers") if one["id"].endswith(topic)]

    with (
        TransactionalConfluent(kafka.address, f"a-{topic}"),
        TransactionalConfluent(kafka.address, f"b-{topic}") as open_,
    ):
        open_.begin()
        open_.producer.produce(topic, b"staged", partition=1)
        open_.producer.flush(HANG_SECONDS)
        first, second = mine()
        assert (first["id"], first["state"], first["epoch"], first["token"]) == (f"b-{topic}", "open", 0, "anybody")
        assert (first["partitions"], first["records"], first["timeout"]) == ([[topic, 1]], 1, HANG_SECONDS)
        assert first["bytes"] > 0
        assert (second["id"], second["state"], second["partitions"]) == (f"a-{topic}", "empty", [])
        open_.producer.commit_transaction(HANG_SECONDS)
        states = {one["id"]: (one["state"], one["records"]) for one in mine()}
        assert states[f"b-{topic}"] == ("committed", 0)


def test_idempotent_producers_are_counted_in_each_partition(own_kafka: Callable[..., KafkaServer]) -> None:
    server = own_kafka()
    with Client(server.url) as http:
        http.create_topic("orders", partitions=2)
        assert http.kafka_producers()["idempotent"] == {"producers": 0, "partitions": 0}
        for number in range(2):
            options: dict[str, Any] = {"enable.idempotence": True}
            Confluent(server.address).produce("orders", [Sent(b"one")], partition=number, **options)
        assert http.kafka_producers()["idempotent"] == {"producers": 2, "partitions": 2}


def test_pages_have_every_connection_once_for_both_kinds_of_clients(own_kafka: Callable[..., KafkaServer]) -> None:
    server = own_kafka()
    with ExitStack() as opened, Client(server.url) as http:
        for _ in range(25):
            opened.enter_context(server.connection())
        until(lambda: http.kafka_connections(limit=1)["total"] == 25)
        found = every(http, "connections", limit=10)
        assert len({one["id"] for one in found}) == len(found) == 25
        assert [one["id"] for one in found] == sorted(one["id"] for one in found)

        async def awaited() -> dict[str, Any]:
            async with seglog.AsyncClient(server.url) as client:
                return await client.kafka_connections(limit=10)

        assert asyncio.run(awaited())["entries"] == found[:10]
        with pytest.raises(errors.InvalidArgument, match="limit is 201"):
            http.kafka_groups(limit=201)


def test_names_that_clients_chose_are_cut_and_neither_escape_nor_fail(own_kafka: Callable[..., KafkaServer]) -> None:
    server = own_kafka()
    name = "<script>" + "\u202e" * 5000
    with server.connection() as raw, Client(server.url) as http:
        data = struct.pack(">hhi", API_VERSIONS.key, 0, 1) + struct.pack(">h", len(name.encode())) + name.encode()
        raw.socket.sendall(struct.pack(">i", len(data)) + data)
        assert raw.response()
        [one] = http.kafka_connections()["entries"]
        assert one["client"] == name[:MOST_TEXT]
        assert (one["software"], one["version"]) == ("", "")


def test_a_page_of_large_groups_ends_early_and_the_next_one_goes_on(own_kafka: Callable[..., KafkaServer]) -> None:
    server, names = own_kafka(), [f"g{number:02}" for number in range(60)]
    forged = assignment([("orders", list(range(300)))])
    with ExitStack() as opened, Client(server.url) as http:
        for name in names:
            join = {"group_id": name, "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "member_id": ""}
            protocols = {"protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
            raw = opened.enter_context(server.connection())
            joined = raw.ask(JOIN_GROUP, 0, {**join, **protocols})
            member = joined["member_id"]
            who = {"group_id": name, "generation_id": joined["generation_id"], "member_id": member}
            assigned_ = [{"member_id": member, "assignment": forged}]
            assert raw.ask(SYNC_GROUP, 0, {**who, "assignments": assigned_})["error_code"] == 0
        page = http.kafka_groups(limit=200)
        assert page["total"] == 60
        assert [one["name"] for one in page["entries"]] == names[:50]
        [member] = page["entries"][0]["members"]
        assert (len(member["partitions"]), member["complete"]) == (100, False)
        assert [one["name"] for one in every(http, "groups")] == names


def test_a_group_of_many_members_shows_the_first_of_them(own_kafka: Callable[..., KafkaServer]) -> None:
    server = own_kafka()
    join = {"group_id": "g", "session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000, "member_id": ""}
    values = {**join, "protocol_type": "consumer", "protocols": [{"name": "range", "metadata": b""}]}
    with ExitStack() as opened, Client(server.url) as http:
        for _ in range(MOST_LISTED + 20):  # each waits for the others, and is a member meanwhile
            opened.enter_context(server.connection()).send(JOIN_GROUP, 0, values)
        until(lambda: [one["count"] for one in http.kafka_groups()["entries"]] == [MOST_LISTED + 20])
        [group] = http.kafka_groups()["entries"]
        assert len(group["members"]) == MOST_LISTED


def test_a_cursor_that_no_page_has_is_answered_with_some_page(kafka: KafkaServer) -> None:
    with kafka.connection() as raw, Client(kafka.url) as http:
        raw.request(API_VERSIONS.key, 0, b"")
        assert raw.response()
        for after in ("ff", "39" * 5000, "2d31"):
            assert http.kafka_connections(after=after)["total"] > 0
            assert http.kafka_groups(after=after)["entries"] is not None
        with pytest.raises(errors.InvalidArgument, match="after must match"):
            http.kafka_producers(after="0")


def test_only_operators_of_all_topics_see_anything_of_it(own_kafka: Callable[..., KafkaServer], tmp_path: Any) -> None:
    rights = {"ops": ({"*": ["admin"]}, ()), "owner": ({"orders": ["admin"], "*": ["read", "write"]}, ("g*",))}
    tokens = tokens_in(tmp_path / "tokens.json", **rights)
    server = own_kafka("--tokens", str(tmp_path / "tokens.json"))
    sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "client.id": "billing-secret"}
    with server.connection(), Client(server.url, token=tokens["ops"]) as ops:
        ops.create_topic("orders")
        Confluent(server.address, **sasl, **{"sasl.username": "owner", "sasl.password": tokens["owner"]}).produce(
            "orders", [Sent(b"one")]
        )
        until(lambda: ops.kafka_connections()["total"] >= 1)
        assert {one["token"] for one in every(ops, "connections")} <= {None, "owner"}
        assert None in {one["token"] for one in every(ops, "connections")}  # it has not authenticated
        with Client(server.url, token=tokens["owner"]) as owner:
            for what in LISTS:
                with pytest.raises(errors.Forbidden) as refused:
                    getattr(owner, f"kafka_{what}")()
                assert "billing-secret" not in str(refused.value)


def test_a_server_without_kafka_has_empty_lists(tmp_path: Any) -> None:
    from tests.conftest import Served  # noqa: PLC0415 - only here

    server = Served(tmp_path / "root", ())
    try:
        with Client(server.url) as http:
            for what in LISTS:
                found = getattr(http, f"kafka_{what}")()
                assert (found["address"], found["total"], found["entries"], found["after"]) == (None, 0, [], None)
    finally:
        server.stop()


def assignment(topics: list[tuple[str, list[int]]]) -> bytes:
    """What the leader of a group sends for a member."""
    parts = [struct.pack(">hi", 1, len(topics))]
    for name, numbers in topics:
        data = name.encode()
        parts += [struct.pack(">h", len(data)), data, struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)]
    return b"".join(parts) + struct.pack(">i", -1)


@given(st.lists(st.tuples(st.text(max_size=5), st.lists(st.integers(0, 9), max_size=4)), max_size=6), st.integers(1, 9))
def test_an_assignment_is_read_up_to_a_limit(topics: list[tuple[str, list[int]]], most: int) -> None:
    every_place = [(name, number) for name, numbers in topics for number in numbers]
    found = assigned(assignment(topics), most)
    assert found is not None
    assert found.places == every_place[: len(found.places)]
    assert len(found.places) <= most
    if found.complete:
        assert found.places == every_place


@given(st.binary(max_size=60))
def test_any_bytes_as_an_assignment_are_read_or_refused(data: bytes) -> None:
    found = assigned(data, 3)
    assert found is None or len(found.places) <= 3


def test_a_forged_assignment_costs_no_more_than_it_shows() -> None:
    assert assigned(struct.pack(">hi", 1, 2**31 - 1) + b"\0" * 4000, 100) is not None
    assert assigned(struct.pack(">hihi", 1, 1, 0, 2**31 - 1) + b"\0" * 4000, 100) is not None
    assert assigned(struct.pack(">hihii", 1, 1, 0, 1, -1), 100) is None


def test_members_whose_partitions_the_server_assigns_show_what_they_read(kafka: KafkaServer, topic: str) -> None:
    member = new_member(kafka, f"g-{topic}", **{"client.id": "reader"})
    member.subscribe([topic])
    until(lambda: member.poll(0.05) is None and len(member.assignment()) == 2)
    with Client(kafka.url) as http:
        [group] = [one for one in every(http, "groups") if one["name"] == f"g-{topic}"]
    assert (group["state"], group["protocol"], group["count"]) == ("Stable", "uniform", 1)
    [one] = group["members"]
    assert (one["client"], one["address"], one["complete"]) == ("reader", "127.0.0.1", True)
    assert [(each["topic"], each["partition"]) for each in one["partitions"]] == [(topic, 0), (topic, 1)]
    member.close()
