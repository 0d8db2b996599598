"""What a small request costs the server: its values, the records of its batches, and its answer, all claimed before."""

from __future__ import annotations

import asyncio
import gzip
import itertools
import select
import struct
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import lz4.frame
import pyarrow as pa
import pytest
from crc32c import crc32c

from seglog import LogConfig, Retention
from seglog.client import Client
from seglog.errors import Busy
from seglog.kafka import codes
from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE
from seglog.kafka.messages.core import FETCH, PRODUCE
from seglog.kafka.messages.groups import DESCRIBE_GROUPS, JOIN_GROUP, OFFSET_COMMIT, OFFSET_FETCH, SYNC_GROUP
from seglog.kafka.messages.transactions import DESCRIBE_TRANSACTIONS
from seglog.kafka.records.decode import head_of
from seglog.kafka.records.faults import TooLarge
from seglog.kafka.requests import fetch
from seglog.kafka.requests.call import ENTRY_BYTES
from seglog.kafka.requests.configs import describe_configs
from seglog.kafka.requests.decoding import decoded_bytes, in_bounds
from seglog.kafka.requests.holding import Costly, Holding
from seglog.kafka.wire.buffers import Malformed, Reader, Writer
from seglog.kafka.wire.schema import STRING, Form
from seglog.server.runtime.memory import Claim, Memory
from seglog.server.runtime.waiting import Waiting
from tests.kafka.clients import Confluent, Sent
from tests.kafka.conftest import body_of
from tests.kafka.producers import produced
from tests.kafka.test_hostile import Limited, still_answers
from tests.kafka.test_memory import held
from tests.kafka.test_record_batches import kio_batch
from tests.kafka.virtual import run_in_virtual_time
from tests.waiting import until

MIB = 1024 * 1024
MOST = 64 * MIB
FLEXIBLE = Form(12, flexible=True)


def varint(number):
    target = Writer()
    target.varint(number)
    return bytes(target.tail)


def produce_of_empty_topics(count):
    return b"\0" + struct.pack(">hi", 1, 1000) + varint(count + 1) + b"\x01\x01\0" * count + b"\0"


def fetch_of_empty_topics(count):
    numbers = struct.pack(">iiiibii", -1, 100, 1, 1, 0, 0, -1)
    return numbers + varint(count + 1) + b"\x01\x01\0" * count + b"\x01\x01\0"


@pytest.mark.parametrize(
    ("api", "version", "body"), [(PRODUCE, 9, produce_of_empty_topics), (FETCH, 12, fetch_of_empty_topics)]
)
def test_a_request_of_very_many_empty_topics_is_refused_before_they_are_objects(api, version, body):
    form, memory = api.form(version), Memory(384 * MIB)
    few = Holding(memory, 1.0)
    topics = api.request.read(Reader(body(1000)), form, few.take)["topic_data" if api is PRODUCE else "topics"]
    assert len(topics) == 1000
    assert memory.held["answers"] == few.size > 100_000
    many = Holding(memory, 1.0)
    with pytest.raises(Costly, match="name less in one request"):
        api.request.read(Reader(body(1_000_000)), form, many.take)
    assert many.claim.size == 0


def test_the_server_goes_on_after_a_request_of_very_many_empty_topics(tmp_path):
    server = Limited(tmp_path / "root")
    try:
        still_answers(server)
        before = server.resident()
        with server.connection() as raw:
            raw.request(PRODUCE.key, 9, b"\0" + produce_of_empty_topics(1_000_000))
            assert raw.response() == b""
        still_answers(server)
        assert server.resident() - before < 40 * MIB  # 3 MB were sent, and would be 700 MB as objects
    finally:
        server.stop()


def test_a_request_waits_for_memory_for_its_values_and_is_refused_if_there_is_none():
    memory = Memory(64 * MIB)

    async def story():
        other, one = Claim(memory, "answers"), Holding(memory, 10.0)
        other.resize(memory.share("answers"))
        with pytest.raises(Busy):
            one.take(MIB)
        waiting = asyncio.create_task(one.start_again())
        await asyncio.sleep(1)
        assert not waiting.done()
        other.close()
        await waiting
        one.take(MIB)
        one.settle()
        assert memory.held["answers"] == one.size == 2 * MIB
        other.resize(memory.share("answers") - one.size)
        growing = asyncio.create_task(one.room(MIB))
        await asyncio.sleep(1)
        assert not growing.done()
        other.resize(0)
        await growing
        assert memory.held["answers"] == 3 * MIB
        other.resize(memory.share("answers") - one.size)
        with pytest.raises(Busy, match="no 4194304 bytes of memory"):
            await one.room(MIB)

    run_in_virtual_time(story())


