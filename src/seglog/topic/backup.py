"""Backups of a log, a topic or a directory of topics, also while a process writes to it.

The partitions of a topic are copied at one moment at which no batch is in only some of them. In a directory of topics,
committed group offsets are copied before the topics, so they never exceed them.
"""

from __future__ import annotations

import errno
import os
import time
from contextlib import ExitStack
from dataclasses import replace

from seglog.errors import InvalidArgument, LogLocked
from seglog.log.backup import BackupReport, LogBackup, destination_at
from seglog.log.locks.wait import patiently
from seglog.log.log import Log
from seglog.log.opening import open_log, open_partition, storage_at
from seglog.log.view import View
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import creation, description
from seglog.topic.layout.description import Description
from seglog.topic.layout.root import OFFSETS
from seglog.topic.repair.discover import site_at
from seglog.topic.transaction import DIRECTORY

WAIT_SECONDS = 10.0
LOOK_AGAIN_SECONDS = 0.02


def backup(
    place: str | os.PathLike[str] | Storage,
    dest: str | os.PathLike[str] | Storage,
    *,
    share: bool = True,
    wait: float | None = None,
) -> BackupReport:
    """Copy a log, a topic or a directory of topics to a directory; see `Log.backup` for each log.

    A second call with the same destination adds what is new. A topic deleted meanwhile stays in the backup.

    Args:
        place: A path or a Storage.
        dest: The directory of the copy: a path or a Storage.
        share: Share the bytes of sealed segments (hard links) if the file system allows it.

    Raises:
        LogNotFound, NotALog: there is no log and no topic at the place.
        InvalidArgument: a topic was deleted and created again since the last backup.
    LogLocked while another backup to the destination is under way; wait: seconds to wait for it, None: at once.
    """
    return patiently(lambda: _backup(place, dest, share=share), wait)


def _backup(
    place: str | os.PathLike[str] | Storage, dest: str | os.PathLike[str] | Storage, *, share: bool
) -> BackupReport:
    root = storage_at(place)
    site = site_at(root)
    destination = destination_at(dest, root)
    target = destination.storage()
    if site.kind == "log":
        report = _log(site.root, target, share=share)
    elif site.kind == "topic":
        report = _topic(site.root, target, share=share)
    else:
        report = _broker(site.topics, site.offsets, target, share=share)
    destination.finish()
    return report


def _log(source: Storage, target: Storage, *, share: bool) -> BackupReport:
    with open_log(source, mode="r") as log, LogBackup(source, log.view(), target, share=share) as copy:
        copy.bring()
        return copy.commit()


def _broker(topics: dict[str, Storage], offsets: Storage | None, target: Storage, *, share: bool) -> BackupReport:
    target.make([])
    report = BackupReport()
    with ExitStack() as resources:
        groups = None
        if offsets is not None:
            log = resources.enter_context(open_log(offsets, mode="r"))
            own = Subdirectory(target, OFFSETS)
            groups = resources.enter_context(LogBackup(offsets, log.view(), own, share=share))
            groups.bring()
        for name, source in topics.items():
            report += _topic(source, Subdirectory(target, name), share=share)
        return report if groups is None else report + groups.commit()


def _topic(source: Storage, target: Storage, *, share: bool) -> BackupReport:
    known = _settled(source)
    if description.is_topic(target) and description.read(target).id != known.id:
        raise InvalidArgument(
            f"{target.path} is a backup of a topic {known.name!r} that was deleted and created again since; move it "
            "away, or choose another directory"
        )
    report = BackupReport()
    with ExitStack() as resources:
        places = {number: creation.existing_partition(source, number) for number in range(known.partitions)}
        logs = [
            resources.enter_context(open_partition(place, (known.id, number), mode="r"))
            for number, place in places.items()
        ]
        views = consistent_views(source, logs, known)
        known = replace(known, policies=description.read(source).policies)  # after the views: see opening.policies_of
        target.make([])
        copies = [
            resources.enter_context(LogBackup(places[number], view, Subdirectory(target, str(number)), share=share))
            for number, view in enumerate(views)
        ]
        for copy in copies:
            copy.bring()
        if description.is_topic(target):  # first: the logs may lose the policies that an earlier version gave them
            stored = description.read(target)
            if stored.policies != known.policies:
                description.write(target, replace(stored, policies=known.policies))
        for copy in copies:  # without delay: a crash in between leaves partitions of two moments
            report += copy.commit()
    if not description.is_topic(target) or description.read(target) != known:
        description.write(target, known)
    return report


def consistent_views(topic: Storage, logs: list[Log], known: Description | None = None) -> list[View]:
    """Return a view of each partition at one moment at which nothing is in only some of them. Raises LogLocked.

    That is a batch that is being published, or a change of settings. known: what topic.json has to hold then.
    """
    deadline = time.monotonic() + WAIT_SECONDS
    while True:
        views = [log.view() for log in logs]
        unfinished = _unfinished(topic, known)
        if not unfinished and [log.view().manifest.version for log in logs] == [one.manifest.version for one in views]:
            return views
        _wait(topic, unfinished, deadline)


def _settled(topic: Storage) -> Description:
    """Return what topic.json holds at a moment at which no settings are being changed. Raises LogLocked."""
    deadline = time.monotonic() + WAIT_SECONDS
    while (found := description.read(topic)).altering is not None:
        _wait(topic, "a change of settings", deadline)
    return found


def _unfinished(topic: Storage, known: Description | None) -> str:
    """Return what is in only some of the partitions; empty if nothing is."""
    for name in topic.names(DIRECTORY):
        if name.endswith(".json"):
            return f"a batch ({name})"
    present = description.read(topic)
    changes = present.altering is not None if known is None else present != replace(known, policies=present.policies)
    return "a change of its partitions or settings" if changes else ""


def _wait(topic: Storage, unfinished: str, deadline: float) -> None:
    if time.monotonic() > deadline:
        raise LogLocked(
            errno.EWOULDBLOCK,
            f"{unfinished} was committed and is not in every partition yet; open the topic for writing to complete it"
            if unfinished
            else "the segments of its partitions keep changing; retry",
            topic.path,
        )
    time.sleep(LOOK_AGAIN_SECONDS)
