"""The logs at a place: of a topic's partitions, of one log, or of every topic of a directory."""

from __future__ import annotations

from dataclasses import dataclass

from seglog.storage import Storage
from seglog.topic.layout import description
from seglog.topic.layout.creation import partition_of
from seglog.topic.layout.places import is_log
from seglog.topic.repair.discover import site_at


@dataclass(frozen=True, slots=True)
class Logs:
    """The logs that one table holds. name: of the topic, or of the log's directory; places: partition -> its log."""

    name: str
    path: str
    places: dict[int, Storage]


def sources_at(root: Storage) -> list[Storage]:
    """Return what becomes a table each: a log, a topic, or every topic of a directory.

    Raises LogNotFound or NotALog if there is nothing of seglog.
    """
    site = site_at(root)
    return [root] if site.kind == "log" else list(site.topics.values())


def logs_of(source: Storage) -> Logs:
    """Return the logs of one table. Raises the errors of reading a topic's description."""
    if is_log(source):
        return Logs(source.path.rstrip("/").rpartition("/")[2] or "log", source.path, {0: source})
    topic = description.read(source)
    numbers = range(topic.partitions)
    return Logs(topic.name, source.path, {number: partition_of(source, number) for number in numbers})
