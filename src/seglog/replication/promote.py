"""Make a copy a leader, and keep the old leader from accepting more records.

A promotion is one manifest for each log: a higher term, and a new epoch at the end of the copy, which no other leader
uses. It is repeated after a crash: logs that were promoted keep their term, and the others get the same.

Without a lease that both sides check, nothing stops an old leader that cannot be reached (docs/replication.md).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack

from seglog.clock import system_clock
from seglog.errors import InvalidArgument
from seglog.format.cuts import first_epoch
from seglog.format.manifest import Manifest, Role
from seglog.log.catalog import read_manifest
from seglog.log.copied import CopyWriter
from seglog.log.locks.write_lock import TreeLock
from seglog.log.opening import Home, Seed, open_copy, open_log, storage_at
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import creation
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.locations import is_location
from seglog.topic.layout.root import OFFSETS, lock_to_write
from seglog.topic.repair.discover import site_at


def promote(target: str | os.PathLike[str] | Storage) -> int:
    """Make a copy a leader that accepts records, durably, and return its term.

    Args:
        target: A path or a Storage: a copy of a log, a topic, or a directory of topics, or a leader that was fenced.

    Raises:
        InvalidArgument: If the target holds no copy.
        LogLocked: If a mirror still writes it.
    """
    root = storage_at(target)
    with ExitStack() as resources:
        logs = list(_logs(root, resources))
        known = [manifest for _, _, manifest in logs]
        if not any(_waits(manifest) for manifest in known):
            raise InvalidArgument(f"{root.path} is no copy of a mirror; it accepts records already")
        done = [manifest.role.term for manifest in known if not _waits(manifest) and manifest.role.term]
        highest = max(max(manifest.role.term, manifest.role.fenced) for manifest in known)
        term = max(done) if done and max(done) == highest else highest + 1
        for place, home, manifest in logs:
            if _waits(manifest):
                _promote(place, home, manifest, term)
        return term


def _waits(manifest: Manifest) -> bool:
    """Whether a log accepts no records: a copy, or an old leader that was fenced."""
    return not manifest.role.accepts


def _promote(place: Storage, home: Home | None, manifest: Manifest, term: int) -> None:
    seed = Seed(log_id=manifest.log_id, start=manifest.start, config=manifest.config, history={})
    with open_copy(place, seed, home, system_clock) as log:
        log.sync()
        epoch = first_epoch(term)
        cuts = log.view().manifest.cuts.with_cut(epoch, log.next_offset)
        CopyWriter(log).take(epoch=epoch, cuts=cuts, role=Role(term=term))


def _logs(root: Storage, resources: ExitStack) -> Iterator[tuple[Storage, Home | None, Manifest]]:
    """Yield every log of a place, locked with it; the groups of a directory last."""
    site = site_at(root)
    if site.kind == "log":
        yield root, None, _manifest(root)
        return
    tree: TreeLock | None = None
    if site.kind != "topic":
        share = lock_to_write(root)
        resources.callback(share.release)
        tree = share.tree
    for name in site.topics:
        topic = Subdirectory(root, name, locked=tree) if name else root
        lock = creation.lock_topic(topic)
        resources.callback(lock.release)
        known = topic_json.read(topic)
        for number in range(known.partitions):
            place = creation.existing_partition(topic, number, lock.tree)
            yield place, (known.id, number), _manifest(place)
    if site.offsets is not None:
        place = Subdirectory(root, OFFSETS, locked=tree)
        yield place, None, _manifest(place)


def _manifest(place: Storage) -> Manifest:
    manifest = read_manifest(place)
    if manifest is None:
        raise InvalidArgument(f"{place.path} has no manifest; check it with `seglog verify`")
    return manifest


def fence(leader: str | os.PathLike[str] | Storage, term: int, *, token: str | None = None) -> None:
    """Make an old leader reject all changes from now on, durably: another log was promoted with this term.

    Args:
        leader: The URL of its server, or its path if no process writes it.
        term: The term that `promote` returned.
        token: A bearer token, if the server requires one.

    Raises:
        LogLocked: If a process writes the log at this path: use the URL of its server, or stop it.
    """
    if is_location(leader):
        from seglog.replication.remote import RemotePlace  # noqa: PLC0415 - a path needs no client

        server = RemotePlace(leader, token=token)
        try:
            server.fence(term)
        finally:
            server.close()
        return
    root = storage_at(leader)
    with ExitStack() as resources:
        for place, _, manifest in _logs(root, resources):
            if _waits(manifest) or manifest.role.term >= term:
                continue
            with open_log(place) as log:
                log.fence(term)
