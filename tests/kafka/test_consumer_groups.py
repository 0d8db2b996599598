"""Groups whose partitions the server assigns (`group.protocol=consumer`), with real clients."""

from __future__ import annotations

from uuid import uuid4

import confluent_kafka
import pytest
from confluent_kafka import KafkaError, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions

from seglog import errors
from seglog.client import Client
from seglog.kafka import codes
from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from seglog.kafka.messages.core import FETCH, METADATA
from seglog.kafka.messages.groups import JOIN_GROUP, LEAVE_GROUP, OFFSET_COMMIT, OFFSET_DELETE, OFFSET_FETCH
from seglog.kafka.wire.schema import NO_UUID
from tests.kafka.clients import Confluent, Sent
from tests.kafka.test_groups import values_of
from tests.waiting import until

RECORDS = 10
PARTITIONS = 4


def member(kafka, group, **options):
    given = {
        "bootstrap.servers": kafka.address,
        "group.id": group,
        "group.protocol": "consumer",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        "reconnect.backoff.max.ms": 100,
        **options,
    }
    return confluent_kafka.Consumer(given)


def create(kafka, name, partitions=PARTITIONS):
    with Client(kafka.url) as http:
        http.create_topic(name, partitions=partitions)
    for partition in range(partitions):
        Confluent(kafka.address).produce(name, [Sent(b"%d" % one) for one in range(RECORDS)], partition=partition)


@pytest.fixture
def topic(kafka, name):
    create(kafka, name)
    return name


def polled(*members):
    """Let the members work, as a program does by polling; return what they are assigned."""
    for one in members:
        one.poll(0.05)
    return [len(one.assignment()) for one in members]


def test_members_share_the_partitions_and_take_over(kafka, topic):
    group = f"g-{topic}"
    first, second = member(kafka, group), member(kafka, group)
    first.subscribe([topic])
    assert len(values_of(first, PARTITIONS * RECORDS)) == 40
    first.commit(asynchronous=False)
    second.subscribe([topic])
    until(lambda: polled(first, second) == [2, 2])
    places = {(one.topic, one.partition) for each in (first, second) for one in each.assignment()}
    assert len(places) == PARTITIONS
    first.close()
    until(lambda: polled(second) == [4])
    Confluent(kafka.address).produce(topic, [Sent(b"new")], partition=3)
    assert values_of(second, 1) == [b"new"]  # what was committed is not read again
    second.close()


def test_commits_are_those_of_classic_groups_and_of_http(kafka, topic):
    group = f"g-{topic}"
    first = member(kafka, group)
    first.subscribe([topic])
    values_of(first, PARTITIONS * RECORDS)
    first.commit(asynchronous=False)
    first.close()
    with Client(kafka.url) as http:
        assert http.committed(group) == {topic: dict.fromkeys(range(PARTITIONS), RECORDS)}
        http.commit(group, {topic: {0: RECORDS - 1}})
    classic = member(kafka, group, **{"group.protocol": "classic"})
    classic.subscribe([topic])
    assert values_of(classic, 1) == [b"9"]
    classic.commit(asynchronous=False)
    classic.close()
    again = member(kafka, group)
    again.subscribe([topic])
    until(lambda: polled(again) == [PARTITIONS])
    assert {one.offset for one in again.committed(again.assignment())} == {RECORDS}
    again.close()


