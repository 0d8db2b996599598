"""What the leader of a group assigned to a member, as all consumers of Kafka write it. Pure."""

from __future__ import annotations

from typing import NamedTuple

from seglog.kafka.wire.buffers import Malformed, Reader
from seglog.topic.layout.places import Partition


class Assigned(NamedTuple):
    """The first partitions of a member. complete: whether these are all."""

    places: list[Partition]
    complete: bool


def assigned(data: bytes, most: int) -> Assigned | None:
    """Return up to `most` partitions of an assignment; None for one of another format. Reads no more than these."""
    if not data:
        return Assigned([], complete=True)
    source, places = Reader(data), list[Partition]()
    try:
        source.number(2)  # the version, of which all begin alike
        topics = source.number(4)
        for _ in range(min(topics, most)):
            topic = source.text(source.number(2))
            count = source.number(4)
            for _ in range(min(count, most - len(places))):
                places.append((topic, _partition(source)))
            if len(places) == most:
                return Assigned(places, complete=False)
    except Malformed:
        return None
    return Assigned(places, complete=topics <= most)


def _partition(source: Reader) -> int:
    number = source.number(4)
    if number < 0:
        raise Malformed(f"a partition has the number {number}")
    return number
