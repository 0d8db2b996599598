"""Create and open the parts of a topic: its directory with topic.json, its lock, and a log for each partition."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seglog.clock import Clock
from seglog.config import Expose, LogConfig, changes_from_json, changes_to_json
from seglog.errors import LogFenced, StorageError
from seglog.log.locks.write_lock import TreeLock
from seglog.log.log import Log
from seglog.log.opening import open_partition, storage_at
from seglog.record import checked_text
from seglog.storage import Storage
from seglog.topic.layout import creation
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.description import Description
from seglog.topic.layout.names import refuse_reserved

Mode = Literal["a", "r"]


class Parts(NamedTuple):
    """What a topic consists of. path: as callers see it; tree: its lock; resources: logs and lock, to be closed."""

    path: Path
    storage: Storage
    description: Description
    logs: list[Log]
    resources: ExitStack
    tree: TreeLock | None


def create_parts(
    path: str | os.PathLike[str] | Storage,
    partitions: int,
    config: LogConfig | None,
    name: str | None,
    clock: Clock,
) -> Parts:
    """Create a topic and open it for writing; see Topic.create. After an error its files are removed."""
    root = storage_at(path)
    shown = _path_of(path, root)
    creation.check_partitions(partitions)
    refuse_reserved(shown.resolve().name)
    name = None if name is None else checked_text(name, "name")
    is_made = creation.make_directory(root)
    try:
        with ExitStack() as resources:
            lock = creation.lock_topic(root)
            resources.callback(lock.release)
            creation.clear_directory(root, lock.tree)
            description = topic_json.Description.new(name or shown.resolve().name, partitions)
            places = [creation.partition_of(root, number, lock.tree) for number in range(partitions)]
            logs = [
                resources.enter_context(open_partition(place, (description.id, number), config, clock=clock))
                for number, place in enumerate(places)
            ]
            _commit(root, description)
            return Parts(shown, root, description, logs, resources.pop_all(), lock.tree)
    except Exception as error:
        creation.abandon(root, error, is_made=is_made)
        raise


def open_parts(path: str | os.PathLike[str] | Storage, mode: Mode, expose: Expose, clock: Clock) -> Parts:
    """Open a topic that exists; see Topic.open."""
    root = storage_at(path)
    shown = _path_of(path, root)
    description = topic_json.read(root)
    with ExitStack() as resources:
        tree = None
        if mode == "a":
            lock = creation.lock_topic(root)
            resources.callback(lock.release)
            tree = lock.tree
        places = [creation.existing_partition(root, number, tree) for number in range(description.partitions)]
        logs = [
            resources.enter_context(
                open_partition(place, (description.id, number), mode=mode, expose=expose, clock=clock)
            )
            for number, place in enumerate(places)
        ]
        if mode == "a" and description.altering is not None:
            with suppress(StorageError, LogFenced):  # such as a full disk; the next opening tries again
                description = _finish_altering(root, description, logs)
        return Parts(shown, root, description, logs, resources.pop_all(), tree)


def add_parts(parts: Parts, count: int, config: LogConfig, clock: Clock) -> tuple[list[Log], ExitStack]:
    """Create the logs that a topic lacks of `count` and write its topic.json; return them, to be closed with the topic.

    A crash before topic.json is written leaves empty partitions, which the next call here removes.
    """
    present, home = len(parts.logs), parts.description.id
    stored = topic_json.read(parts.storage)  # a failed call may have written it all the same
    logs = []
    with ExitStack() as resources:
        for number in range(present, count):
            place = creation.partition_of(parts.storage, number, parts.tree)
            if number >= stored.partitions and place.exists():
                creation.clear_partition(place)
            logs.append(resources.enter_context(open_partition(place, (home, number), config, clock=clock)))
        if stored.partitions < count:
            topic_json.write(parts.storage, replace(stored, partitions=count))
        return logs, resources.pop_all()


def alter_parts(parts: Parts, changes: Mapping[str, Any]) -> None:
    """Change settings of every log. topic.json has the change until all of them have it; see `open_parts`."""
    for log in parts.logs:
        log.config.altered(changes)  # an invalid one changes nothing
    if len(parts.logs) == 1:
        parts.logs[0].alter(**changes)
        return
    for log in parts.logs:
        log.alter()  # raises if it cannot change, as if it is fenced
    stored = topic_json.read(parts.storage)
    if stored.altering is not None:  # of a call that failed
        stored = _finish_altering(parts.storage, stored, parts.logs)
    if all(log.config.altered(changes) == log.config for log in parts.logs):
        return  # tools that keep a topic as it is described set the same again and again
    stored = stored.while_altering(changes_to_json(changes))
    topic_json.write(parts.storage, stored)
    _finish_altering(parts.storage, stored, parts.logs)


def _finish_altering(root: Storage, stored: Description, logs: Sequence[Log]) -> Description:
    """Make the change that topic.json has in every log, and remove it from there; return the new description."""
    changes = changes_from_json(stored.altering or {})
    for number, log in enumerate(logs):
        try:
            log.alter(**changes)
        except Exception as error:
            error.add_note(
                f"the partitions of topic {stored.name!r} below {number} have the new settings; the next change of "
                "settings, or opening the topic, goes on with the others"
            )
            raise
    stored = stored.while_altering(None)
    topic_json.write(root, stored)
    return stored


def _commit(root: Storage, description: Description) -> None:
    """Write topic.json; if that fails, remove it again."""
    try:
        topic_json.write(root, description)
    except Exception:
        creation.retract(root)
        raise


def _path_of(place: str | os.PathLike[str] | Storage, root: Storage) -> Path:
    """Return a path unchanged; for another Storage its name."""
    return Path(place) if isinstance(place, (str, os.PathLike)) else Path(root.path)