def test_members_of_two_protocols_do_not_share_a_group(kafka, topic):
    group = f"g-{topic}"
    first = member(kafka, group)
    first.subscribe([topic])
    until(lambda: polled(first) == [PARTITIONS])
    with Client(kafka.url) as http:
        with pytest.raises(errors.GroupConflict), http.consumer(group, [topic]) as reader:
            reader.poll(timeout=0)
        with pytest.raises(errors.GroupConflict):
            http.delete_group(group)
        classic = {"group_id": group, "session_timeout_ms": 6000, "member_id": "", "protocol_type": "consumer"}
        with kafka.connection() as raw:
            joined = raw.ask(JOIN_GROUP, 1, {**classic, "protocols": [{"name": "range", "metadata": b""}]})
            assert joined["error_code"] == codes.INCONSISTENT_GROUP_PROTOCOL
        first.close()
        with http.consumer(group, [topic]) as reader:
            reader.poll(timeout=0)
            second = member(kafka, group)
            second.subscribe([topic])
            failed = []
            until(lambda: (found := second.poll(0.1)) is not None and failed.append(found.error()) is None)
            assert failed[0].code() in (KafkaError.GROUP_ID_NOT_FOUND, KafkaError._FATAL)
            second.close()


def test_a_static_member_keeps_its_partitions_over_a_restart(kafka, topic):
    group = f"g-{topic}"
    other, first = member(kafka, group), member(kafka, group, **{"group.instance.id": "one"})
    for one in (other, first):
        one.subscribe([topic])
    until(lambda: polled(other, first) == [2, 2])
    before = sorted(one.partition for one in first.assignment())
    first.close()  # a static member comes back
    again = member(kafka, group, **{"group.instance.id": "one"})
    again.subscribe([topic])
    until(lambda: polled(other, again) == [2, 2])
    assert sorted(one.partition for one in again.assignment()) == before
    again.close()
    other.close()


def test_a_regular_expression_finds_topics_that_are_created_later(kafka, name):
    create(kafka, f"{name}-a", 1)
    one = member(kafka, f"g-{name}", **{"topic.metadata.refresh.interval.ms": 500})
    one.subscribe([f"^{name}-.*"])
    assert len(values_of(one, RECORDS)) == RECORDS
    create(kafka, f"{name}-b", 1)
    assert len(values_of(one, RECORDS)) == RECORDS
    one.close()


def test_members_join_again_after_a_kill_of_the_server(own_kafka, name):
    kafka = own_kafka()
    create(kafka, name)
    one = member(kafka, "g")
    one.subscribe([name])
    values_of(one, PARTITIONS * RECORDS)
    one.commit(asynchronous=False)
    kafka.kill()
    kafka.start()
    Confluent(kafka.address).produce(name, [Sent(b"after")])
    assert values_of(one, 1) == [b"after"]
    one.commit(asynchronous=False)
    assert one.committed([TopicPartition(name, 0)])[0].offset == RECORDS + 1
    one.close()


def test_new_partitions_and_a_topic_created_again_are_read(kafka, topic):
    one = member(kafka, f"g-{topic}", **{"topic.metadata.refresh.interval.ms": 500})
    one.subscribe([topic])
    values_of(one, PARTITIONS * RECORDS)
    admin = AdminClient({"bootstrap.servers": kafka.address})
    admin.create_partitions([NewPartitions(topic, PARTITIONS + 1)])[topic].result()
    until(lambda: polled(one) == [PARTITIONS + 1])
    with Client(kafka.url) as http:
        http.delete_topic(topic)
    create(kafka, topic, 2)
    assert len(values_of(one, 2 * RECORDS)) == 2 * RECORDS
    one.close()


# --- requests that no client of the tests sends -----------------------------------------------------------------------


def beat(raw, group, member_id, epoch, **values):
    """Send a heartbeat of version 1 and return its answer; a first one is complete."""
    first = {"rebalance_timeout_ms": 60_000, "topic_partitions": [], "subscribed_topic_names": []}
    given = {**(first if epoch == 0 else {}), **values}
    return raw.ask(
        CONSUMER_GROUP_HEARTBEAT, 1, {"group_id": group, "member_id": member_id, "member_epoch": epoch, **given}
    )


