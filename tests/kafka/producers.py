"""Producers that send any request, as no client does, and return its error code."""

from __future__ import annotations

from seglog.client import Client
from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.messages.producers import INIT_PRODUCER_ID
from seglog.kafka.messages.transactions import ADD_OFFSETS_TO_TXN, ADD_PARTITIONS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT
from seglog.kafka.records.layout import TRANSACTIONAL
from seglog.kafka.wire.buffers import Reader
from tests.kafka.conftest import body_of, connected
from tests.kafka.test_record_batches import kio_batch
from tests.waiting import HANG_SECONDS

VERSION = 8  # of the Produce requests here


def batch_of(values, **head):
    """Return a record batch. head: as of `kio_batch`."""
    return kio_batch([(1000, None, value, ()) for value in values], **head)


def produce_of(parts, *, acks, topic="orders"):
    """Return the body of a Produce. parts: the records of each partition, from the first on; None: there are none."""
    data = [{"index": number, "records": records} for number, records in enumerate(parts)]
    request = {"acks": acks, "timeout_ms": 60_000, "topic_data": [{"name": topic, "partition_data": data}]}
    return body_of(PRODUCE, VERSION, request)


def produced(response):
    """Return the error code and the offset that a response to a Produce has for its first partition."""
    found = PRODUCE.response.read(Reader(response[4:]), PRODUCE.form(VERSION))
    answer = found["responses"][0]["partition_responses"][0]
    return answer["error_code"], answer["base_offset"]


def stored(kafka, topic, partition=0):
    """Return the values of a partition, read by HTTP."""
    with Client(kafka.url) as http:
        return [record.value for record in http.topic(topic).records(partition)]


class Raw:
    """What both kinds have: each request is on a connection of its own."""

    def __init__(self, kafka, version, name, timeout_ms):
        self.kafka, self.name = kafka, name
        found = self.ask(INIT_PRODUCER_ID, version, transactional_id=name, transaction_timeout_ms=timeout_ms)
        self.error, self.id, self.epoch = found["error_code"], found["producer_id"], found["producer_epoch"]

    def ask(self, api, version, **values):
        with connected(self.kafka.address) as raw:
            return raw.ask(api, version, values)

    def send_batch(self, topic, sequence, values, *, partition=0, producer=None, epoch, attributes):
        """Send a batch; return (error code, offset)."""
        place = {"partition": partition, "producer": producer}
        found = self.answer(topic, sequence, values, epoch=epoch, attributes=attributes, **place)
        return found["error_code"], found["base_offset"]

    def answer(self, topic, sequence, values, *, partition=0, producer=None, epoch, attributes):
        """Send a batch; return the answer for the partition."""
        head = {"producer": producer or self.id, "epoch": epoch, "sequence": sequence, "attributes": attributes}
        part = {"index": partition, "records": batch_of(values, **head)}
        data = [{"name": topic, "partition_data": [part]}]
        found = self.ask(PRODUCE, VERSION, transactional_id=self.name, acks=-1, timeout_ms=1000, topic_data=data)
        return found["responses"][0]["partition_responses"][0]


class RawProducer(Raw):
    """An idempotent producer of a topic, which sends any sequence."""

    def __init__(self, kafka, topic):
        super().__init__(kafka, 0, None, 1000)
        self.topic = topic

    def send(self, sequence, values, *, epoch=0, partition=0, producer=None):
        """Send a batch; return (error code, offset)."""
        place = {"partition": partition, "producer": producer}
        return self.send_batch(self.topic, sequence, values, epoch=epoch, attributes=0, **place)


class RawTransactional(Raw):
    """A transactional producer. version: of its requests."""

    def __init__(self, kafka, name, timeout_ms=1000 * HANG_SECONDS, version=2):
        super().__init__(kafka, 1, name, timeout_ms)
        self.version = version

    def who(self):
        return {"transactional_id": self.name, "producer_id": self.id, "producer_epoch": self.epoch}

    def add(self, topic, *partitions):
        """Add partitions; return an error code for each."""
        topics = [{"name": topic, "partitions": list(partitions)}]
        found = self.ask(ADD_PARTITIONS_TO_TXN, self.version, **self.who(), topics=topics)["results_by_topic"]
        return [one["partition_error_code"] for one in found[0]["results_by_partition"]]

    def add_group(self, group):
        return self.ask(ADD_OFFSETS_TO_TXN, self.version, **self.who(), group_id=group)["error_code"]

    def commit_offset(self, group, topic, offset):
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "m"}
        topics = [{"name": topic, "partitions": [part]}]
        found = self.ask(TXN_OFFSET_COMMIT, 2, **self.who(), group_id=group, topics=topics)["topics"]
        return found[0]["partitions"][0]["error_code"]

    def send(self, topic, sequence, values, partition=0, attributes=TRANSACTIONAL):
        """Send a batch; return (error code, offset)."""
        return self.send_batch(topic, sequence, values, partition=partition, epoch=self.epoch, attributes=attributes)

    def end(self, *, commit=True):
        return self.ask(END_TXN, self.version, **self.who(), committed=commit)["error_code"]
