"""Create and open the parts of a topic: its directory with topic.json, its lock, and a log for each partition."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seglog.clock import Clock
from seglog.config import Expose, LogConfig, Retention, changes_from_json, changes_to_json
from seglog.errors import LogFenced, LogPoisoned, SeglogError, StorageError
from seglog.log.locks.write_lock import TreeLock
from seglog.log.log import Log
from seglog.log.opening import open_partition, storage_at
from seglog.policies import Policies
from seglog.record import checked_kind, checked_text
from seglog.storage import Storage
from seglog.topic.layout import creation
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.description import Description
from seglog.topic.layout.names import refuse_reserved

Mode = Literal["a", "r"]


class Rules:
    """The policies that an open topic has now.

    A reader sees what another process writes: the leader's server, a mirror. A writer knows them, unless a write has
    failed.
    """

    def __init__(self, root: Storage, stored: Description, logs: Sequence[Log], seen: object) -> None:
        """Keep topic.json as read before the logs were opened. seen: its identity then; None: of a writer."""
        self._root, self._stored, self._logs, self._seen = root, stored, logs, seen
        self._known = stored.policies
        self.is_certain = True

    @property
    def policies(self) -> Policies:
        """The policies. What cannot be read now, such as of a topic that is being deleted, is as it was."""
        if self._seen is None and self.is_certain and self._stored.policies is not None:
            return self._stored.policies
        try:
            first = self._logs[0].config  # before topic.json: see `policies_of`
            self._look()
            self._known = policies_of(self._stored, first)
        except SeglogError:
            if self._known is None:
                raise
        return self._known

    def _look(self) -> None:
        """Read topic.json again if it may be another one."""
        if not self.is_certain:
            self._stored = topic_json.read(self._root)
        elif self._seen is not None:
            seen = self._root.identity(topic_json.FILE_NAME)
            if seen != self._seen:
                self._stored, self._seen = topic_json.read(self._root), seen

    @property
    def is_settled(self) -> bool:
        """Whether topic.json is known, and has no change that the logs may lack."""
        return self.is_certain and self._stored.altering is None

    def write(self, stored: Description) -> None:
        """Write topic.json. After an error it is not known which is there after a crash, until it is written again."""
        self.is_certain = False
        topic_json.write(self._root, stored)
        self._stored, self.is_certain = stored, True


class Parts(NamedTuple):
    """What a topic consists of. path: as callers see it; tree: its lock; resources: logs and lock, to be closed."""

    path: Path
    storage: Storage
    description: Description
    logs: list[Log]
    resources: ExitStack
    tree: TreeLock | None
    rules: Rules


def create_parts(
    path: str | os.PathLike[str] | Storage,
    partitions: int,
    config: LogConfig | None,
    policies: Policies | None,
    name: str | None,
    clock: Clock,
) -> Parts:
    """Create a topic and open it for writing; see Topic.create. After an error its files are removed."""
    root = storage_at(path)
    shown = _path_of(path, root)
    creation.check_partitions(partitions)
    refuse_reserved(shown.resolve().name)
    name = None if name is None else checked_text(name, "name")
    given = checked_kind(Policies() if policies is None else policies, Policies, "policies").over(_moved_of(config))
    is_made = creation.make_directory(root)
    try:
        with ExitStack() as resources:
            lock = creation.lock_topic(root)
            resources.callback(lock.release)
            creation.clear_directory(root, lock.tree)
            description = topic_json.Description.new(name or shown.resolve().name, partitions, given)
            places = [creation.partition_of(root, number, lock.tree) for number in range(partitions)]
            logs = [
                resources.enter_context(open_partition(place, (description.id, number), config, clock=clock))
                for number, place in enumerate(places)
            ]
            _commit(root, description)
            rules = Rules(root, description, logs, None)
            return Parts(shown, root, description, logs, resources.pop_all(), lock.tree, rules)
    except Exception as error:
        creation.abandon(root, error, is_made=is_made)
        raise


def open_parts(path: str | os.PathLike[str] | Storage, mode: Mode, expose: Expose, clock: Clock) -> Parts:
    """Open a topic that exists; see Topic.open. One that cannot be changed now is opened as it is."""
    parts = _opened(path, mode, expose, clock)
    if mode == "r" or not _is_unsettled(parts.description, parts.logs):
        return parts
    with ExitStack() as resources:
        resources.push(parts.resources)
        with suppress(StorageError, LogFenced):  # such as a full disk; the next opening tries again
            try:
                parts = parts._replace(description=_settle(parts.rules, parts.description, parts.logs))
            except LogPoisoned:  # a log whose sync failed: it accepts appends once it is opened again
                with suppress(LogPoisoned):
                    resources.close()
                return _opened(path, mode, expose, clock)
        resources.pop_all()
    return parts


def _opened(path: str | os.PathLike[str] | Storage, mode: Mode, expose: Expose, clock: Clock) -> Parts:
    root = storage_at(path)
    shown = _path_of(path, root)
    seen = root.identity(topic_json.FILE_NAME) if mode == "r" else None
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
        rules = Rules(root, description, logs, seen)
        return Parts(shown, root, description, logs, resources.pop_all(), tree, rules)


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
    """Change policies of the topic and settings of every log, by one commit.

    That is topic.json, which has the settings until all logs have them; see `open_parts`. For settings alone of a
    topic with one partition it is the manifest.
    """
    rules, present = parts.rules, parts.rules.policies
    changes, wanted = _parted(changes, present)
    for log in parts.logs:
        log.config.altered(changes)  # an invalid one changes nothing
    if len(parts.logs) == 1 and wanted == present and rules.is_settled:
        parts.logs[0].alter(**changes)
        return
    for log in parts.logs:
        log.alter()  # raises if it cannot change, as if it is fenced
    stored = topic_json.read(parts.storage)
    if _is_unsettled(stored, parts.logs):  # of a call that failed
        stored = _settle(rules, stored, parts.logs)
    if all(log.config.altered(changes) == log.config for log in parts.logs):
        changes = {}
    if not changes and (stored.policies or Policies()) == wanted and rules.is_certain:
        return  # tools that keep a topic as it is described set the same again and again
    stored = replace(stored.settled(wanted), altering=changes_to_json(changes) if changes else None)
    rules.write(stored)
    if changes:
        _settle(rules, stored, parts.logs)


def _parted(changes: Mapping[str, Any], present: Policies) -> tuple[dict[str, Any], Policies]:
    """Return what changes in the logs, and the policies of the topic then."""
    found = dict(changes)
    policies = checked_kind(found.pop("policies", Policies()), Policies, "policies")
    retention = found.get("retention")
    if isinstance(retention, Retention) and retention._moved is not None:
        present = retention._moved.over(present)
        if not retention.given():
            del found["retention"]
    return found, policies.over(present)


# --- what a crash, or an earlier version, left ------------------------------------------------------------------------


def policies_of(stored: Description, first: LogConfig) -> Policies:
    """Return the policies of a topic: those of topic.json, or those that an earlier version stored with its logs.

    first: the config of partition 0, read before topic.json, which has them first.
    """
    if stored.policies is not None:
        return stored.policies
    present = _moved_of(first)
    altering = changes_from_json(stored.altering or {}).get("retention")
    return present if altering is None or altering._moved is None else altering._moved.over(present)


def _is_unsettled(stored: Description, logs: Sequence[Log]) -> bool:
    return stored.altering is not None or any(log.config.retention._moved is not None for log in logs)


def _settle(rules: Rules, stored: Description, logs: Sequence[Log]) -> Description:
    """Make the change that topic.json has in every log, take the policies that an earlier version stored there, and
    return the new description. A crash at any moment leaves the same policies: topic.json comes first, and counts.
    """
    changes = changes_from_json(stored.altering or {})
    policies = policies_of(stored, logs[0].config)
    if stored.policies is None and policies != Policies():
        stored = replace(stored, policies=policies)
        rules.write(stored)
    for number, log in enumerate(logs):
        try:
            log.alter(**changes)
            log._forget_moved()
        except Exception as error:
            error.add_note(
                f"the partitions of topic {stored.name!r} below {number} have the new settings; the next change of "
                "settings, or opening the topic, goes on with the others"
            )
            raise
    rules.write(stored.settled(policies))
    return stored.settled(policies)


def _moved_of(config: LogConfig | None) -> Policies:
    return (config.retention._moved if isinstance(config, LogConfig) else None) or Policies()


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
