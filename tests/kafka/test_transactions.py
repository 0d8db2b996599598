"""Transactions of real clients: all of one or nothing, with the offsets that it commits; zombies are fenced."""

from __future__ import annotations

import errno
import json
from itertools import count

import confluent_kafka
import pytest
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from seglog.client import Client
from seglog.kafka import codes
from seglog.kafka.messages.groups import FIND_COORDINATOR, OFFSET_FETCH
from seglog.storage import MemoryStorage
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.testing.kafka import KafkaBroker
from tests.kafka.clients import Confluent, Sent
from tests.kafka.producers import RawTransactional, stored
from tests.kafka.test_hostile import Limited
from tests.kafka.transactional import TRANSACTIONAL as CLIENTS
from tests.kafka.transactional import TransactionalConfluent
from tests.waiting import HANG_SECONDS, until

OK = 0


def committed_offset(kafka, group, topic):
    with kafka.connection() as raw:
        topics = [{"name": topic, "partition_indexes": [0]}]
        found = raw.ask(OFFSET_FETCH, 5, {"group_id": group, "topics": topics})
    part = found["topics"][0]["partitions"][0]
    return part["error_code"], part["committed_offset"]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_commit_shows_all_partitions_and_offsets_and_an_abort_nothing(kafka, topic, name, client):
    with CLIENTS[client](kafka.address, f"x-{name}") as producer:
        for number, commit in enumerate((True, False, True)):
            producer.begin()
            for value in (b"a", b"b"):
                producer.send(topic, b"%d%s" % (number, value), 0)
                producer.send(topic, b"%d%s" % (number, value), 1)
            producer.flush()
            before = stored(kafka, topic), stored(kafka, topic, 1)
            producer.send_offsets(f"g-{name}", topic, 0, number)
            producer.end(commit=commit)
            if not commit:
                assert (stored(kafka, topic), stored(kafka, topic, 1)) == before
        assert stored(kafka, topic) == stored(kafka, topic, 1) == [b"0a", b"0b", b"2a", b"2b"]
        assert producer.committed(topic, 4) == [b"0a", b"0b", b"2a", b"2b"]
    assert committed_offset(kafka, f"g-{name}", topic) == (OK, 2)


def test_a_new_producer_is_announced_the_offsets_of_its_records_also_after_one_that_aborted(kafka, topic, name):
    with TransactionalConfluent(kafka.address, f"x-{name}") as first:
        first.begin()
        for _ in range(3):
            first.send(topic, b"aborted")
        first.flush()
        first.end(commit=False)
    announced = []
    with TransactionalConfluent(kafka.address, f"x-{name}") as second:
        second.begin()
        second.producer.produce(topic, b"v", partition=0, on_delivery=lambda _, one: announced.append(one.offset()))
        second.flush()
        second.end(commit=True)
    assert (announced, stored(kafka, topic)) == ([0], [b"v"])


@pytest.mark.parametrize("client", CLIENTS)
def test_a_second_producer_of_an_id_fences_the_first(kafka, topic, name, client):
    with CLIENTS[client](kafka.address, f"x-{name}") as zombie:
        zombie.begin()
        zombie.send(topic, b"of the zombie")
        zombie.flush()
        with CLIENTS[client](kafka.address, f"x-{name}") as producer:
            producer.begin()
            producer.send(topic, b"of the heir")
            producer.flush()
            with pytest.raises(Exception, match=r"(?i)fenced|epoch"):
                zombie.end(commit=True)
            producer.end(commit=True)
    assert stored(kafka, topic) == [b"of the heir"]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_open_transaction_continues_after_the_server_was_killed(own_kafka, name, client):
    kafka = own_kafka("--kafka-partitions", "2")
    with CLIENTS[client](kafka.address, f"x-{name}") as producer:
        for commit in (False, True):
            producer.begin()
            producer.send(name, b"before %d" % commit)
            producer.flush()
            if commit:
                kafka.kill()
                kafka.start()
            producer.send(name, b"after %d" % commit)
            producer.send(name, b"also after", 1)
            producer.flush()
            producer.end(commit=commit)
        assert stored(kafka, name) == [b"before 1", b"after 1"]
        assert stored(kafka, name, 1) == [b"also after"]


