"""Consumer groups: clients share partitions, commit, and take over; their offsets are those of HTTP and Python."""

from __future__ import annotations

import asyncio
import time

import aiokafka
import confluent_kafka
import pytest
from confluent_kafka import ConsumerGroupState, ConsumerGroupType, TopicPartition
from confluent_kafka.admin import AdminClient

import kafka as kafka_python
from seglog import errors
from seglog.client import Client
from seglog.kafka.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.kafka.clients import Confluent, Sent
from tests.waiting import HANG_SECONDS, until


def consumer(kafka, group, **options):
    given = {
        "bootstrap.servers": kafka.address,
        "group.id": group,
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "log_level": 0,
        "heartbeat.interval.ms": 100,
        "reconnect.backoff.max.ms": 100,
        **options,
    }
    return confluent_kafka.Consumer(given)


def values_of(found, count):
    got, ends = [], time.monotonic() + HANG_SECONDS
    while len(got) < count:
        assert time.monotonic() < ends, f"{len(got)} of {count} records"
        message = found.poll(0.2)
        if message is not None and not message.error():
            got.append(message.value())
    return got


def read_and_commit(kafka, topic, group):
    """Read the 40 records of the topic as a member of a group, commit, and leave."""
    member = consumer(kafka, group)
    member.subscribe([topic])
    values_of(member, 40)
    member.commit(asynchronous=False)
    member.close()


@pytest.fixture
def topic(kafka, name):
    """A topic of four partitions with ten records in each."""
    with Client(kafka.url) as http:
        http.create_topic(name, partitions=4)
    client = Confluent(kafka.address)
    for partition in range(4):
        client.produce(name, [Sent(b"%d" % number) for number in range(10)], partition=partition)
    return name


def test_consumers_of_a_group_share_the_partitions_and_take_over(kafka, topic):
    group = f"g-{topic}"
    first, second = consumer(kafka, group), consumer(kafka, group)
    first.subscribe([topic])
    assert len(values_of(first, 40)) == 40
    assert len(first.assignment()) == 4
    first.commit(asynchronous=False)
    second.subscribe([topic])

    def shared():
        first.poll(0.05)
        second.poll(0.05)
        return len(first.assignment()) == len(second.assignment()) == 2

    until(shared)
    first.close()
    until(lambda: second.poll(0.05) is None and len(second.assignment()) == 4)
    Confluent(kafka.address).produce(topic, [Sent(b"new")], partition=3)
    assert values_of(second, 1) == [b"new"]  # what was committed is not read again
    second.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_each_strategy_of_librdkafka_assigns_all_partitions(kafka, topic, strategy):
    members = [consumer(kafka, f"g-{topic}", **{"partition.assignment.strategy": strategy}) for _ in range(3)]
    for one in members:
        one.subscribe([topic])

    def assigned():
        for one in members:
            one.poll(0.02)
        counts = [len(one.assignment()) for one in members]
        return sum(counts) == 4 and min(counts) >= 1

    until(assigned)
    for one in members:
        one.close()


def test_kafka_python_and_aiokafka_continue_where_librdkafka_committed(kafka, topic):
    group = f"g-{topic}"
    read_and_commit(kafka, topic, group)
    client = Confluent(kafka.address)
    client.produce(topic, [Sent(b"for kafka-python")], partition=1)
    second = kafka_python.KafkaConsumer(
        topic,
        bootstrap_servers=kafka.address,
        group_id=group,
        enable_auto_commit=False,
        consumer_timeout_ms=HANG_SECONDS * 1000,
    )
    assert next(second).value == b"for kafka-python"
    second.commit()
    second.close()
    client.produce(topic, [Sent(b"for aiokafka")], partition=2)

    async def read():
        third = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=kafka.address, group_id=group)
        await third.start()
        found = await asyncio.wait_for(third.getone(), HANG_SECONDS)
        await third.commit()
        await third.stop()
        return found.value

    assert asyncio.run(read()) == b"for aiokafka"
    with Client(kafka.url) as http:
        assert http.committed(group) == {topic: {0: 10, 1: 11, 2: 11, 3: 10}}


