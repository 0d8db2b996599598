"""What can be copied: a log, a topic, or a directory of topics, by path. `remote` has the same of a server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, Protocol

from seglog.clock import Clock, system_clock
from seglog.errors import SeglogError
from seglog.log.opening import storage_at
from seglog.replication.source import LocalSource
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import description
from seglog.topic.layout.creation import partition_of
from seglog.topic.layout.description import Description
from seglog.topic.layout.places import Partition, is_log
from seglog.topic.layout.root import OFFSETS
from seglog.topic.repair.discover import site_at

if TYPE_CHECKING:
    from seglog.replication.source import LogSource

Kind = Literal["log", "topic", "broker"]


class SourcePlace(Protocol):
    """A place to copy. name: for errors; kind: what it is."""

    name: str
    kind: Kind

    def topics(self) -> dict[str, Description | None]:
        """Return the present topics by the names of their directories; a standalone topic is "" there.

        None: the topic is there, but cannot be read, perhaps because it is damaged.
        """
        ...

    def topic(self, directory: str) -> Description:
        """Return one of them, as it is now. Raises LogNotFound or TopicNotFound if it was deleted."""
        ...

    def log(self, topic: str, partition: int) -> LogSource:
        """Return the log of a partition; of a standalone log for ("", 0)."""
        ...

    def groups(self) -> LogSource | None:
        """Return the log of consumer groups; None if there is none."""
        ...

    def wait(self, positions: dict[Partition, int], seconds: float) -> None:
        """Return once a log may have a record after its position, or the time is over."""
        ...

    def close(self) -> None:
        """Release connections and files."""
        ...


class LocalPlace:
    """A log, a topic or a directory of topics at a path or in a Storage."""

    def __init__(self, place: str | os.PathLike[str] | Storage, *, clock: Clock = system_clock) -> None:
        self._root = storage_at(place)
        self._clock = clock
        kind = site_at(self._root).kind
        self.kind: Kind = "log" if kind == "log" else "topic" if kind == "topic" else "broker"
        self.name = self._root.path

    def topics(self) -> dict[str, Description | None]:
        """Return the present topics; see SourcePlace.topics."""
        if self.kind == "topic":
            return {"": self.topic("")}
        found: dict[str, Description | None] = {}
        for name, place in site_at(self._root).topics.items() if self.kind == "broker" else ():
            try:
                found[name] = description.read(place)
            except SeglogError:
                if place.exists():  # else it was deleted meanwhile
                    found[name] = None
        return found

    def topic(self, directory: str) -> Description:
        """Return one topic; see SourcePlace.topic."""
        return description.read(self._topic_at(directory))

    def _topic_at(self, directory: str) -> Storage:
        return Subdirectory(self._root, directory) if directory else self._root

    def log(self, topic: str, partition: int) -> LogSource:
        """Return the log of a partition; see SourcePlace.log."""
        if self.kind == "log":
            return LocalSource(self._root, clock=self._clock)
        return LocalSource(partition_of(self._topic_at(topic), partition), clock=self._clock)

    def groups(self) -> LogSource | None:
        """Return the log of consumer groups, if there is one."""
        own = Subdirectory(self._root, OFFSETS)
        return LocalSource(own, clock=self._clock) if self.kind == "broker" and is_log(own) else None

    def wait(self, positions: dict[Partition, int], seconds: float) -> None:
        """Return at once: looking again costs two stat calls for each log."""

    def close(self) -> None:
        """Do nothing: every log is closed on its own."""