def test_a_program_that_reads_transforms_and_produces_handles_each_record_once(kafka, topic, name):
    count, source, group = 200, topic, f"g-{name}"
    with TransactionalConfluent(kafka.address, f"in-{name}") as first:
        first.begin()
        for number in range(count):
            first.send(source, b"%d" % number)
        first.end(commit=True)
    target = f"{name}-out"
    with Client(kafka.url) as http:
        http.create_topic(target, partitions=1)
    given = {"bootstrap.servers": kafka.address, "group.id": group, "log_level": 0, "auto.offset.reset": "earliest"}
    for crashes in (True, False):  # the first program handles a part, and leaves a transaction open
        consumer = confluent_kafka.Consumer({**given, "enable.auto.commit": False})
        consumer.subscribe([source])
        producer = TransactionalConfluent(kafka.address, f"x-{name}").producer
        while len(stored(kafka, target)) < count:
            records = consumer.consume(30, 0.5)
            if not records:
                continue
            producer.begin_transaction()
            for record in records:
                producer.produce(target, record.value() + b"!")
            position = consumer.position(consumer.assignment())
            producer.send_offsets_to_transaction(position, consumer.consumer_group_metadata(), HANG_SECONDS)
            if crashes and len(stored(kafka, target)) > count // 3:
                producer.flush(HANG_SECONDS)
                break
            producer.commit_transaction(HANG_SECONDS)
        consumer.close()
    assert stored(kafka, target) == [b"%d!" % number for number in range(count)]


# --- what clients do not do -------------------------------------------------------------------------------------------


def test_the_coordinator_of_transactions_is_this_broker(kafka):
    with kafka.connection() as raw:
        found = raw.ask(FIND_COORDINATOR, 2, {"key": "t", "key_type": 1})
        assert (found["error_code"], found["node_id"], found["port"]) == (OK, 1, kafka.kafka_port)
        assert raw.ask(FIND_COORDINATOR, 2, {"key": "t", "key_type": 2})["error_code"] == 42


def test_an_earlier_epoch_is_fenced_by_the_code_that_the_version_has(kafka, topic, name):
    zombie, heir = RawTransactional(kafka, name), RawTransactional(kafka, name)
    assert (heir.id, heir.epoch) == (zombie.id, zombie.epoch + 1)
    assert (zombie.add(topic, 0, 1), zombie.add_group("g"), zombie.end()) == ([90, 90], 90, 90)
    zombie.version = 1
    assert (zombie.add(topic, 0, 1), zombie.add_group("g"), zombie.end()) == ([47, 47], 47, 47)
    assert zombie.send(topic, 0, [b"late"])[0] == 47
    assert zombie.commit_offset("g", topic, 0) == 47


def test_requests_that_the_state_does_not_allow_are_refused(kafka, topic, name):
    producer = RawTransactional(kafka, name)
    assert producer.end() == 48
    assert producer.send(topic, 0, [b"a"])[0] == 48  # nothing was added
    assert producer.add(topic, 0) == [OK]
    assert producer.send(topic, 0, [b"a"], partition=1)[0] == 48
    assert producer.commit_offset("g", topic, 0) == 48
    assert producer.add(topic, 0, 7) == [55, 3]
    assert producer.end(commit=False) == producer.end(commit=False) == OK  # a repetition is no error
    assert producer.end() == 48
    stranger = RawTransactional(kafka, f"{name}-other")
    stranger.name = name
    assert (stranger.add(topic, 0), stranger.end(), stranger.send(topic, 0, [b"x"])[0]) == ([49], 49, 49)
    assert RawTransactional(kafka, f"{name}-slow", timeout_ms=3_600_000).error == 50
    assert RawTransactional(kafka, "").error == 42
    assert stored(kafka, topic) == []


def test_a_repeated_batch_is_staged_once_and_a_gap_is_refused(kafka, topic, name):
    producer = RawTransactional(kafka, name)
    producer.add(topic, 0)
    assert producer.send(topic, 0, [b"a", b"b"]) == (OK, 0)
    assert producer.send(topic, 2, [b"c"]) == (OK, 2)
    assert producer.send(topic, 0, [b"a", b"b"]) == (OK, 0)
    assert producer.send(topic, 5, [b"x"])[0] == 45
    assert producer.end() == OK
    assert stored(kafka, topic) == [b"a", b"b", b"c"]


def test_announced_offsets_rise_and_are_right_if_no_other_program_appends(kafka, topic, name):
    producer = RawTransactional(kafka, name)
    for number in range(3):
        producer.add(topic, 0)
        assert producer.send(topic, 2 * number, [b"a"]) == (OK, 2 * number)
        assert producer.send(topic, 2 * number + 1, [b"b"]) == (OK, 2 * number + 1)
        assert producer.end() == OK
    producer.add(topic, 0)
    assert producer.send(topic, 6, [b"aborted"]) == (OK, 6)
    producer.end(commit=False)
    producer.add(topic, 0)
    assert producer.send(topic, 7, [b"c"]) == (OK, 7)  # above what was announced, though it gets offset 6
    producer.end()
    assert stored(kafka, topic)[6:] == [b"c"]