def test_a_string_is_claimed_as_it_may_be_in_memory_and_has_no_more_bytes_than_in_kafka():
    taken = []
    data = varint(30_001) + "😀".encode() * 7500
    assert STRING.read(Reader(data), FLEXIBLE, taken.append) == "😀" * 7500
    assert taken == [120_000]
    with pytest.raises(Malformed, match="may have 32767"):
        STRING.read(Reader(varint(40_001) + bytes(40_000)), FLEXIBLE)


def fetch_of(topic, partitions, wait_ms):
    places = [{"partition": number, "fetch_offset": 0, "partition_max_bytes": MIB} for number in partitions]
    topics = [{"topic": topic, "partitions": places}]
    return {"replica_id": -1, "max_wait_ms": wait_ms, "min_bytes": 1, "max_bytes": 50 * MIB, "topics": topics}


# --- fetches ----------------------------------------------------------------------------------------------------------


def test_a_consumer_of_many_partitions_does_not_wait_for_memory_that_its_own_request_holds(own_kafka):
    kafka = own_kafka("--memory", "16MiB")  # of which answers have a half
    with Client(kafka.url) as http:
        http.create_topic("many", partitions=60)
        for partition in range(20):
            http.topic("many").append(bytes(300_000), partition=partition)
    with kafka.connection() as raw:
        [found] = raw.ask(FETCH, 4, fetch_of("many", range(60), wait_ms=100))["responses"]
    assert sum(len(one["records"] or b"") // 300_000 for one in found["partitions"]) == 20


def test_a_consumer_of_many_partitions_holds_no_memory_for_its_answer_while_it_waits(own_kafka):
    kafka = own_kafka()
    with Client(kafka.url) as http, kafka.connection() as raw:
        http.create_topic("many", partitions=60)
        raw.send(FETCH, 4, fetch_of("many", range(60), wait_ms=60_000))
        until(lambda: held(kafka.url, "waits") > 0)
        assert held(kafka.url) == 0
        http.topic("many").append(b"v", partition=59)
        assert raw.response().endswith(b"v\0")  # it has no headers
    until(lambda: held(kafka.url, "waits") == held(kafka.url) == 0)


def test_a_partition_that_a_fetch_names_again_and_again_is_read_once(kafka, topic):
    values = fetch_of(topic, [0, 1] * 1000, wait_ms=10)
    values["topics"] *= 2
    with kafka.connection() as raw:
        found = raw.ask(FETCH, 4, values)["responses"]
    assert [[one["partition_index"] for one in each["partitions"]] for each in found] == [[0, 1], []]


def test_a_partition_that_a_fetch_names_at_several_offsets_is_read_from_the_last_as_with_kafka(kafka, topic):
    with Client(kafka.url) as http:
        http.topic(topic).append_batch(pa.table({"value": [b"first", b"last!"]}), partition=0)
    values = fetch_of(topic, [0, 0], wait_ms=10)
    values["topics"][0]["partitions"][1]["fetch_offset"] = 1
    with kafka.connection() as raw:
        ((found,),) = [each["partitions"] for each in raw.ask(FETCH, 4, values)["responses"]]
    assert b"last!" in bytes(found["records"])
    assert b"first" not in bytes(found["records"])


def test_a_fetch_that_waits_for_more_rests_before_it_looks_at_all_its_partitions_again(monkeypatch):
    looks, rests = iter([False, False, False, True]), []

    async def rest(seconds: float) -> None:
        rests.append(seconds)

    async def woken(_event: object, _seconds: float) -> bool:
        return True

    clock = map(float, itertools.count(step=0.001))  # each look at the clock takes a millisecond
    for name, stand_in in {"sleep": rest, "woken": woken, "monotonic": clock.__next__}.items():
        monkeypatch.setattr(fetch, name, stand_in)
    monkeypatch.setattr(fetch, "_is_enough", lambda _wanted, _least: next(looks))
    settings = SimpleNamespace(limits=SimpleNamespace(wait_seconds=60.0))
    services = SimpleNamespace(waiting=Waiting(), memory=Memory(MIB), settings=settings)
    holding = SimpleNamespace(claim=Claim(services.memory, "answers"))
    values = {"max_wait_ms": 60_000, "min_bytes": 1 << 30}
    asyncio.run(fetch._wait(SimpleNamespace(values=values, services=services, holding=holding), []))
    assert rests == pytest.approx([fetch.REST * 0.002] * 2)


# --- answers ----------------------------------------------------------------------------------------------------------


def test_a_group_that_a_request_names_again_and_again_is_described_once(kafka, name):
    with kafka.connection() as raw:
        for api, version, field, answered in (
            (DESCRIBE_GROUPS, 0, "groups", "groups"),
            (CONSUMER_GROUP_DESCRIBE, 0, "group_ids", "groups"),
            (DESCRIBE_TRANSACTIONS, 0, "transactional_ids", "transaction_states"),
        ):
            assert len(raw.ask(api, version, {field: [name, "other"] * 500})[answered]) == 2


def test_an_offset_that_a_request_names_again_and_again_is_answered_once(kafka, topic, name):
    part = {"partition_index": 0, "committed_offset": 0, "committed_metadata": "m" * 4000}
    wanted = {"name": topic, "partition_indexes": [0] * 1000}
    with kafka.connection() as raw:
        who = {"generation_id": -1, "member_id": "", "retention_time_ms": -1}
        raw.ask(OFFSET_COMMIT, 2, {"group_id": name, **who, "topics": [{"name": topic, "partitions": [part]}]})
        [found] = raw.ask(OFFSET_FETCH, 2, {"group_id": name, "topics": [wanted]})["topics"]
        assert [one["metadata"] for one in found["partitions"]] == ["m" * 4000]
        group = {"group_id": name, "topics": None}
        assert len(raw.ask(OFFSET_FETCH, 8, {"groups": [group] * 1000})["groups"]) == 1


def test_a_description_of_members_holds_memory_until_it_is_read(own_kafka):
    kafka, size = own_kafka(), 4 * MIB - 4096
    groups = [f"g{number}" for number in range(4)]
    with kafka.connection() as raw:
        for group in groups:
            who = {"group_id": group, "session_timeout_ms": 60_000, "member_id": "", "protocol_type": "consumer"}
            found = raw.ask(JOIN_GROUP, 0, {**who, "protocols": [{"name": "range", "metadata": bytes(size)}]})
            given = [{"member_id": found["member_id"], "assignment": b""}]
            generation = {"group_id": group, "generation_id": found["generation_id"], "member_id": found["member_id"]}
            assert raw.ask(SYNC_GROUP, 0, {**generation, "assignments": given})["error_code"] == codes.NONE
        raw.send(DESCRIBE_GROUPS, 0, {"groups": groups * 100})
        until(lambda: held(kafka.url) > 4 * size)
        assert 4 * size < len(raw.response()) < 5 * size
        until(lambda: held(kafka.url) == 0)


@pytest.mark.parametrize("keys", [None, ["consumer.session.timeout.ms"], []])
def test_a_description_of_configs_claims_what_it_has_and_not_what_it_might_have(keys):
    claimed = []

    async def room(more):
        claimed.append(more)

    kinds = [32, *[99] * 99]  # a group, and what has no configs
    named = [
        {"resource_type": kind, "resource_name": f"x{at}", "configuration_keys": keys} for at, kind in enumerate(kinds)
    ]
    call = SimpleNamespace(values={"resources": named, "include_documentation": False}, room=room)
    found = asyncio.run(describe_configs(call))["results"]
    assert len(found) == 100
    assert bool(found[0]["configs"]) is (keys != [])
    assert sum(claimed) == ENTRY_BYTES * sum(1 + len(one["configs"]) for one in found)


def test_a_member_holds_no_memory_for_its_answer_while_it_waits_for_others(own_kafka):
    kafka, who = (
        own_kafka(),
        {"group_id": "g", "session_timeout_ms": 60_000, "member_id": "", "protocol_type": "consumer"},
    )
    protocols = [{"name": f"range{number}", "metadata": b""} for number in range(1000)]
    described = {"groups": ["g"]}
    with kafka.connection() as first, kafka.connection() as second, kafka.connection() as raw:
        found = first.ask(JOIN_GROUP, 0, {**who, "protocols": protocols[:1]})
        given = {"group_id": "g", "generation_id": found["generation_id"], "member_id": found["member_id"]}
        assert first.ask(SYNC_GROUP, 0, {**given, "assignments": []})["error_code"] == codes.NONE
        second.send(JOIN_GROUP, 0, {**who, "protocols": protocols})
        until(lambda: raw.ask(DESCRIBE_GROUPS, 0, described)["groups"][0]["group_state"] == "PreparingRebalance")
        assert held(kafka.url) == 0


def send_and_wait(kafka, raw, api, version, values):
    """Send a long request; return when its answer waits and the memory that it came in is released."""
    data = struct.pack(">hhih", api.key, version, 7, -1) + body_of(api, version, values)
    raw.socket.sendall(struct.pack(">i", len(data)) + data[:-1])
    until(lambda: held(kafka.url, "bodies") > 0)
    raw.socket.sendall(data[-1:])
    until(lambda: held(kafka.url, "bodies") == 0)
    assert select.select([raw.socket], [], [], 0)[0] == []


def test_a_member_that_waits_for_others_does_not_hold_the_memory_that_its_request_came_in(own_kafka):
    kafka, long = own_kafka(), bytes(300_000)
    timeouts = {"session_timeout_ms": 60_000, "rebalance_timeout_ms": 60_000}
    who = {"group_id": "g", **timeouts, "member_id": "", "protocol_type": "consumer"}
    with kafka.connection() as first, kafka.connection() as second:
        leader = first.ask(JOIN_GROUP, 1, {**who, "protocols": [{"name": "range", "metadata": b""}]})
        given = {"group_id": "g", "generation_id": 1, "member_id": leader["member_id"], "assignments": []}
        assert first.ask(SYNC_GROUP, 0, given)["error_code"] == codes.NONE
        send_and_wait(kafka, second, JOIN_GROUP, 1, {**who, "protocols": [{"name": "range", "metadata": long}]})
        again = {**who, "member_id": leader["member_id"], "protocols": [{"name": "range", "metadata": b""}]}
        assert first.ask(JOIN_GROUP, 1, again)["error_code"] == codes.NONE
        joined = JOIN_GROUP.response.read(Reader(second.response()[4:]), JOIN_GROUP.form(1))
        assignments = [{"member_id": "nobody", "assignment": long}]
        sent = {"group_id": "g", "generation_id": 2, "member_id": joined["member_id"], "assignments": assignments}
        send_and_wait(kafka, second, SYNC_GROUP, 0, sent)
        assert first.ask(SYNC_GROUP, 0, given | {"generation_id": 2})["error_code"] == codes.NONE
        assert SYNC_GROUP.response.read(Reader(second.response()[4:]), SYNC_GROUP.form(0))["error_code"] == codes.NONE


def test_a_fetch_that_waits_for_records_does_not_hold_the_memory_that_it_came_in(own_kafka):
    kafka = own_kafka()
    with Client(kafka.url) as http, kafka.connection() as raw:
        send_and_wait(kafka, raw, FETCH, 4, fetch_of("default", [0] * 10_000, wait_ms=60_000))
        http.topic("default").append(b"v")
        assert raw.response().endswith(b"v\0")


def test_a_long_name_of_a_topic_is_not_repeated_for_each_partition(kafka):
    parts = [{"index": number, "records": None} for number in range(1000)]
    values = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": "n" * 30_000, "partition_data": parts}]}
    with kafka.connection() as raw:
        raw.send(PRODUCE, 8, values)
        assert len(raw.response()) < MIB


def test_the_records_that_are_to_blame_are_listed_up_to_a_number_for_the_whole_request(kafka, name):
    with Client(kafka.url) as http:
        http.create_topic(name, partitions=4, config=LogConfig(retention=Retention(compact=True)))
    batch = kio_batch([(1000, None, b"v", ())] * 900)
    parts = [{"index": number, "records": batch} for number in range(4)]
    with kafka.connection() as raw:
        wanted = {"acks": 1, "timeout_ms": 1000, "topic_data": [{"name": name, "partition_data": parts}]}
        found = raw.ask(PRODUCE, 8, wanted)["responses"][0]["partition_responses"]
    assert [len(one["record_errors"]) for one in found] == [250] * 4


# --- compressed records -----------------------------------------------------------------------------------------------


def xerial(data):
    blocks = [bytes(pa.compress(data[at : at + 32768], codec="snappy")) for at in range(0, len(data), 32768)]
    return b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(one)) + one for one in blocks)


