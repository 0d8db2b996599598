"""Copy a topic: its description, and each of its partitions.

`topic.json` is written last, so that a copy exists only with all its partitions. An interrupted creation is continued.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seglog.clock import Clock
from seglog.errors import CopyDiverged, LogReplaced
from seglog.log.catalog import read_manifest
from seglog.policies import Policies
from seglog.replication.log_mirror import LogMirror
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import creation
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.description import Description
from seglog.topic.opening import policies_of

if TYPE_CHECKING:
    from seglog.replication.places import SourcePlace


class TopicMirror:
    """The copy of a topic. logs: partition -> its mirror."""

    def __init__(
        self,
        source: SourcePlace,
        directory: str,
        description: Description,
        target: Storage,
        *,
        restart: bool,
        pin: bool,
        name: str,
        clock: Clock,
    ) -> None:
        """directory: of the topic in the source, "" for a standalone one. restart, pin: see Mirror.

        name: of the whole copy.
        """
        self._source, self._directory, self._target = source, directory, target
        self._options: Any = {"restart": restart, "pin": pin, "name": name, "clock": clock}
        self.logs: dict[int, LogMirror] = {}
        self.description = description
        target.make([])
        with ExitStack() as resources:
            lock = creation.lock_topic(target)
            resources.callback(lock.release)
            self._tree = lock.tree
            self._stored = topic_json.read(target) if topic_json.is_topic(target) else None
            self._resources = resources
            self.follow(description)
            self._resources = resources.pop_all()

    def follow(self, description: Description) -> None:
        """Copy the partitions that the source has and the copy has not: all of them at first, then those added.

        And take its policies. Raises LogReplaced: the source is another topic now.
        """
        if self.logs and description.id != self.description.id:
            raise LogReplaced(
                f"{description.name}: another topic is at its path now; the copy {self._target.path} has the former "
                "one. Copy the new one into another directory"
            )
        added: dict[int, LogMirror] = {}
        with ExitStack() as resources:
            for number in range(len(self.logs), description.partitions):
                log = self._source.log(self._directory, number)
                resources.callback(log.close)
                place = creation.partition_of(self._target, number, self._tree)
                added[number] = LogMirror(log, place, home=(description.id, number), **self._options)
                resources.callback(added[number].close)
            logs = {**self.logs, **added}
            self._describe(description, [logs[number] for number in sorted(logs)])
            self._resources.enter_context(resources.pop_all())
        self.description, self.logs = description, logs

    def _describe(self, theirs: Description, logs: list[LogMirror]) -> None:
        """Write topic.json, once the copy has all partitions of the source, unless it is there.

        It has the policies that a source of an earlier version has in its logs now, or has moved just now; and a change
        of settings that the source has not completed, so that a promoted copy does.
        """
        policies = theirs.policies
        if policies is None:
            first = logs[0].source.fetch(None).config
            now = self._source.topic(self._directory)
            policies = policies_of(now if now.id == theirs.id else theirs, first)
        partitions = max(len(logs), 0 if self._stored is None else self._stored.partitions)
        if policies == Policies() and all(one.log.config.retention._moved is None for one in logs):
            policies = None
        wanted = replace(theirs, partitions=partitions, policies=policies)
        if wanted != self._stored:
            topic_json.write(self._target, wanted)
            self._stored = wanted

    def close(self) -> None:
        """Close all partitions; all are closed even if one fails."""
        self._resources.close()


def check_is_copy(topic: Storage) -> None:
    """Raise CopyDiverged if a topic has a partition that is no copy: a mirror must not delete it."""
    for number in range(topic_json.read(topic).partitions):
        manifest = read_manifest(Subdirectory(topic, str(number)))
        if manifest is not None and not manifest.role.copy:
            raise CopyDiverged(
                f"{topic.path} is no copy, and its source has no such topic; delete it or move it away, or choose "
                "another target"
            )