def test_http_continues_where_kafka_committed_and_the_reverse(kafka, topic):
    group = f"g-{topic}"
    read_and_commit(kafka, topic, group)
    Confluent(kafka.address).produce(topic, [Sent(b"next")], partition=0)
    with Client(kafka.url) as http, http.consumer(group, [topic]) as reader:
        found = [one for one in iter(lambda: reader.poll(timeout=0.2), []) if one]
        assert [record.value for batch in found for record in batch] == [b"next"]
        reader.commit()
    Confluent(kafka.address).produce(topic, [Sent(b"last")], partition=0)
    again = consumer(kafka, group)
    again.subscribe([topic])
    assert values_of(again, 1) == [b"last"]
    again.close()


def test_a_group_may_have_any_name_that_can_be_printed(kafka, topic):
    group = f"team a/{topic}/é"
    read_and_commit(kafka, topic, group)
    with Client(kafka.url) as http:
        assert group in http.groups()
        assert http.committed(group) == http.group(group).committed == {topic: dict.fromkeys(range(4), 10)}
        Confluent(kafka.address).produce(topic, [Sent(b"next")])
        with http.consumer(group, [topic]) as reader:
            found = next(batch for batch in iter(lambda: reader.poll(timeout=0.2), None) if batch)
            assert [record.value for record in found] == [b"next"]
            reader.commit()
        http.delete_group(group)
        assert group not in http.groups()
    with kafka.connection() as raw:
        for refused in ("", ".a", "a\nb", "x" * 256):
            assert raw.ask(DESCRIBE_GROUPS, 4, {"groups": [refused]})["groups"][0]["error_code"] == 24
            assert raw.ask(OFFSET_FETCH, 5, {"group_id": refused})["error_code"] == 24


def test_members_of_both_protocols_do_not_share_a_group(kafka, topic):
    group = f"g-{topic}"
    first = consumer(kafka, group)
    first.subscribe([topic])
    values_of(first, 1)
    with Client(kafka.url) as http:
        with pytest.raises(errors.GroupConflict, match="a Kafka client"), http.consumer(group, [topic]) as reader:
            reader.poll(timeout=0)
        with pytest.raises(errors.GroupConflict):
            http.commit(group, {topic: {0: 1}})
        with pytest.raises(errors.GroupConflict):
            http.delete_group(group)
        first.close()
        with http.consumer(group, [topic]) as reader:
            reader.poll(timeout=0)
            second = consumer(kafka, group)
            failed = []
            second.subscribe([topic])
            until(lambda: (found := second.poll(0.1)) is not None and failed.append(found.error()) is None)
            assert failed[0].code() == confluent_kafka.KafkaError.INCONSISTENT_GROUP_PROTOCOL
            second.close()


def test_a_silent_member_is_removed(kafka, topic):
    group = f"g-{topic}"
    protocols = [{"name": "range", "metadata": b"\0\0" + bytes(8)}]
    values = {"group_id": group, "member_id": "", "protocol_type": "consumer", "protocols": protocols}
    with kafka.connection() as raw:
        joined = raw.ask(JOIN_GROUP, 0, {**values, "session_timeout_ms": 300})
        assert (joined["error_code"], joined["leader"]) == (0, joined["member_id"])
        who = {"group_id": group, "generation_id": joined["generation_id"], "member_id": joined["member_id"]}
        assert raw.ask(SYNC_GROUP, 0, {**who, "assignments": []})["error_code"] in (0, 25)  # 25: it took too long
        other = consumer(kafka, group)
        other.subscribe([topic])
        until(lambda: other.poll(0.05) is None and len(other.assignment()) == 4)
        assert raw.ask(HEARTBEAT, 0, who)["error_code"] == 25  # unknown member
        other.close()