CODECS = {
    "gzip": (1, gzip.compress),
    "snappy": (2, lambda data: pa.compress(data, codec="snappy", asbytes=True)),
    "snappy-java": (2, xerial),
    "lz4": (3, lambda data: lz4.frame.compress(data, store_size=False)),
    "zstd": (4, lambda data: pa.compress(data, codec="zstd", asbytes=True)),
}


def bomb(codec, size):
    """Return a batch of one record, which is not valid: zeros, compressed."""
    number, compress = CODECS[codec]
    checked = struct.pack(">hiqqqhii", number, 0, 0, 0, -1, -1, -1, 1) + compress(bytes(size))
    return struct.pack(">qiibI", 0, len(checked) + 9, 0, 2, crc32c(checked)) + checked


def test_compressed_records_are_claimed_for_a_bound_that_rises():
    bounds = []

    async def work(bound):
        bounds.append(bound)
        if bound < 30 * MIB:
            raise TooLarge(bound)
        return bound

    small = bomb("zstd", 30 * MIB)
    assert asyncio.run(in_bounds(small, head_of(small), MOST, work)) == 64 * MIB
    assert bounds == [MIB, 4 * MIB, 16 * MIB, 64 * MIB]
    assert decoded_bytes(head_of(small), 64 * MIB) > 3 * 64 * MIB
    bounds.clear()
    with pytest.raises(TooLarge):
        asyncio.run(in_bounds(small, head_of(small), 20 * MIB, work))
    assert bounds == [MIB, 4 * MIB, 16 * MIB, 20 * MIB]


