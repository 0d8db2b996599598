"""Make a copy the leader of an archived directory, so that nothing that was acknowledged as archived is lost.

1. The copy takes from the archive what it lacks.
2. It becomes the archive's writer, with one commit: from then on the old leader, paused or not, can commit nothing, and
   gives no "archived" acknowledgement. Its server stops accepting records when it notices that.
3. The copy takes what was archived in between.
4. It is promoted as without an archive (replication/promote).

It is repeated after a crash. After step 2 the directory notes that it continues the archive, see `lineage`.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from seglog.archive.claiming import claim
from seglog.archive.history import newest
from seglog.archive.storage import ArchiveStorage
from seglog.archive.urls import object_store
from seglog.clock import Clock, checked_clock, system_clock
from seglog.config import LogConfig, changes_from_json, changes_to_json
from seglog.errors import ArchiveMismatch, CopyDiverged, LogNotFound
from seglog.log.catalog import read_manifest
from seglog.log.opening import open_log, storage_at
from seglog.policies import Policies
from seglog.replication.lineage import Lineage, common_offset
from seglog.replication.log_mirror import LogMirror
from seglog.replication.promote import promote
from seglog.replication.source import FETCH_BYTES, Fetched, Held, LocalSource, LogSource, fetch_from
from seglog.storage import Subdirectory
from seglog.topic.layout import creation
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.description import Description
from seglog.topic.layout.root import OFFSETS, lock_to_write
from seglog.topic.opening import policies_of
from seglog.topic.repair.discover import logs_of, site_at

if TYPE_CHECKING:
    import os
    from collections.abc import Iterator, Sequence

    from seglog.archive.commit import Commit
    from seglog.archive.objects import ObjectStore
    from seglog.log.log import Log
    from seglog.log.opening import Home
    from seglog.storage import Storage


class Promotion(NamedTuple):
    """term: of the new leader; copied: bytes that the copy took from the archive."""

    term: int
    copied: int


def promote_from_archive(
    target: str | os.PathLike[str] | Storage, url: str | ObjectStore, *, clock: Clock = system_clock
) -> Promotion:
    """Make a copy the leader, and the writer of the archive of the old one.

    Args:
        target: A path or a Storage: a copy that `seglog mirror` made.
        url: The URL of the archive that the old leader wrote, or an object store.
        clock: Microseconds since the epoch; decides nothing.

    Raises:
        InvalidArgument: If the target is no copy.
        ArchiveMismatch: If the archive holds other logs than the copy.
        CopyDiverged: If the copy and the archive have different histories.
        ArchiveFenced: If another copy became the archive's writer at the same moment.
    """
    root, store = storage_at(target), object_store(url)
    _check(root, newest(store), store.url)
    copied = _catch_up(root, store, checked_clock(clock))
    claim(root, store, clock, kind=site_at(root).kind, may_follow=lambda newest, _: _check(root, newest, store.url))
    copied += _catch_up(root, store, clock)
    return Promotion(promote(root), copied)


def _check(root: Storage, commit: Commit | None, url: str) -> None:
    """Raise ArchiveMismatch unless the archive may be that of the leader of these copies."""
    kind = site_at(root).kind
    if commit is None:
        raise LogNotFound(2, "there is no archive here", url)
    if commit.kind != kind:
        raise ArchiveMismatch(f"{url} is the archive of a {commit.kind}, and {root.path} is a {kind}")
    for name, place in _logs(root):
        manifest, known = read_manifest(place), commit.logs.get(name)
        if known is not None and manifest is not None and manifest.log_id != known.log_id:
            raise ArchiveMismatch(
                f"{place.path} (id {manifest.log_id:016x}) is no copy of the archived log {name or url} (id "
                f"{known.log_id:016x})"
            )


def _logs(root: Storage) -> Iterator[tuple[str, Storage]]:
    """Yield the logs of a directory with their names in an archive."""
    site = site_at(root)
    if site.kind == "log":
        yield "", root
        return
    for directory, topic in site.topics.items():
        yield from logs_of(topic, directory).items()
    if site.offsets is not None:
        yield OFFSETS, site.offsets


def _catch_up(root: Storage, store: ObjectStore, clock: Clock) -> int:
    """Copy what the archive has and the copy lacks; return how many bytes."""
    archive = ArchiveStorage(store, follow=False)
    copied = 0
    with ExitStack() as resources:
        for name, place, home in _places(root, archive, resources, clock):
            copied += _fill(Subdirectory(archive, name) if name else archive, place, home, clock)
    return copied


def _places(
    root: Storage, archive: ArchiveStorage, resources: ExitStack, clock: Clock
) -> Iterator[tuple[str, Storage, Home | None]]:
    """Yield every archived log with its place in the copy, locked."""
    commit = archive.commit
    if commit.kind == "log":
        yield "", root, None
        return
    tree = None
    if commit.kind != "topic":
        share = lock_to_write(root)
        resources.callback(share.release)
        tree = share.tree
        if OFFSETS in commit.logs:
            yield OFFSETS, Subdirectory(root, OFFSETS, locked=tree), None
    for directory, text in commit.topics.items():
        topic = Subdirectory(root, directory, locked=tree) if directory else root
        known = topic_json.parse(text.encode(), f"{archive.path}/{directory}")
        topic.make([])
        lock = creation.lock_topic(topic)
        resources.callback(lock.release)
        logs = {
            number: (name, creation.partition_of(topic, number, lock.tree))
            for number in range(known.partitions)
            if (name := f"{directory}/{number}".strip("/")) in commit.logs
        }
        if topic_json.is_topic(topic):
            pairs = [(Subdirectory(archive, name), place) for name, place in logs.values()]
            _take_settings(topic, known, pairs, clock)
        for number, (name, place) in logs.items():
            yield name, place, (known.id, number)
        if not topic_json.is_topic(topic):
            topic_json.write(topic, known)
        elif (stored := topic_json.read(topic)).partitions < len(logs) == known.partitions:
            topic_json.write(topic, replace(stored, partitions=known.partitions))


def _take_settings(
    topic: Storage, archived: Description, logs: Sequence[tuple[Storage, Storage]], clock: Clock
) -> None:
    """Give a copy the settings and policies of an archive that is later, by one write, before its logs change.

    Opening the copy for writing completes it, as any change of settings. logs: archived logs with their copies.
    """
    if not any(_is_later(source, place, clock) for source, place in logs):
        return
    manifest = read_manifest(logs[0][0])
    first = LogConfig() if manifest is None else manifest.config
    wanted = first.altered(changes_from_json(archived.altering or {})).alterable()
    policies: Policies | None = policies_of(archived, first)
    present = [found.config for _, place in logs if (found := read_manifest(place)) is not None]
    has_moved = archived.policies is not None or any(config.retention._moved is not None for config in present)
    if policies == Policies() and not has_moved:
        policies = None
    is_same = all(config.altered(wanted) == config for config in present)
    stored = topic_json.read(topic)
    taken = replace(stored, altering=None if is_same else changes_to_json(wanted), policies=policies)
    if taken != stored:
        topic_json.write(topic, taken)


def _is_later(source: Storage, target: Storage, clock: Clock) -> bool:
    """Return whether an archived log has a later history than its copy, or more records of the same one."""
    with open_log(source, mode="r", clock=clock) as archived:
        known, theirs = _known(target, clock), Lineage.of(archived.view())
        if known is None or known.lineage.epoch != theirs.epoch:
            return known is None or known.lineage.epoch < theirs.epoch
        return _shared(known.lineage, archived) > known.lineage.end


def _fill(source: Storage, target: Storage, home: Home | None, clock: Clock) -> int:
    """Copy what an archived log has and its copy lacks; return how many bytes."""
    with open_log(source, mode="r", clock=clock) as archived:
        read: LogSource = LocalSource(source, clock=clock)
        try:
            known = _known(target, clock)
            if known is not None and known.lineage.epoch >= Lineage.of(archived.view()).epoch:
                stop = _shared(known.lineage, archived)
                if stop <= known.lineage.end:
                    return 0
                read = _UpTo(read, archived, stop, known)
            with closing(LogMirror(read, target, home=home, pin=False, clock=clock)) as mirror:
                copied = 0
                while size := mirror.step():
                    copied += size
                return copied
        finally:
            read.close()


def _known(target: Storage, clock: Clock) -> Fetched | None:
    """Return the copy's history and settings; None if there is no copy yet."""
    if read_manifest(target) is None:
        return None
    with open_log(target, mode="r", clock=clock) as log:
        return fetch_from(log.view(), None, 0)


