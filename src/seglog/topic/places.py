"""From a path to the logs behind it: of a topic, of a directory of topics, or a log alone. Opens none of them.

A log alone is partition 0 of a topic named like its directory; whoever names partitions means these names.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seglog.errors import LogNotFound, NotALog
from seglog.format import filename
from seglog.topic import description

if TYPE_CHECKING:
    import os

Partition = tuple[str, int]
"""A topic's name and the number of one of its partitions."""


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


def logs_at(path: str | os.PathLike[str]) -> list[Place]:
    """Return the logs of a log, a topic or a directory of topics, in order of topic and partition.

    LogNotFound where nothing is, NotALog for a file or something else; what reading a topic.json raises.
    """
    root = Path(path).absolute()
    topics = topics_at(root)
    if topics:
        return [place for name in sorted(topics) for place in topics[name]]
    if not root.exists():
        raise LogNotFound(errno.ENOENT, "there is neither a log nor a topic here", str(root))
    raise NotALog(errno.ENOTDIR, "this is neither a log, a topic nor a directory of topics", str(root))


def topics_at(root: Path) -> dict[str, list[Place]]:
    """Return every topic's partitions: of a topic, a log or a directory of topics; none where there are none.

    NotALog where two topics have one name.
    """
    if description.is_topic(root):
        return dict([_topic(root)])
    if is_log(root):
        return {root.name: [Place(root.name, 0, str(root))]}
    found: dict[str, list[Place]] = {}
    for directory in description.below(root):
        name, partitions = _topic(directory)
        if name in found:
            other = Path(found[name][0].path).parent
            raise NotALog(f"two topics at {root} are called {name!r}: {other} and {directory}")
        found[name] = partitions
    return found


def is_log(root: Path) -> bool:
    """Whether a directory is a log by itself, in whatever state."""
    if (root / filename.MANIFEST).is_file() or (root / filename.MANIFEST_PREVIOUS).is_file():
        return True
    return root.is_dir() and any(filename.parse_segment_file(entry.name) for entry in root.iterdir())


def _topic(root: Path) -> tuple[str, list[Place]]:
    topic = description.read(root)
    return topic.name, [Place(topic.name, number, str(root / str(number))) for number in range(topic.partitions)]