def attacked(server, codec, requests):
    """Send that many batches of 63 MiB of zeros at once; return the codes of the answers."""
    batch = bomb(codec, 63 * MIB)
    data = [{"name": "default", "partition_data": [{"index": 0, "records": batch}]}]

    def send(_):
        with server.connection() as raw:
            raw.send(PRODUCE, 8, {"acks": 1, "timeout_ms": 5000, "topic_data": data})
            return produced(raw.response())[0]

    with ThreadPoolExecutor(requests) as threads:
        return set(threads.map(send, range(requests)))


def serves_under_attack(tmp_path, codec, requests):
    server = Limited(tmp_path / "root")
    try:
        assert attacked(server, codec, requests) == {codes.INVALID_RECORD}
        assert Confluent(server.address).produce("default", [Sent(b"v")], codec="zstd") == [0]
        return server.resident()
    finally:
        server.stop()


def test_small_requests_whose_records_are_large_take_their_turn_in_memory(tmp_path):
    assert serves_under_attack(tmp_path, "zstd", 12) < 700 * MIB


@pytest.mark.proof
@pytest.mark.parametrize("codec", CODECS)
def test_small_requests_of_each_codec_whose_records_are_large_take_their_turn_in_memory(tmp_path, codec):
    assert serves_under_attack(tmp_path, codec, 48) < 1024 * MIB


