"""Copy a directory of topics: topics that come and go, and the log of consumer groups.

Committed offsets are fetched before the topics and appended after them, so they never exceed what the copy holds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from seglog.clock import Clock
from seglog.errors import CopyDiverged, LogNotFound, LogReplaced, SeglogError, TopicNotFound
from seglog.replication.log_mirror import LogMirror
from seglog.replication.rest import Rest
from seglog.replication.topic_mirror import TopicMirror, check_is_copy
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import deletion
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.description import Description
from seglog.topic.layout.names import checked_directory_name
from seglog.topic.layout.places import Partition
from seglog.topic.layout.root import OFFSETS, lock_to_write

if TYPE_CHECKING:
    from seglog.replication.places import SourcePlace

LOOK_SECONDS = 0.5  # between two looks at the names of topics
GROUPS = (OFFSETS, 0)


class BrokerMirror:
    """The copy of a directory of topics. topics: directory -> its mirror."""

    def __init__(
        self, source: SourcePlace, target: Storage, *, restart: bool, pin: bool, name: str, clock: Clock
    ) -> None:
        """restart, pin: see Mirror. name: of the whole copy."""
        self._source = source
        self._target = target
        self._options: dict[str, Any] = {"restart": restart, "pin": pin, "name": name, "clock": clock}
        self._looked_at = float("-inf")
        self.topics: dict[str, TopicMirror] = {}
        self.groups: LogMirror | None = None
        with ExitStack() as resources:
            lock = lock_to_write(target)
            resources.callback(lock.release)
            self._lock = lock.tree
            groups = source.groups()
            if groups is not None:
                resources.callback(groups.close)
                own = Subdirectory(target, OFFSETS, locked=self._lock)
                self.groups = LogMirror(groups, own, **self._options)
                resources.callback(self.groups.close)
            resources.callback(self._close_topics)
            deletion.clear(target)
            self._resources = resources.pop_all()

    def _close_topics(self) -> None:
        with ExitStack() as closing:
            for topic in self.topics.values():
                closing.callback(topic.close)
            self.topics.clear()

    @property
    def logs(self) -> dict[Partition, LogMirror]:
        """The mirrors of all partitions; that of the groups under GROUPS."""
        found = {(name, number): log for name, topic in list(self.topics.items()) for number, log in topic.logs.items()}
        return found if self.groups is None else {**found, GROUPS: self.groups}

    def step(self, rest: Rest) -> int:
        """Make a round of all logs, and return the bytes copied. Raises the first error, after the round.

        rest: omits logs that were damaged in the last rounds. While there are any, the groups are not copied either:
        what they have committed may be beyond the copy.
        """
        if self.groups is not None:
            self.groups.fetch_ahead()
        failed: list[SeglogError] = []
        if time.monotonic() - self._looked_at >= LOOK_SECONDS:
            self._attempt(self._follow_topics, failed)
        copied = 0
        for place, log in list(self.logs.items()):
            if place != GROUPS and place[0] in self.topics:
                copied += self._step(place, log, failed, rest)
        rest.keep({*self.logs})
        if self.groups is not None and not failed and not rest.failures:
            copied += self.groups.step()
        if failed:
            raise failed[0]
        return copied

    def _step(self, place: Partition, log: LogMirror, failed: list[SeglogError], rest: Rest) -> int:
        name = place[0]
        try:
            return rest.step(place, log)
        except (LogNotFound, TopicNotFound, LogReplaced) as error:
            self._attempt(self._follow_topics, failed)
            if name in self.topics and log in self.topics[name].logs.values():
                failed.append(error)
        except SeglogError as error:
            failed.append(error)
        return 0

    @staticmethod
    def _attempt(call: Callable[[], None], failed: list[SeglogError]) -> None:
        try:
            call()
        except SeglogError as error:
            failed.append(error)

    # --- topics that come and go ----------------------------------------------------------------------------------

    def _follow_topics(self) -> None:
        theirs = self._source.topics()
        for name in theirs:
            checked_directory_name(name, self._source.name)
        ours = {name: self._description_of(name) for name in topic_json.below(self._target)}
        if ours and not theirs and self.groups is None:
            raise CopyDiverged(
                f"{self._source.name} holds no topic and no groups, as if it was not mounted; nothing was deleted from "
                f"{self._target.path}"
            )
        for name, known in ours.items():
            present = theirs.get(name, known)  # None if the source cannot read it: its copy stays
            if name not in theirs or (present is not None and present.id != known.id):
                self._delete(name)
        for name, present in theirs.items():
            mirror = self.topics.get(name)
            with suppress(LogNotFound, TopicNotFound):  # it was deleted meanwhile
                if mirror is None and present is not None:
                    self.topics[name] = self._mirror(name, present)
                elif mirror is not None and present is not None:
                    mirror.follow(present)
        self._looked_at = time.monotonic()

    def _description_of(self, name: str) -> Description:
        mirror = self.topics.get(name)
        return topic_json.read(Subdirectory(self._target, name)) if mirror is None else mirror.description

    def _mirror(self, name: str, known: Description) -> TopicMirror:
        target = Subdirectory(self._target, name, locked=self._lock)
        return TopicMirror(self._source, name, known, target, **self._options)

    def _delete(self, name: str) -> None:
        check_is_copy(Subdirectory(self._target, name))
        mirror = self.topics.pop(name, None)
        if mirror is not None:
            with suppress(SeglogError):  # its pins and source are gone
                mirror.close()
        deletion.remove(self._target, deletion.take_away(self._target, name))

    def close(self) -> None:
        """Close everything; all is closed even if one fails."""
        self._resources.close()
