"""The transactional producers of the Python clients in one form. After an error of a client the producer is done."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Self

import aiokafka
import confluent_kafka

import kafka as kafka_python
from tests.kafka.clients import AioKafka, Confluent, KafkaPython
from tests.waiting import HANG_SECONDS


def _in_time(call: Callable[[], object]) -> None:
    """Make a call that takes a limit of time, and raise TimeoutError if it takes longer than that.

    librdkafka 2.16 waits forever if the broker was killed during its AddOffsetsToTxn: it repeats this request, gets the
    answer, and sends nothing more.
    """
    done: queue.SimpleQueue[BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            call()
        except BaseException as error:  # noqa: BLE001 - it is raised by the caller
            done.put(error)
        else:
            done.put(None)

    threading.Thread(target=run, daemon=True).start()
    try:
        error = done.get(timeout=HANG_SECONDS + 5)
    except queue.Empty:
        raise TimeoutError("the client does not return") from None
    if error is not None:
        raise error


class TransactionalConfluent:
    """confluent-kafka."""

    def __init__(self, address: str, name: str, *, timeout_ms: int = 1000 * HANG_SECONDS) -> None:
        self.address, given = address, {"bootstrap.servers": address, "log_level": 0}
        options = {"transactional.id": name, "transaction.timeout.ms": timeout_ms, "linger.ms": 1}
        options |= {"reconnect.backoff.max.ms": 100, "message.timeout.ms": timeout_ms}
        self.producer = confluent_kafka.Producer({**given, **options})
        self.producer.init_transactions(HANG_SECONDS)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.purge()

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self.producer.produce(topic, value, partition=partition)

    def flush(self) -> None:
        self.producer.flush(HANG_SECONDS)

    def send_offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        consumer = confluent_kafka.Consumer({"bootstrap.servers": self.address, "group.id": group, "log_level": 0})
        named = [confluent_kafka.TopicPartition(topic, partition, offset)]
        group_now = consumer.consumer_group_metadata()
        try:
            _in_time(lambda: self.producer.send_offsets_to_transaction(named, group_now, HANG_SECONDS))
        finally:
            consumer.close()

    def end(self, *, commit: bool) -> None:
        if commit:
            self.producer.commit_transaction(HANG_SECONDS)
        else:
            self.producer.abort_transaction(HANG_SECONDS)

    def committed(self, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
        reader = Confluent(self.address, **{"isolation.level": "read_committed"})
        return [one.value for one in reader.consume(topic, count, partition=partition)]


class TransactionalKafkaPython:
    """kafka-python."""

    def __init__(self, address: str, name: str, *, timeout_ms: int = 1000 * HANG_SECONDS) -> None:
        self.address = address
        options = {"transactional_id": name, "transaction_timeout_ms": timeout_ms, "linger_ms": 1}
        self.producer = kafka_python.KafkaProducer(bootstrap_servers=address, **options)
        self.producer.init_transactions()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.producer.close(1.0)

    def begin(self) -> None:
        self.producer.begin_transaction()

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self.producer.send(topic, value, partition=partition)

    def flush(self) -> None:
        self.producer.flush(HANG_SECONDS)

    def send_offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        place = kafka_python.TopicPartition(topic, partition)
        named = {place: kafka_python.structs.OffsetAndMetadata(offset, "", -1)}
        self.producer.send_offsets_to_transaction(named, group)

    def end(self, *, commit: bool) -> None:
        if commit:
            self.producer.commit_transaction()
        else:
            self.producer.abort_transaction()

    def committed(self, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
        reader = KafkaPython(self.address, isolation_level="read_committed")
        return [one.value for one in reader.consume(topic, count, partition=partition)]


class TransactionalAioKafka:
    """aiokafka, whose event loop runs during each call."""

    def __init__(self, address: str, name: str, *, timeout_ms: int = 1000 * HANG_SECONDS) -> None:
        self.address = address
        self._runner = asyncio.Runner()

        async def start() -> Any:
            options = {"transactional_id": name, "transaction_timeout_ms": timeout_ms}
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, **options)
            try:
                await producer.start()
            except BaseException:
                await producer.stop()
                raise
            return producer

        try:
            self.producer = self._call(start())
        except BaseException:
            self._runner.close()
            raise
        self._sent: list[Any] = []

    def _call(self, work: Any) -> Any:
        async def limited() -> Any:
            return await asyncio.wait_for(work, HANG_SECONDS)

        return self._runner.run(limited())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with closing(self._runner):
            self._call(self.producer.stop())

    def begin(self) -> None:
        self._call(self.producer.begin_transaction())

    def send(self, topic: str, value: bytes, partition: int = 0) -> None:
        self._sent.append(self._call(self.producer.send(topic, value, partition=partition)))

    def flush(self) -> None:
        async def all_of_them() -> Sequence[Any]:
            return await asyncio.gather(*self._sent)

        self._call(all_of_them())
        self._sent.clear()

    def send_offsets(self, group: str, topic: str, partition: int, offset: int) -> None:
        named = {aiokafka.TopicPartition(topic, partition): offset}
        self._call(self.producer.send_offsets_to_transaction(named, group))

    def end(self, *, commit: bool) -> None:
        self._call(self.producer.commit_transaction() if commit else self.producer.abort_transaction())

    def committed(self, topic: str, count: int, partition: int = 0) -> list[bytes | None]:
        reader = AioKafka(self.address, isolation_level="read_committed")
        return [one.value for one in reader.consume(topic, count, partition=partition)]


TRANSACTIONAL = {
    "confluent-kafka": TransactionalConfluent,
    "kafka-python": TransactionalKafkaPython,
    "aiokafka": TransactionalAioKafka,
}