@pytest.mark.proof
def test_full_requests_of_many_clients_at_once_leave_memory_for_others(tmp_path):
    """Each is as large as its kind may be, and either refused or answered."""
    places = struct.pack(">iiqiqi", 0, -1, 0, -1, 0, 1000) + b"\0"
    fetch = struct.pack(">iiiibii", -1, 100, 1, 1_000_000, 0, 0, -1) + varint(2) + varint(8) + b"default"
    attacks = [
        (PRODUCE, 9, b"\0" + produce_of_empty_topics(5_000_000)),
        (FETCH, 12, b"\0" + fetch_of_empty_topics(600_000)),
        (FETCH, 12, b"\0" + fetch + varint(20_001) + places * 20_000 + b"\0" + b"\x01\x01\0"),
        (DESCRIBE_GROUPS, 0, struct.pack(">i", 20_000) + b"".join(b"\0\6%06d" % number for number in range(20_000))),
    ]
    server = Limited(tmp_path / "root")

    def send(attack):
        api, version, body = attack
        with server.connection() as raw:
            raw.request(api.key, version, body)
            return raw.response()

    try:
        with ThreadPoolExecutor(24) as threads:
            answers = list(threads.map(send, attacks * 6))
        assert [bool(one) for one in answers] == [False, False, True, True] * 6
        assert Confluent(server.address).produce("default", [Sent(b"v")]) == [0]
        assert server.resident() < 1024 * MIB
    finally:
        server.stop()