def test_sequences_continue_over_aborted_transactions_and_restarts(tmp_path, name):
    kafka = KafkaBroker(tmp_path / "root")
    with kafka:
        kafka.broker.create_topic(name)
        producer = RawTransactional(kafka, name)
    for number, commit in enumerate((True, False, True, False, False)):
        with kafka:
            assert producer.add(name, 0) == [OK]
            assert not number or producer.send(name, number + 1, [b"gap"])[0] == 45
            assert producer.send(name, number, [b"%d" % number])[0] == OK
        with kafka:
            assert producer.send(name, number, [b"%d" % number])[0] == OK  # repeated
            assert producer.end(commit=commit) == OK
        with kafka:
            assert producer.end(commit=commit) == OK  # also after a restart
            assert producer.end(commit=not commit) == 48
    with kafka:
        assert [record.value for record in kafka.broker.topic(name).records(0)] == [b"0", b"2"]


def test_a_restart_of_the_machine_aborts_what_is_open_and_fences_its_producer(tmp_path, name, monkeypatch):
    kafka = KafkaBroker(tmp_path / "root")
    with kafka:
        kafka.broker.create_topic(name)
        producer, other = RawTransactional(kafka, name), RawTransactional(kafka, f"{name}-2")
        for one in (producer, other):
            assert one.add(name, 0) == [OK]
            assert one.send(name, 0, [b"a"])[0] == OK
        assert other.end() == OK
    monkeypatch.setattr("seglog.topic.transactions.journal.boot_id", lambda: "another run of the system")
    with kafka:
        assert producer.end() == 90
        assert producer.send(name, 1, [b"b"])[0] == 47
        assert other.end() == OK  # repeated
        assert [record.value for record in kafka.broker.topic(name).records(0)] == [b"a"]
    assert not [*(tmp_path / "root" / ".transactions").iterdir()]


def test_a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced(kafka, topic, name):
    for doublings in count():  # until the machine is fast enough for it
        producer = RawTransactional(kafka, name, timeout_ms=300 * 2**doublings)
        if producer.add(topic, 0) == [OK] and producer.send(topic, 0, [b"a"])[0] == OK:
            break
    until(lambda: producer.add(topic, 0) == [90])
    assert producer.end() == 90
    assert producer.send(topic, 1, [b"b"])[0] == 47
    assert RawTransactional(kafka, name).epoch == producer.epoch + 2
    assert stored(kafka, topic) == []


def test_a_consumer_that_asks_for_stable_offsets_waits_for_those_of_an_open_transaction(kafka, topic, name):
    producer, group = RawTransactional(kafka, name), f"g-{name}"
    given = {"bootstrap.servers": kafka.address, "group.id": group, "log_level": 0}
    consumer = confluent_kafka.Consumer(given)
    place = confluent_kafka.TopicPartition(topic, 0)
    assert producer.add_group(group) == OK
    assert producer.commit_offset(group, topic, 0) == OK
    assert producer.commit_offset(group, topic, -2) == 1
    assert committed_offset(kafka, group, topic) == (OK, -1)
    with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)unstable|pending|timed out"):
        consumer.committed([place], 1.0)
    assert producer.end() == OK
    assert consumer.committed([place], 30)[0].offset == 0
    consumer.close()


def test_an_id_belongs_to_the_first_token_that_uses_it(own_kafka, tmp_path, name):
    from seglog.server.rights.access import new_token  # noqa: PLC0415 - only here

    tokens, entries = {}, []
    for who, rights in (("one", {name: ["write"]}), ("two", {name: ["write"]}), ("reader", {name: ["read"]})):
        tokens[who], entry = new_token(who, rights)
        entries.append(entry)
    tokens["root"], entry = new_token("root", {"*": ["admin"]})
    (tmp_path / "tokens").write_text(json.dumps({"tokens": [*entries, entry]}))
    kafka = own_kafka("--tokens", str(tmp_path / "tokens"))
    with Client(kafka.url, token=tokens["root"]) as http:
        http.create_topic(name, partitions=1)

    def begin(who):
        sasl = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN", "sasl.username": who}
        given = {"bootstrap.servers": kafka.address, "log_level": 0, "transactional.id": "id", **sasl}
        producer = confluent_kafka.Producer({**given, "sasl.password": tokens[who]})
        producer.init_transactions(HANG_SECONDS)
        return producer

    begin("one")
    for who in ("two", "reader"):
        with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)authoriz"):
            begin(who)
    kafka.kill()
    kafka.start()
    with pytest.raises(confluent_kafka.KafkaException, match=r"(?i)authoriz"):
        begin("two")
    begin("one")
    begin("root")


