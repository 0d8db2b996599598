"""Find the logs of a place: of a topic, of a directory of topics, or a standalone log. Opens none of them.

A standalone log is partition 0 of a topic with its directory's name, also where callers name partitions.
"""

from __future__ import annotations

import errno
import os
from dataclasses import dataclass

from seglog.errors import LogNotFound, NotALog
from seglog.format import filename
from seglog.log.opening import storage_at
from seglog.storage import Storage, Subdirectory, is_directory
from seglog.topic.layout import description

Partition = tuple[str, int]
"""A topic's name and a partition's number."""


@dataclass(frozen=True, slots=True)
class Place:
    """The log of one partition."""

    topic: str
    partition: int
    path: str

    @property
    def key(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition


def logs_at(place: str | os.PathLike[str] | Storage) -> list[Place]:
    """Return the logs of a log, a topic or a directory of topics, by topic and partition.

    Raises LogNotFound if nothing is there, NotALog for a file or anything else, and the errors of reading a topic.json.
    """
    root = storage_at(place)
    topics = topics_at(root)
    if topics:
        return [place for name in sorted(topics) for place in topics[name]]
    if not root.exists():
        raise LogNotFound(errno.ENOENT, "there is neither a log nor a topic here", root.path)
    raise NotALog(errno.ENOTDIR, "this is neither a log, a topic nor a directory of topics", root.path)


def topics_at(place: str | os.PathLike[str] | Storage) -> dict[str, list[Place]]:
    """Return every topic's partitions, of a topic, a log or a directory of topics; empty if there are none.

    Raises NotALog if two topics have the same name.
    """
    root = storage_at(place)
    if description.is_topic(root):
        return dict([_topic(root)])
    if is_log(root):
        name = root.path.rpartition("/")[2]
        return {name: [Place(name, 0, root.path)]}
    found: dict[str, list[Place]] = {}
    for directory in description.below(root):
        name, partitions = _topic(Subdirectory(root, directory))
        if name in found:
            other = found[name][0].path.rpartition("/")[0]
            raise NotALog(f"two topics at {root.path} have the name {name!r}: {other} and {root.path}/{directory}")
        found[name] = partitions
    return found


def storage_of(root: Storage, place: Place) -> Storage:
    """Return the directory of a log that `logs_at(root)` or `topics_at(root)` found."""
    inner = place.path.removeprefix(root.path).strip("/")
    return Subdirectory(root, inner) if inner else root


def is_log(place: str | os.PathLike[str] | Storage) -> bool:
    """Whether a directory is a standalone log, in whatever state."""
    root = storage_at(place)
    if any(root.identity(name) is not None for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS)):
        return True
    names = root.names() if is_directory(root) else []
    return any(filename.parse_segment_file(name) and not is_directory(root, name) for name in names)


def _topic(root: Storage) -> tuple[str, list[Place]]:
    topic = description.read(root)
    return topic.name, [Place(topic.name, number, f"{root.path}/{number}") for number in range(topic.partitions)]
