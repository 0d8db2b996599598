"""Topics of a broker, as suites use them on both: created, and read to their end, by confluent-kafka."""

from __future__ import annotations

from collections.abc import Sequence

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Message, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.waiting import until

SECONDS = 240.0


def create(address: str, topics: Sequence[str], partitions: int = 1) -> None:
    """Create topics with one replica."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(name, partitions, 1) for name in topics]).values():
        future.result(SECONDS)


def messages(address: str, topic: str, partition: int = 0) -> list[Message]:
    """Return the committed records of a partition, up to its end."""
    settings = {"bootstrap.servers": address, "group.id": "readers", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, partition, OFFSET_BEGINNING)])
    found: list[Message] = []

    def ended() -> bool:
        found.extend(consumer.consume(1000, 0.5))
        return any(one.error() and one.error().code() == KafkaError._PARTITION_EOF for one in found)

    try:
        until(ended, SECONDS)
    finally:
        consumer.close()
    return [one for one in found if not one.error()]
