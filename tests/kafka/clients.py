"""The Python clients in one form: produce and consume, each with its own library."""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple

import aiokafka
import confluent_kafka

import kafka as kafka_python
from tests.waiting import HANG_SECONDS


class Sent(NamedTuple):
    """A record as it is produced. timestamp: in ms, None: now."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp: int | None = None


class Got(NamedTuple):
    """A record as it is consumed."""

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class Confluent:
    """confluent-kafka, which is librdkafka."""

    def __init__(self, address: str, **options: Any) -> None:
        self.config = {"bootstrap.servers": address, "log_level": 0, **options}

    def produce(
        self,
        topic: str,
        records: list[Sent],
        *,
        partition: int = 0,
        acks: Any = "all",
        codec: str = "none",
        **options: Any,
    ) -> list[int]:
        found: list[Any] = []
        producer = confluent_kafka.Producer(
            {**self.config, "acks": acks, "compression.type": codec, "linger.ms": 5, **options}
        )
        for one in records:
            producer.produce(
                topic,
                one.value,
                one.key,
                partition,
                timestamp=one.timestamp or 0,
                headers=list(one.headers),
                on_delivery=lambda error, message: found.append(error or message.offset()),
            )
        assert producer.flush(HANG_SECONDS) == 0, "not everything was delivered"
        errors = [one for one in found if isinstance(one, confluent_kafka.KafkaError)]
        if errors:
            raise confluent_kafka.KafkaException(errors[0])
        return found

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int = 0) -> list[Got]:
        consumer = confluent_kafka.Consumer(
            {**self.config, "group.id": "unused", "enable.auto.commit": False, "auto.offset.reset": "error"}
        )
        consumer.assign([confluent_kafka.TopicPartition(topic, partition, start)])
        found, ends = [], time.monotonic() + HANG_SECONDS
        while len(found) < count:
            message = consumer.poll(1.0)
            assert time.monotonic() < ends, f"{len(found)} of {count} records"
            if message is None:
                continue
            if message.error():
                raise confluent_kafka.KafkaException(message.error())
            found.append(
                Got(
                    message.offset(),
                    message.timestamp()[1],
                    message.key(),
                    message.value(),
                    tuple(message.headers() or ()),
                )
            )
        consumer.close()
        return found


class KafkaPython:
    """kafka-python."""

    def __init__(self, address: str, **options: Any) -> None:
        self.config = {"bootstrap_servers": address, **options}

    def produce(
        self,
        topic: str,
        records: list[Sent],
        *,
        partition: int = 0,
        acks: Any = "all",
        codec: str = "none",
        **options: Any,
    ) -> list[int]:
        given = {"enable_idempotence": False, **options}
        producer = kafka_python.KafkaProducer(
            **self.config, acks=acks, compression_type=None if codec == "none" else codec, linger_ms=5, **given
        )
        waiting = [
            producer.send(
                topic,
                one.value,
                one.key,
                headers=list(one.headers),
                partition=partition,
                timestamp_ms=one.timestamp,
            )
            for one in records
        ]
        producer.flush(HANG_SECONDS)
        found = [one.get(HANG_SECONDS).offset for one in waiting]
        producer.close()
        return found

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int = 0) -> list[Got]:
        consumer = kafka_python.KafkaConsumer(
            **self.config, group_id=None, auto_offset_reset="none", consumer_timeout_ms=HANG_SECONDS * 1000
        )
        place = kafka_python.TopicPartition(topic, partition)
        consumer.assign([place])
        consumer.seek(place, start)
        found: list[Got] = []
        for one in consumer:
            found.append(Got(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)))
            if len(found) == count:
                break
        consumer.close()
        return found


class AioKafka:
    """aiokafka."""

    def __init__(self, address: str, **options: Any) -> None:
        self.config = {"bootstrap_servers": address, **options}

    def produce(
        self,
        topic: str,
        records: list[Sent],
        *,
        partition: int = 0,
        acks: Any = "all",
        codec: str = "none",
        **options: Any,
    ) -> list[int]:
        async def send() -> list[int]:
            kind = None if codec == "none" else codec
            async with aiokafka.AIOKafkaProducer(
                **self.config, acks=acks, compression_type=kind, linger_ms=5, **options
            ) as producer:
                waiting = [
                    await producer.send(
                        topic,
                        one.value,
                        one.key,
                        partition=partition,
                        timestamp_ms=one.timestamp,
                        headers=list(one.headers),
                    )
                    for one in records
                ]
                return [-1 if one is None else one.offset for one in await asyncio.gather(*waiting)]

        return asyncio.run(asyncio.wait_for(send(), HANG_SECONDS))

    def consume(self, topic: str, count: int, *, partition: int = 0, start: int = 0) -> list[Got]:
        async def read() -> list[Got]:
            place, found = aiokafka.TopicPartition(topic, partition), []
            consumer = aiokafka.AIOKafkaConsumer(**self.config, auto_offset_reset="none")
            await consumer.start()
            try:
                consumer.assign([place])
                consumer.seek(place, start)
                async for one in consumer:
                    found.append(Got(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)))
                    if len(found) == count:
                        return found
            finally:
                await consumer.stop()
            return found

        return asyncio.run(asyncio.wait_for(read(), HANG_SECONDS))


CLIENTS = {"confluent-kafka": Confluent, "kafka-python": KafkaPython, "aiokafka": AioKafka}