def _shared(ours: Lineage, archived: Log) -> int:
    """Return the offset up to which the archive has the records of a copy with a later history.

    The copy has followed a cut of its leader that the archive does not have yet.
    """
    theirs = Lineage.of(archived.view())
    common = common_offset(ours.cuts, theirs.cuts, theirs.end)
    if common is None or (common < theirs.end and ours.term > theirs.term):
        raise CopyDiverged(
            f"{archived.path} holds records from offset {common or 0} up to {theirs.end} that another leader (term "
            f"{theirs.term}) has archived, and that the leader of this copy (term {ours.term}) never had. Promote a "
            "copy of that leader, or restore from the archive"
        )
    return common


class _UpTo:
    """The records of an archived log before an offset, with the history of the copy, which is later."""

    def __init__(self, source: LogSource, archived: Log, stop: int, known: Fetched) -> None:
        self.name = source.name
        self.pin, self.pinned, self.unpin, self.close = source.pin, source.pinned, source.unpin, source.close
        self._archived = archived
        self._stop = stop
        self._known = known

    def fetch(self, offset: int | None, most: int = FETCH_BYTES, held: Held | None = None) -> Fetched:  # noqa: ARG002 - an archive has no appends that wait
        """Return history and records; see LogSource.fetch."""
        found, known = fetch_from(self._archived.view(), offset, most, stop=self._stop), self._known
        start = min(found.lineage.start, known.lineage.start)
        lineage = replace(known.lineage, start=start, end=self._stop)
        return found._replace(lineage=lineage, config=known.config, published=known.published)