def test_heartbeats_are_answered_as_by_kafka(kafka, topic):
    group = f"g-{topic}"
    with kafka.connection() as raw:
        joined = beat(raw, group, "a", 0, subscribed_topic_names=[topic])
        assert (joined["error_code"], joined["member_epoch"]) == (0, 1)
        assert [one["partitions"] for one in joined["assignment"]["topic_partitions"]] == [[0, 1, 2, 3]]
        steady = beat(raw, group, "a", 1, topic_partitions=joined["assignment"]["topic_partitions"])
        assert (steady["error_code"], steady["member_epoch"], steady["assignment"]) == (0, 1, None)
        assert steady["heartbeat_interval_ms"] > 0

        assert beat(raw, group, "a", 7)["error_code"] == codes.FENCED_MEMBER_EPOCH
        assert beat(raw, group, "b", 1)["error_code"] == codes.UNKNOWN_MEMBER_ID
        assert beat(raw, f"{group}-", "a", 1)["error_code"] == codes.UNKNOWN_MEMBER_ID
        assert beat(raw, group, "", 0, subscribed_topic_names=[topic])["error_code"] == codes.INVALID_REQUEST
        assert beat(raw, group, "b", 0)["error_code"] == codes.INVALID_REQUEST
        assert beat(raw, group, "b", -3)["error_code"] == codes.INVALID_REQUEST
        assert beat(raw, group, "b", 0, server_assignor="mine", subscribed_topic_names=[topic])["error_code"] == (
            codes.UNSUPPORTED_ASSIGNOR
        )
        refused = beat(raw, group, "b", 0, subscribed_topic_regex="a)(")
        assert refused["error_code"] == codes.INVALID_REGULAR_EXPRESSION
        assert "RE2" in refused["error_message"]
        assert beat(raw, group, "b", 0, subscribed_topic_regex="a" * 1001)["error_code"] == (
            codes.INVALID_REGULAR_EXPRESSION
        )
        assert beat(raw, "a\nb", "b", 0, subscribed_topic_names=[topic])["error_code"] == codes.INVALID_GROUP_ID

        left = beat(raw, group, "a", -1)
        assert (left["error_code"], left["member_epoch"]) == (0, -1)
        assert beat(raw, group, "a", 1)["error_code"] == codes.UNKNOWN_MEMBER_ID


