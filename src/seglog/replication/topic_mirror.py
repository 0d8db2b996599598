"""Copy a topic: its description, and each of its partitions.

`topic.json` is written last, so that a copy exists only with all its partitions. An interrupted creation is continued.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from seglog.clock import Clock
from seglog.errors import CopyDiverged
from seglog.log.catalog import read_manifest
from seglog.replication.log_mirror import LogMirror
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import creation
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.description import Description

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
        self.description = description
        self.logs: dict[int, LogMirror] = {}
        target.make([])
        with ExitStack() as resources:
            lock = creation.lock_topic(target)
            resources.callback(lock.release)
            for number in range(description.partitions):
                log = source.log(directory, number)
                resources.callback(log.close)
                mirror = LogMirror(
                    log,
                    creation.partition_of(target, number, lock.tree),
                    home=(description.id, number),
                    restart=restart,
                    pin=pin,
                    name=name,
                    clock=clock,
                )
                resources.callback(mirror.close)
                self.logs[number] = mirror
            if not topic_json.is_topic(target):
                topic_json.write(target, description)
            self._resources = resources.pop_all()

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