def test_a_member_of_the_newest_versions_gets_the_protocol_with_its_answers(kafka, topic):
    group = f"g-{topic}"
    values = {
        "group_id": group,
        "member_id": "",
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"\0\0" + bytes(8)}],
        "session_timeout_ms": 1000 * HANG_SECONDS,
        "reason": "it begins",
    }
    with kafka.connection() as raw:
        refused = raw.ask(JOIN_GROUP, 9, values)
        assert (refused["error_code"], refused["protocol_type"], refused["protocol_name"]) == (79, None, None)
        joined = raw.ask(JOIN_GROUP, 9, {**values, "member_id": refused["member_id"]})
        assert (joined["error_code"], joined["protocol_type"], joined["protocol_name"]) == (0, "consumer", "range")
        assert (joined["leader"], joined["skip_assignment"]) == (joined["member_id"], False)
        who = {"group_id": group, "generation_id": joined["generation_id"], "member_id": joined["member_id"]}
        told = {"assignments": [{"member_id": joined["member_id"], "assignment": b"all"}]}
        assert raw.ask(SYNC_GROUP, 5, {**who, **told})["error_code"] == 23  # it has to name the protocol
        synced = raw.ask(SYNC_GROUP, 5, {**who, **told, "protocol_type": "consumer", "protocol_name": "range"})
        assert (synced["error_code"], bytes(synced["assignment"])) == (0, b"all")
        assert (synced["protocol_type"], synced["protocol_name"]) == ("consumer", "range")
        assert raw.ask(HEARTBEAT, 4, who)["error_code"] == 0
        asked = {"groups": [group, f"{group}-absent"]}
        stable, absent = raw.ask(DESCRIBE_GROUPS, 6, asked)["groups"]
        assert (stable["error_code"], stable["group_state"], len(stable["members"])) == (0, "Stable", 1)
        assert (absent["error_code"], absent["group_state"]) == (69, "Dead")
        assert "absent" in absent["error_message"]
        assert raw.ask(DESCRIBE_GROUPS, 5, asked)["groups"][1]["error_code"] == 0
        leaving = [{"member_id": joined["member_id"], "group_instance_id": None, "reason": "it ends"}]
        left = raw.ask(LEAVE_GROUP, 5, {"group_id": group, "members": leaving})
        assert [one["error_code"] for one in left["members"]] == [0]
        deleted = raw.ask(DELETE_GROUPS, 2, {"groups_names": [f"{group}-absent"]})
        assert [one["error_code"] for one in deleted["results"]] == [69]


def test_a_static_member_restarts_without_a_rebalance(kafka, topic):
    group = f"g-{topic}"
    long = dict.fromkeys(("session.timeout.ms", "max.poll.interval.ms"), 1000 * HANG_SECONDS)
    options = {"group.instance.id": "one", **long}
    other = consumer(kafka, group, **{"group.instance.id": "two"})
    first = consumer(kafka, group, **options)
    for one in (other, first):
        one.subscribe([topic])

    def shared():
        other.poll(0.05)
        first.poll(0.05)
        return len(other.assignment()) == len(first.assignment()) == 2

    until(shared)
    before = sorted(str(one) for one in first.assignment())
    first.close()  # a static member does not leave
    again = consumer(kafka, group, **options)
    again.subscribe([topic])
    until(lambda: again.poll(0.05) is None and again.assignment())
    assert sorted(str(one) for one in again.assignment()) == before
    assert len(other.assignment()) == 2
    again.close()
    other.close()


def test_commits_keep_their_metadata_and_are_checked(kafka, topic):
    group = f"g-{topic}"
    one = consumer(kafka, group)
    place = TopicPartition(topic, 0, 5, metadata="a note", leader_epoch=0)
    assert one.commit(offsets=[place], asynchronous=False)[0].error is None
    found = one.committed([TopicPartition(topic, 0), TopicPartition(topic, 1)])
    assert [(each.offset, each.metadata) for each in found] == [(5, "a note"), (confluent_kafka.OFFSET_INVALID, None)]
    one.commit(offsets=[TopicPartition(topic, 0, 5, leader_epoch=3)], asynchronous=False)  # as Kafka: it is not checked
    [found] = one.committed([TopicPartition(topic, 0)])
    assert (found.offset, found.leader_epoch) == (5, 3)
    one.commit(offsets=[TopicPartition(topic, 0, 6)], asynchronous=False)
    [found] = one.committed([TopicPartition(topic, 0)])
    assert (found.offset, found.leader_epoch) == (6, None)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        one.commit(offsets=[TopicPartition(topic, 9, 0)], asynchronous=False)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART
    one.close()


