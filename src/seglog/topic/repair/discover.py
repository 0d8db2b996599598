"""Find the topics and logs at a place, however damaged it is. Opens none of them.

Directories count more than `topic.json`: a topic that has lost it is still found by its partitions.
"""

from __future__ import annotations

from dataclasses import dataclass

from seglog.errors import SeglogError, StorageError
from seglog.log.opening import existing
from seglog.storage import Storage, Subdirectory, is_directory
from seglog.topic.layout import description
from seglog.topic.layout.creation import holds_records
from seglog.topic.layout.places import is_log
from seglog.topic.layout.root import OFFSETS, PRODUCERS
from seglog.topic.transactions.transactions import DIRECTORY as TRANSACTIONS


@dataclass(frozen=True)
class Site:
    """A place. kind: log, topic or broker; topics: directory -> storage; a standalone topic under ""."""

    kind: str
    root: Storage
    topics: dict[str, Storage]

    @property
    def offsets(self) -> Storage | None:
        """The broker's own log of consumer groups, None if there is none."""
        return self._own(OFFSETS)

    @property
    def producers(self) -> Storage | None:
        """The broker's own log of transactional ids, None if there is none."""
        return self._own(PRODUCERS)

    def _own(self, name: str) -> Storage | None:
        own = Subdirectory(self.root, name)
        return own if self.kind == "broker" and is_log(own) else None

    @property
    def transactions(self) -> Storage | None:
        """The directory of the files of transactions, None if there is none."""
        there = self.kind == "broker" and is_directory(self.root, TRANSACTIONS)
        return Subdirectory(self.root, TRANSACTIONS) if there else None


def site_at(root: Storage) -> Site:
    """Return what is at a place. Raises LogNotFound or NotALog if there is nothing of seglog."""
    if is_log(root):
        return Site("log", root, {})
    if _is_topic(root):
        return Site("topic", root, {"": root})
    names = [name for name in root.names() if not name.startswith(".")] if is_directory(root) else []
    below = {name: Subdirectory(root, name) for name in names if is_directory(root, name)}
    topics: dict[str, Storage] = {name: place for name, place in below.items() if _may_be_topic(place)}
    if topics or is_log(Subdirectory(root, OFFSETS)):
        return Site("broker", root, topics)
    return Site("log", existing(root), {})


def _may_be_topic(place: Storage) -> bool:
    """Like `_is_topic`; a directory that cannot be read counts, so that it is reported."""
    try:
        return _is_topic(place)
    except SeglogError:
        return True


def _is_topic(place: Storage) -> bool:
    """Whether a directory is a topic, or was one: without topic.json, non-empty partitions decide.

    Empty ones are left by an interrupted creation; the next creation removes them.
    """
    if description.is_topic(place):
        return True
    return is_directory(place) and any(holds_records(place, str(number)) for number in partition_numbers(place))


def partition_numbers(topic: Storage) -> list[int]:
    """Return the numbers of the existing partition directories, sorted."""
    names = [name for name in topic.names() if name.isdecimal() and str(int(name)) == name]
    return sorted(int(name) for name in names if is_directory(topic, name))


def logs_of(topic: Storage, name: str) -> dict[str, Storage]:
    """Return name -> storage of a topic's partitions: those named by topic.json, and those that exist."""
    try:
        numbers = list(range(description.read(topic).partitions))
    except SeglogError:
        numbers = partition_numbers(topic)
    there = [number for number in numbers if is_there(topic, number)]
    return {f"{name}/{number}" if name else str(number): Subdirectory(topic, str(number)) for number in there}


def is_there(topic: Storage, number: int) -> bool:
    """Whether a partition's directory holds anything; one that cannot be read does."""
    try:
        return is_directory(topic, str(number)) and bool(topic.names(str(number)))
    except StorageError:
        return True
