"""The ids of topics, by which Kafka's clients name them in newer requests: those of `topic.json`."""

from __future__ import annotations

import re
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.kafka.wire.schema import NO_UUID

if TYPE_CHECKING:
    from seglog.topic.broker import Broker
    from seglog.topic.topic import Topic

UUID = re.compile("[0-9a-f]{32}")


def uuid_of(topic: Topic) -> str:
    """Return a topic's id as 32 hex digits; one of another form, which seglog never wrote, is hashed."""
    is_uuid = UUID.fullmatch(topic.id) is not None and topic.id != NO_UUID
    return topic.id if is_uuid else sha256(topic.id.encode()).hexdigest()[: len(NO_UUID)]


class TopicIds:
    """Finds topics by their ids. What it remembers is checked at each use, as topics are deleted and created again."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._names: dict[str, str] = {}

    def known(self, uuid: str) -> str | None:
        """Return the name of a topic, None if it must be searched for; never waits."""
        name = self._names.get(uuid)
        topic = None if name is None else self._broker.if_open(name)
        return name if topic is not None and uuid_of(topic) == uuid else None

    def search(self, uuid: str) -> str | None:
        """Return the name of a topic, None if there is none; looks at all topics, so call it on a thread."""
        names = {}
        for name in self._broker.topics():
            with suppress(SeglogError):  # one that cannot be opened
                names[uuid_of(self._broker.if_open(name) or self._broker.topic(name))] = name
        self._names = names
        return names.get(uuid)
