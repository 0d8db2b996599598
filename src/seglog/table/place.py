"""The logs at a place: of a topic's partitions, of one log, or of every topic of a directory."""

from __future__ import annotations

from dataclasses import dataclass

from seglog.storage import Storage
from seglog.topic.layout import description
from seglog.topic.layout.creation import partition_of
from seglog.topic.repair.discover import site_at


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs that one table holds. name: of the topic, or of the log's directory; places: partition -> its log."""

    name: str
    path: str
    places: dict[int, Storage]


def logs_at(root: Storage) -> list[Logs]:
    """Return the logs of each table. Raises LogNotFound or NotALog if there is nothing of seglog."""
    site = site_at(root)
    if site.kind == "log":
        return [Logs(root.path.rstrip("/").rpartition("/")[2] or "log", root.path, {0: root})]
    return [_of_topic(place) for place in site.topics.values()]


def _of_topic(place: Storage) -> Logs:
    topic = description.read(place)
    numbers = range(topic.partitions)
    return Logs(topic.name, place.path, {number: partition_of(place, number) for number in numbers})
