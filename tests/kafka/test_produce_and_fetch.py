"""Kafka's own clients produce to a real server and consume from it; HTTP shows the same records."""

from __future__ import annotations

import confluent_kafka
import httpx
import pytest

from seglog import LogConfig, Retention
from seglog.client import Client
from seglog.kafka.messages.core import OFFSET_FOR_LEADER_EPOCH
from tests.kafka.clients import CLIENTS, Confluent, Sent
from tests.waiting import HANG_SECONDS

BORN = 1_700_000_000_123
RECORDS = [
    Sent(b"first", b"key", (("trace", b"\x01\x02"), ("empty", b""), ("trace", b"again")), BORN),
    Sent(b"", b"", (), BORN + 1),
    Sent(None, b"gone", (), BORN + 2),
    Sent(b"x" * 5000, None, (("name", b"v" * 300),), BORN),
    *(Sent(b"%d" % number, b"k%d" % (number % 3), (), BORN + 10 + number) for number in range(300)),
]


@pytest.fixture(params=CLIENTS)
def client(kafka, request):
    return CLIENTS[request.param](kafka.address)


def shown(records):
    return [(one.key, one.value, one.headers, one.timestamp) for one in records]


@pytest.mark.parametrize("codec", ["none", "gzip"])
def test_a_client_reads_what_it_produced(client, codec, name):
    assert client.produce(name, RECORDS, codec=codec) == list(range(len(RECORDS)))
    found = client.consume(name, len(RECORDS))
    assert shown(found) == shown(RECORDS)
    assert [one.offset for one in found] == list(range(len(RECORDS)))


@pytest.mark.parametrize("codec", ["snappy", "lz4", "zstd"])
def test_every_codec_of_librdkafka_is_decompressed(kafka, codec, name):
    client = Confluent(kafka.address)
    client.produce(name, RECORDS, codec=codec)
    assert shown(client.consume(name, len(RECORDS))) == shown(RECORDS)


@pytest.mark.parametrize("acks", [0, 1, "all"])
def test_every_acknowledgement_stores_the_records(client, acks, name):
    client.produce(name, RECORDS[:5], acks=acks)
    assert shown(client.consume(name, 5)) == shown(RECORDS[:5])


def test_what_a_client_produced_is_read_over_http_and_back(kafka, client, name):
    client.produce(name, RECORDS[:3])
    with Client(kafka.url) as http:
        topic = http.topic(name)
        found = [topic.read(0, offset) for offset in range(3)]
        assert [(one.key, one.value, one.headers, one.timestamp) for one in found] == [
            (one.key, one.value, one.headers, one.timestamp * 1000) for one in RECORDS[:3]
        ]
        topic.append(b"from http", key=b"k", timestamp=BORN * 1000 + 999, headers=[("a", None)], partition=0)
    last = client.consume(name, 1, start=3)[0]
    assert (last.key, last.value, last.headers, last.timestamp) == (b"k", b"from http", (("a", None),), BORN)


def test_an_idempotency_key_of_http_is_no_header_for_kafka(kafka, client, name):
    with Client(kafka.url) as http:
        http.create_topic(name)
        http.topic(name).append(b"v", once="an id", headers=[("mine", b"1")])
    assert client.consume(name, 1)[0].headers == (("mine", b"1"),)


def test_a_consumer_waits_for_the_next_record(kafka, client, name):
    client.produce(name, RECORDS[:1])
    with httpx.Client(base_url=kafka.url, timeout=HANG_SECONDS) as http:
        http.post(f"/topics/{name}/records", content=b"later").raise_for_status()
        assert client.consume(name, 2)[1].value == b"later"


def test_large_values_are_fetched_even_if_they_exceed_the_limits(kafka, name):
    client = Confluent(kafka.address, **{"message.max.bytes": 9_000_000, "fetch.message.max.bytes": 100_000})
    client.produce(name, [Sent(b"y" * 5_000_000), Sent(b"z")])
    assert [len(one.value) for one in client.consume(name, 2)] == [5_000_000, 1]


def test_offsets_without_records_are_skipped(kafka, client, name):
    with Client(kafka.url) as http:
        config = LogConfig(segment_bytes=4096, retention=Retention(compact=True, min_dirty_ratio=1.0))
        topic = http.create_topic(name, config=config)
        client.produce(name, [Sent(b"%d" % number + bytes(100), b"k%d" % (number % 4)) for number in range(400)])
        topic.compact()
    found = client.consume(name, 4)
    assert [one.offset for one in found] == [396, 397, 398, 399]
    assert [one.offset for one in client.consume(name, 2, start=398)] == [398, 399]


def test_a_client_finds_out_that_records_it_has_read_were_truncated(kafka, name):
    client = Confluent(kafka.address, **{"topic.metadata.refresh.interval.ms": 1000})
    client.produce(name, [Sent(b"old") for _ in range(10)])
    options = {"group.id": "unused", "auto.offset.reset": "error", "enable.auto.commit": False}
    consumer = confluent_kafka.Consumer({**client.config, **options})
    consumer.assign([confluent_kafka.TopicPartition(name, 0, 0)])
    assert len(consumer.consume(10, HANG_SECONDS)) == 10
    with Client(kafka.url) as http:
        http.topic(name).truncate(0, 5)
    client.produce(name, [Sent(b"new") for _ in range(20)])  # the consumer's position holds another record now
    error = consumer.poll(HANG_SECONDS).error()
    assert "truncation" in error.str()
    consumer.close()
    assert [one.value for one in client.consume(name, 25)] == [b"old"] * 5 + [b"new"] * 20


def test_the_end_of_an_epoch_is_where_it_was_cut(kafka, name):
    Confluent(kafka.address).produce(name, [Sent(b"v") for _ in range(10)])
    with Client(kafka.url) as http:
        for offset in (7, 4):
            http.topic(name).truncate(0, offset)
            http.topic(name).append(b"v")

    def ends(*epochs):
        places = [{"partition": 0, "current_leader_epoch": -1, "leader_epoch": epoch} for epoch in epochs]
        with kafka.connection() as raw:
            found = raw.ask(OFFSET_FOR_LEADER_EPOCH, 3, {"topics": [{"topic": name, "partitions": places}]})
        return [(one["leader_epoch"], one["end_offset"]) for one in found["topics"][0]["partitions"]]

    assert ends(0, 1, 2, 3) == [(0, 4), (0, 4), (2, 5), (-1, -1)]


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_a_record_with_more_headers_than_over_http_is_refused(kafka, name, codec):
    client = Confluent(kafka.address)
    headers = tuple((f"h{number}", b"") for number in range(1001))
    client.produce(name, [Sent(b"v", headers=headers[1:])], codec=codec)
    with pytest.raises(confluent_kafka.KafkaException) as caught:
        client.produce(name, [Sent(b"v", headers=headers)], codec=codec)
    assert caught.value.args[0].code() == confluent_kafka.KafkaError.INVALID_RECORD