def test_a_partition_moves_only_when_its_owner_has_released_it(kafka, topic):
    group = f"g-{topic}"
    with kafka.connection() as raw:
        first = beat(raw, group, "a", 0, subscribed_topic_names=[topic], server_assignor="range")
        owned = first["assignment"]["topic_partitions"]
        second = beat(raw, group, "b", 0, subscribed_topic_names=[topic], server_assignor="range")
        assert (second["member_epoch"], second["assignment"]) == (2, {"topic_partitions": []})
        told = beat(raw, group, "a", 1, topic_partitions=owned)
        kept = told["assignment"]["topic_partitions"]
        assert (told["member_epoch"], kept[0]["partitions"]) == (1, [0, 1])
        assert beat(raw, group, "b", 2)["assignment"] is None
        assert beat(raw, group, "a", 1)["member_epoch"] == 1  # it is busy with what it has to release
        described = raw.ask(CONSUMER_GROUP_DESCRIBE, 1, {"group_ids": [group, f"{group}-"]})["groups"]
        assert [one["error_code"] for one in described] == [0, codes.GROUP_ID_NOT_FOUND]
        shown = described[0]
        assert (shown["group_state"], shown["assignor_name"], shown["group_epoch"]) == ("Reconciling", "range", 2)
        targets = {one["member_id"]: one["target_assignment"]["topic_partitions"] for one in shown["members"]}
        assert {who: (those[0]["topic_name"], those[0]["partitions"]) for who, those in targets.items()} == {
            "a": (topic, [0, 1]),
            "b": (topic, [2, 3]),
        }
        assert beat(raw, group, "a", 1, topic_partitions=kept)["member_epoch"] == 2
        given = beat(raw, group, "b", 2)
        assert given["assignment"]["topic_partitions"][0]["partitions"] == [2, 3]
        assert raw.ask(CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": [group]})["groups"][0]["group_state"] == "Stable"


def test_the_first_version_gives_a_member_its_id(kafka, topic):
    first = {"rebalance_timeout_ms": 1000, "topic_partitions": [], "subscribed_topic_names": [topic]}
    with kafka.connection() as raw:

        def asked(member_id, epoch, **values):
            given = {"group_id": f"g-{topic}", "member_id": member_id, "member_epoch": epoch, **values}
            return raw.ask(CONSUMER_GROUP_HEARTBEAT, 0, given)

        joined = asked("", 0, **first)
        assert (joined["error_code"], joined["member_epoch"]) == (0, 1)
        assert asked(joined["member_id"], 1)["error_code"] == 0
        assert asked("", 1)["error_code"] == codes.INVALID_REQUEST
        assert asked(joined["member_id"], -1)["error_code"] == 0


def test_an_instance_name_is_used_by_one_member_at_a_time(kafka, topic):
    group = f"g-{topic}"
    static = {"instance_id": "one", "subscribed_topic_names": [topic]}
    with kafka.connection() as raw:
        assert beat(raw, group, "a", 0, **static)["error_code"] == 0
        assert beat(raw, group, "b", 0, **static)["error_code"] == codes.UNRELEASED_INSTANCE_ID
        assert beat(raw, group, "b", 1, instance_id="one")["error_code"] == codes.FENCED_INSTANCE_ID
        assert beat(raw, group, "a", -2)["error_code"] == codes.INVALID_REQUEST  # not a static member
        away = beat(raw, group, "a", -2, instance_id="one")
        assert (away["error_code"], away["member_epoch"]) == (0, -2)
        again = beat(raw, group, "b", 0, **static)
        assert (again["error_code"], again["member_epoch"]) == (0, 1)
        assert again["assignment"]["topic_partitions"][0]["partitions"] == [0, 1, 2, 3]
        assert beat(raw, group, "a", 1, instance_id="one")["error_code"] == codes.FENCED_INSTANCE_ID
        removed = [{"member_id": "", "group_instance_id": "one"}]
        assert raw.ask(LEAVE_GROUP, 3, {"group_id": group, "members": removed})["members"][0]["error_code"] == 0
        assert beat(raw, group, "b", 1)["error_code"] == codes.UNKNOWN_MEMBER_ID


def test_only_a_member_of_a_known_epoch_commits(kafka, topic):
    group = f"g-{topic}"
    with kafka.connection() as raw:
        uuid = beat(raw, group, "a", 0, subscribed_topic_names=[topic])["assignment"]["topic_partitions"][0]["topic_id"]

        def committed(who, epoch, number=0, version=10):
            partitions = [{"partition_index": number, "committed_offset": 1, "committed_metadata": ""}]
            topics = [{"topic_id": uuid, "name": topic, "partitions": partitions}]
            values = {"group_id": group, "member_id": who, "generation_id": epoch, "topics": topics}
            return raw.ask(OFFSET_COMMIT, version, values)["topics"][0]["partitions"][0]["error_code"]

        assert committed("a", 1) == committed("a", 1, version=9) == 0
        assert committed("a", 1, version=7) == codes.UNSUPPORTED_VERSION
        assert committed("b", 1) == committed("", -1) == codes.UNKNOWN_MEMBER_ID
        assert committed("a", 2) == codes.STALE_MEMBER_EPOCH
        beat(raw, group, "b", 0, subscribed_topic_names=[topic])
        kept = beat(raw, group, "a", 1)["assignment"]["topic_partitions"]
        assert committed("a", 1, 3) == 0  # until it has released it
        beat(raw, group, "a", 1, topic_partitions=kept)
        assert committed("a", 1, kept[0]["partitions"][0]) == 0  # sent before it knew the epoch 2
        moved = next(number for number in range(PARTITIONS) if number not in kept[0]["partitions"])
        assert committed("a", 1, moved) == codes.STALE_MEMBER_EPOCH

        def fetched(who, epoch, ids=(uuid,)):
            topics = [{"topic_id": one, "partition_indexes": [0, 3]} for one in ids] if ids else None
            wanted = {"group_id": group, "member_id": who, "member_epoch": epoch, "topics": topics}
            return raw.ask(OFFSET_FETCH, 10, {"groups": [wanted]})["groups"][0]

        assert [one["committed_offset"] for one in fetched("a", 2)["topics"][0]["partitions"]] == [1, 1]
        assert {one["topic_id"] for one in fetched(None, -1, ())["topics"]} == {uuid}
        assert fetched("a", 1)["error_code"] == codes.STALE_MEMBER_EPOCH
        assert fetched("c", 1)["error_code"] == codes.UNKNOWN_MEMBER_ID
        unknown = fetched(None, -1, (uuid4().hex,))["topics"][0]["partitions"]
        assert [one["error_code"] for one in unknown] == [codes.UNKNOWN_TOPIC_ID] * 2


def test_a_topic_has_one_id_until_it_is_deleted(kafka, topic):
    with kafka.connection() as raw:

        def described(name=None, uuid=NO_UUID):
            found = raw.ask(METADATA, 13, {"topics": [{"name": name, "topic_id": uuid}]})["topics"][0]
            return found["error_code"], found["name"], found["topic_id"]

        def fetched(uuid):
            partitions = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1000}]
            values = {"max_wait_ms": 0, "min_bytes": 0, "topics": [{"topic_id": uuid, "partitions": partitions}]}
            found = raw.ask(FETCH, 18, {**values, "forgotten_topics_data": []})["responses"][0]
            assert found["topic_id"] == uuid
            return found["partitions"][0]["error_code"], len(found["partitions"][0]["records"] or b"") > 0

        code, name, uuid = described(topic)
        assert (code, name) == (0, topic)
        assert described(uuid=uuid) == (0, topic, uuid)
        assert fetched(uuid) == (0, True)
        with Client(kafka.url) as http:
            http.delete_topic(topic)
            http.create_topic(topic)
        assert described(topic)[2] not in (uuid, NO_UUID)
        assert described(uuid=uuid) == (codes.UNKNOWN_TOPIC_ID, None, uuid)
        assert fetched(uuid) == (codes.UNKNOWN_TOPIC_ID, False)