def test_an_offset_after_the_end_is_committed_as_kafka_does_and_read_from_there_once_it_exists(kafka, topic):
    group = f"g-{topic}"
    one = consumer(kafka, group)
    one.commit(offsets=[TopicPartition(topic, 0, 12)], asynchronous=False)
    assert one.committed([TopicPartition(topic, 0)])[0].offset == 12
    one.close()
    with Client(kafka.url) as http:
        assert http.committed(group) == {topic: {0: 12}}
    Confluent(kafka.address).produce(topic, [Sent(b"%d" % number) for number in range(10, 14)], partition=0)
    again = consumer(kafka, group)
    again.assign([TopicPartition(topic, 0)])
    assert values_of(again, 2) == [b"12", b"13"]
    again.close()


def test_a_group_forgets_offsets_but_not_those_that_its_members_read(kafka, topic, name):
    group, other = f"g-{topic}", f"{name}-other"
    with Client(kafka.url) as http:
        http.create_topic(other)
    one = consumer(kafka, group)
    one.commit(offsets=[TopicPartition(topic, 0, 5), TopicPartition(topic, 1, 6), TopicPartition(other, 0, 0)])
    one.subscribe([other])
    until(lambda: one.poll(0.05) is None and one.assignment())
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=kafka.address)
    places = [(topic, 0), (other, 0), (topic, 9)]

    def forget():
        given = [kafka_python.TopicPartition(*place) for place in places]
        found = admin.delete_group_offsets(group, given)
        return {(place.topic, place.partition): error.errno for place, error in found.items()}

    subscribed, unknown = 86, 3
    assert forget() == {(topic, 0): 0, (other, 0): subscribed, (topic, 9): unknown}
    one.close()
    until(lambda: forget()[other, 0] == 0)
    with Client(kafka.url) as http:
        assert http.committed(group) == {topic: {1: 6}}
    admin.close()


def test_operators_list_describe_and_delete_groups(kafka, topic):
    group, admin = f"g-{topic}", AdminClient({"bootstrap.servers": kafka.address})
    one = consumer(kafka, group, **{"client.id": "mine"})
    one.subscribe([topic])
    values_of(one, 40)
    one.commit(asynchronous=False)
    assert group in [each.group_id for each in admin.list_consumer_groups().result().valid]
    stable, empty = (
        [each.group_id for each in admin.list_consumer_groups(states={wanted}).result().valid]
        for wanted in (ConsumerGroupState.STABLE, ConsumerGroupState.EMPTY)
    )
    assert (group in stable, group in empty) == (True, False)
    state = admin.describe_consumer_groups([group])[group].result()
    assert (state.state.name, [(each.client_id, each.host) for each in state.members]) == (
        "STABLE",
        [("mine", "/127.0.0.1")],
    )
    assert len(state.members[0].assignment.topic_partitions) == 4
    with pytest.raises(confluent_kafka.KafkaException, match=r"not empty|NON_EMPTY"):
        admin.delete_consumer_groups([group])[group].result()
    one.close()
    assert admin.describe_consumer_groups([group])[group].result().state.name == "EMPTY"
    empty = admin.list_consumer_groups(states={ConsumerGroupState.EMPTY}).result().valid
    assert group in [each.group_id for each in empty]
    consumers = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result().valid
    assert group not in [each.group_id for each in consumers]
    admin.delete_consumer_groups([group])[group].result()
    assert group not in [each.group_id for each in admin.list_consumer_groups().result().valid]


def test_members_and_commits_survive_a_kill(own_kafka, name):
    kafka = own_kafka()
    Confluent(kafka.address).produce(name, [Sent(b"%d" % number) for number in range(10)])
    one = consumer(kafka, "g")
    one.subscribe([name])
    values_of(one, 10)
    one.commit(asynchronous=False)
    kafka.kill()
    kafka.start()
    Confluent(kafka.address).produce(name, [Sent(b"after")])
    assert values_of(one, 1) == [b"after"]
    assert one.committed([TopicPartition(name, 0)])[0].offset == 10
    one.close()