def test_records_of_a_deleted_topic_are_left_out_of_a_commit(kafka, topic, name):
    other = f"{name}-2"
    with Client(kafka.url) as http:
        http.create_topic(other, partitions=1)
        producer = RawTransactional(kafka, name)
        producer.add(topic, 0)
        producer.add(other, 0)
        assert producer.send(topic, 0, [b"lost with its topic"]) == (OK, 0)
        assert producer.send(other, 0, [b"kept"]) == (OK, 0)
        http.delete_topic(topic)
        http.create_topic(topic, partitions=1)
    assert producer.end() == OK
    assert (stored(kafka, topic), stored(kafka, other)) == ([], [b"kept"])


def test_a_commit_without_keys_to_a_topic_that_is_compacted_by_key_since_can_be_aborted(kafka, topic, name):
    admin = AdminClient({"bootstrap.servers": kafka.address})

    def clean_up_by(policy):
        entry = ConfigEntry("cleanup.policy", policy, incremental_operation=AlterConfigOpType.SET)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        admin.incremental_alter_configs([resource])[resource].result()

    def send(value):
        producer.begin()
        producer.send(topic, value, 0)
        producer.send(topic, value, 1)
        producer.flush()

    with TransactionalConfluent(kafka.address, f"x-{name}") as producer:
        send(b"refused")
        clean_up_by("compact")
        with pytest.raises(confluent_kafka.KafkaException) as caught:
            producer.end(commit=True)
        assert (caught.value.args[0].code(), caught.value.args[0].txn_requires_abort()) == (87, True)
        producer.end(commit=False)
        clean_up_by("delete")
        send(b"kept")
        producer.end(commit=True)
    assert stored(kafka, topic) == stored(kafka, topic, 1) == [b"kept"]


def test_transactions_hold_bounded_bytes(tmp_path, name):
    kafka = Limited(tmp_path / "root", spool_bytes=800_000)
    try:
        one, other, third = (RawTransactional(kafka, f"{name}-{number}") for number in range(3))
        Confluent(kafka.address).produce(name, [Sent(b"first")])
        for producer in (one, other, third):
            assert producer.add(name, 0) == [OK]
        assert one.send(name, 0, [bytes(150_000)])[0] == OK
        assert one.send(name, 1, [bytes(260_000)])[0] == 44  # more than half
        assert other.send(name, 0, [bytes(150_000)])[0] == OK
        assert third.send(name, 0, [bytes(310_000)])[0] == 7  # another time
        assert one.end() == OK
        assert third.send(name, 0, [bytes(310_000)])[0] == OK
        assert Confluent(kafka.address).consume(name, 2)[1].value == bytes(150_000)
    finally:
        kafka.stop()


def test_a_compressed_batch_counts_in_a_transaction_as_what_it_takes_decompressed(tmp_path, name):
    kafka = Limited(tmp_path / "root", spool_bytes=800_000)  # of which one transaction has half
    told = []
    try:
        Confluent(kafka.address).produce(name, [Sent(b"first")])
        options = {"transactional.id": name, "compression.type": "gzip", "log_level": 0}
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address, **options})
        producer.init_transactions()

        def send(size):
            producer.begin_transaction()
            producer.produce(name, bytes(size), partition=0, on_delivery=lambda error, _: told.append(error))
            until(lambda: producer.poll(0.1) or told)

        send(300_000)
        assert told.pop() is None
        producer.commit_transaction()
        send(500_000)
        assert told.pop().code() == codes.POLICY_VIOLATION
        producer.abort_transaction()
        assert Confluent(kafka.address).consume(name, 2)[1].value == bytes(300_000)
    finally:
        kafka.stop()


def test_a_full_disk_delays_a_commit_and_loses_nothing(name):
    storage = FaultyStorage(MemoryStorage())
    kafka = KafkaBroker(storage)
    with kafka:
        kafka.broker.create_topic(name)
        producer = RawTransactional(kafka, name)
        assert producer.add(name, 0) == [OK]
        assert producer.send(name, 0, [b"a"]) == (OK, 0)
        full = Fault(operations=frozenset({"pwrite", "pwritev"}), name=f"{name}/0", error=errno.ENOSPC, forever=True)
        storage.fault = full
        assert producer.end() == 51
        assert producer.end() == 51
        assert producer.add(name, 0) == [51]
        assert RawTransactional(kafka, name).error == 51
        assert list(kafka.broker.unpublished)
        storage.fault = None
        until(lambda: producer.end() == OK)
        assert kafka.broker.unpublished == {}
        assert [record.value for record in kafka.broker.topic(name).records(0)] == [b"a"]


def test_a_server_that_follows_another_refuses_transactions(own_kafka, name):
    leader = own_kafka()
    follower = own_kafka("--follow", leader.url)
    assert RawTransactional(follower, name).error == 44