def test_operators_list_describe_and_delete_such_groups(kafka, topic):
    group, admin = f"g-{topic}", AdminClient({"bootstrap.servers": kafka.address})
    one = member(kafka, group, **{"client.id": "mine"})
    one.subscribe([topic])
    values_of(one, PARTITIONS * RECORDS)
    one.commit(asynchronous=False)
    kinds = {each.group_id: each.type.name for each in admin.list_consumer_groups().result().valid}
    assert kinds[group] == "CONSUMER"
    state = admin.describe_consumer_groups([group])[group].result()
    assert (state.state.name, [(each.client_id, each.host) for each in state.members]) == (
        "STABLE",
        [("mine", "/127.0.0.1")],
    )
    places = state.members[0].assignment.topic_partitions
    assert {(each.topic, each.partition) for each in places} == {(topic, number) for number in range(PARTITIONS)}
    with kafka.connection() as raw:
        topics = [{"name": topic, "partitions": [{"partition_index": 0}]}]
        deleted = raw.ask(OFFSET_DELETE, 0, {"group_id": group, "topics": topics})["topics"][0]["partitions"][0]
        assert deleted["error_code"] == codes.GROUP_SUBSCRIBED_TO_TOPIC
    with pytest.raises(confluent_kafka.KafkaException, match=r"not empty|NON_EMPTY"):
        admin.delete_consumer_groups([group])[group].result()
    one.close()
    assert admin.describe_consumer_groups([group])[group].result().state.name == "EMPTY"
    admin.delete_consumer_groups([group])[group].result()
