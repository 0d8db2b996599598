"""Restore a directory from an archive: every store is verified, every lookup rebuilt, and it opens for writing.

Everything is first written to a hidden directory beside the target and renamed at the end. A restore that was
interrupted continues: a store gets its name only after it was verified and synced.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import TypeVar

from xxhash import xxh64_hexdigest

from seglog.archive.commit import ArchivedLog
from seglog.archive.history import newest
from seglog.archive.lineage import FILE_NAME as LINEAGE
from seglog.archive.lineage import Lineage
from seglog.archive.newer import missing_commits, newer_objects
from seglog.archive.objects import ObjectStore
from seglog.archive.segments import ArchivedSegments
from seglog.archive.storage import ArchiveStorage
from seglog.archive.urls import object_store
from seglog.archive.verifying import check_sealed, sealed_tail
from seglog.clock import system_clock
from seglog.errors import (
    CorruptLog,
    CorruptRecord,
    InvalidArgument,
    InvalidType,
    NotALog,
    OffsetOutOfRange,
    StorageError,
)
from seglog.format import filename
from seglog.format.cuts import first_epoch
from seglog.format.manifest import Role, SegmentEntry, Segments
from seglog.format.store import HEADER_BYTES
from seglog.log.catalog import write_manifest
from seglog.log.opening import open_log
from seglog.record import Timestamp, checked_offset, checked_timestamp
from seglog.segment.active import create_segment
from seglog.segment.blocks import plain_file
from seglog.segment.sealed import write_lookups
from seglog.storage import LocalStorage, Storage, Subdirectory, must_sync
from seglog.storage.local import checked_directory
from seglog.topic.layout import description

READ_BYTES = 8 * 1024 * 1024
AT_ONCE = 4
Checked = TypeVar("Checked")


@dataclass(frozen=True, kw_only=True)
class RestoreReport:
    """The result of a restore.

    Attributes:
        commit: Number of the commit that was restored.
        written: When it was written, in us, by the writer's clock.
        offsets: By log, "" for a standalone one, the offset before which its records were restored.
        warnings: Signs that the archive held a later state: missing commits, objects that are newer than the commit.
        logs: Number of logs.
        segments: Number of segments with records.
        records: Sum of next offset minus lowest offset of all logs.
        bytes: Bytes that were downloaded.
        kept: Segments that an interrupted restore had downloaded.
    """

    commit: int
    written: int = 0
    offsets: dict[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    logs: int = 0
    segments: int = 0
    records: int = 0
    bytes: int = 0
    kept: int = 0

    def __add__(self, other: RestoreReport) -> RestoreReport:
        return RestoreReport(
            commit=self.commit,
            written=self.written,
            offsets=self.offsets | other.offsets,
            warnings=self.warnings,
            logs=self.logs + other.logs,
            segments=self.segments + other.segments,
            records=self.records + other.records,
            bytes=self.bytes + other.bytes,
            kept=self.kept + other.kept,
        )


def restore(
    url: str | ObjectStore,
    target: str | os.PathLike[str],
    *,
    to_offset: int | None = None,
    to_time: Timestamp | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> RestoreReport:
    """Copy what an archive holds to a directory, which then opens for writing. The archive is not changed.

    Args:
        url: The URL of the archive, or an object store.
        target: A directory that does not exist, or is empty.
        to_offset: Restore only the records before this offset; for the archive of one log.
        to_time: Restore of each log only the records before its first one with this timestamp or a later one: int
            microseconds, of whatever size, or a datetime with a time zone.
        progress: Called with (bytes done, bytes in total).

    Raises:
        LogNotFound: If there is no archive.
        NotALog: If the target exists.
        CorruptRecord, CorruptLog: If an object is damaged. Nothing appears at the target.
        SnapshotExpired: If the archive has replaced and deleted meanwhile what it held at first; begin again.
        OffsetOutOfRange: If to_offset is not in the archive.
    """
    to_offset = None if to_offset is None else checked_offset(to_offset, "to_offset")
    moment = None if to_time is None else checked_timestamp(to_time, force_timestamp=True)
    place, store = _Target(target), object_store(url)
    source = ArchiveStorage(store, follow=False)
    if to_offset is not None and (moment is not None or source.commit.kind != "log"):
        raise InvalidArgument("a restore to an offset is for the archive of one log; for a topic use a time")
    root, commit = place.storage(), source.commit
    report = RestoreReport(commit=commit.number, written=commit.written, warnings=_signs_of_later(source))
    total = sum(_size(source, name) for name in commit.logs)
    done = _Counter(progress, total)
    for name in commit.logs:
        end = _end_of(source, name, to_offset, moment)
        own = Subdirectory(root, name) if name else root
        report += _LogRestore(source, name, own, end, done).run()
    for directory, text in commit.topics.items():
        topic = Subdirectory(root, directory) if directory else root
        description.write(topic, description.parse(text.encode(), f"{source.path}/{directory}"))
    if to_offset is None and moment is None:
        Lineage(store.url, {commit.owner: commit.number}).write(root)
    place.finish()
    return report


def _signs_of_later(source: ArchiveStorage) -> tuple[str, ...]:
    """Return what shows that the archive held a later state than its newest commit, as lines for people."""
    missing = [
        f"commit {number} is missing, and seglog deletes none but the oldest" for number in missing_commits(source)
    ]
    newer = newer_objects(source)
    if newer and newest(source.store, source.commit.number) is not None:  # it has them: its writer works beside this
        newer = {}
    return (
        *missing,
        *(
            f"{name or 'the log'}: the archive holds {found.objects} newer objects that no commit names, of records up "
            f"to offset {found.offset} at least; the commit ends at {source.commit.logs[name].next_offset}. A later "
            "commit was deleted, or a round of the archiver was interrupted or is running now"
            for name, found in newer.items()
        ),
    )


def _size(source: ArchiveStorage, name: str) -> int:
    return sum(entry.disk_bytes for entry in source.archived(name).manifest.segments[:-1])


def _end_of(source: ArchiveStorage, name: str, to_offset: int | None, to_time: int | None) -> int | None:
    """Return the offset to end a log at; None for all of it."""
    log, start = source.commit.logs[name], source.archived(name).manifest.start
    if to_offset is not None:
        if not start <= to_offset <= log.next_offset:
            raise OffsetOutOfRange(to_offset, start, log.next_offset)
        return to_offset
    if to_time is None:
        return None
    with open_log(Subdirectory(source, name) if name else source, mode="r") as reader:
        return reader.offset_at(to_time)


class _Counter:
    """Sums up the progress of several threads."""

    def __init__(self, progress: Callable[[int, int], None] | None, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def __call__(self, size: int) -> None:
        self._done += size
        if self._progress is not None:
            self._progress(min(self._done, self._total), self._total)


class _Target:
    """The target: a hidden directory that `finish` renames."""

    def __init__(self, target: str | os.PathLike[str]) -> None:
        if not isinstance(target, (str, os.PathLike)) or not os.fspath(target):
            raise InvalidType(f"a restore needs the path of a directory, not {target!r}")
        self.path = Path(os.path.abspath(checked_directory(os.fspath(target))))  # noqa: PTH100 - resolves no links
        self._parent = LocalStorage(self.path.parent)
        self._hidden = f".{self.path.name}.restore"
        self._refuse_existing()

    def _refuse_existing(self) -> None:
        if self.path.exists() and not (self.path.is_dir() and not any(self.path.iterdir())):
            raise NotALog(
                errno.EEXIST, "there is something already; restore to a directory that does not exist", str(self.path)
            )

    def storage(self) -> Storage:
        """Return the hidden directory."""
        self._parent.make([self._hidden])
        return Subdirectory(self._parent, self._hidden)

    def finish(self) -> None:
        """Durably give the directory its name."""
        self._refuse_existing()
        self._parent.remove_if_empty(self.path.name)
        self._parent.rename(self._hidden, self.path.name)
        must_sync(self._parent.sync_directory)


class _LogRestore:
    """The restore of one log."""

    def __init__(
        self, source: ArchiveStorage, name: str, target: Storage, end: int | None, done: Callable[[int], None]
    ) -> None:
        """end: offset to cut the log at, None for all of it."""
        self._name = name
        self._source = source
        self._path = source.path
        self._archived: ArchivedSegments = source.archived(name)
        self._log: ArchivedLog = source.commit.logs[name]
        self._commit = source.commit.number
        self._target = target
        self._end = end
        self._done = done
        self._temporary = count(1)
        self._bytes = self._kept = 0
        self._interval = self._archived.manifest.config.index_interval_bytes

    def run(self) -> RestoreReport:
        """Bring all segments, then install the manifest."""
        self._target.make(filename.DIRECTORIES)
        wanted = [entry for entry in self._archived.manifest.segments[:-1] if self._is_wanted(entry)]
        self._clear(wanted)
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._bring, wanted))
        tail = self._bring_tail() if self._is_wanted(self._archived.manifest.active) else None
        sealed = (*wanted, tail) if tail is not None else tuple(wanted)
        self._install(sealed)
        next_offset = self._log.next_offset if self._end is None else self._end
        return RestoreReport(
            commit=self._commit,
            offsets={self._name: next_offset},
            logs=1,
            segments=len(sealed),
            records=next_offset - self._archived.manifest.start,
            bytes=self._bytes,
            kept=self._kept,
        )

    def _is_wanted(self, entry: SegmentEntry) -> bool:
        return self._end is None or entry.base_offset < self._end

    def _clear(self, wanted: list[SegmentEntry]) -> None:
        """Remove what an interrupted restore left, except for stores of these segments."""
        stores = {entry.name() for entry in wanted}
        for name in self._target.names():
            if filename.parse_segment_file(name) is not None and name not in stores:
                self._target.unlink(name)
        for name in self._target.names(filename.TMP):
            self._target.unlink(f"{filename.TMP}/{name}")
        for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS, LINEAGE):
            self._target.unlink(name)

    def _bring(self, entry: SegmentEntry) -> None:
        """Download and verify a sealed segment, unless an interrupted restore has; build its lookups."""
        if self._is_there(entry):
            self._kept += 1
            self._done(entry.disk_bytes)
        else:
            self._download(entry)
        write_lookups(self._target, entry, interval=self._interval)

    def _download(self, entry: SegmentEntry) -> None:
        key, size = self._archived.keys_of(entry)[filename.STORE], entry.disk_bytes
        temporary = f"{filename.TMP}/restore-{next(self._temporary)}"
        file = self._target.create(temporary, replace=True)
        for start in range(0, size, READ_BYTES):
            stop = min(start + READ_BYTES, size)
            file.pwrite(self._read(key, start, stop), start)
            self._done(stop - start)
        self._checked(lambda: check_sealed(plain_file(file, entry), entry), key)
        must_sync(file.datasync)
        self._target.rename(temporary, entry.name())

    def _is_there(self, entry: SegmentEntry) -> bool:
        if self._target.identity(entry.name()) is None:
            return False
        try:
            check_sealed(plain_file(self._target.open(entry.name()), entry), entry)
        except CorruptRecord:
            return False
        return True

    def _read(self, key: str, start: int, stop: int) -> bytes:
        try:
            data = self._source.store.read(key, start, stop)
        except StorageError as error:
            if error.errno != errno.ENOENT:
                raise
            first, end = self._archived.manifest.start, self._log.next_offset
            self._source.check_missing(error, [key], self._name, first, end)
            raise CorruptLog(f"{self._path}/{key}: the object is missing; `seglog verify` lists all damage") from error
        if len(data) != stop - start:
            raise CorruptLog(f"{self._path}/{key}: the object is shorter than the {stop} bytes that the archive names")
        self._bytes += len(data)
        return data

    def _checked(self, check: Callable[[], Checked], key: str) -> Checked:
        """Return what a check returns; its error names the object instead of the temporary file."""
        try:
            return check()
        except CorruptRecord as error:
            path = f"{self._path}/{key}"
            raise CorruptRecord(
                path, error.offset, error.position, error.reason, advice="the archive is damaged"
            ) from None

    def _bring_tail(self) -> SegmentEntry | None:
        """Download the active segment and return it as a sealed one; None if it has no records."""
        active, pieces = self._archived.manifest.active, self._log.tail
        if pieces[-1].stop <= HEADER_BYTES:
            return None
        temporary = f"{filename.TMP}/restore-tail"
        file = self._target.create(temporary, replace=True)
        for piece in pieces:
            data = self._read(piece.key, 0, piece.stop - piece.start)
            if xxh64_hexdigest(data) != piece.check:
                raise CorruptLog(f"{self._path}/{piece.key}: the object is damaged: its check does not hold")
            file.pwrite(data, piece.start)
        entry = self._checked(
            lambda: sealed_tail(
                file,
                active,
                end=pieces[-1].stop,
                next_offset=self._log.next_offset,
                interval=self._interval,
                now=system_clock(),
            ),
            pieces[-1].key,
        )
        must_sync(file.datasync)
        self._target.rename(temporary, active.name())
        write_lookups(self._target, entry, interval=self._interval)
        return entry

    def _install(self, sealed: tuple[SegmentEntry, ...]) -> None:
        """Create an active segment after the others and install the manifest, of a leader with a higher term.

        An epoch that no other leader uses begins at the end: records after that are others than those that the archived
        log, and its followers, may have received since.
        """
        archived = self._archived.manifest
        end = (
            self._log.next_offset
            if self._end is None
            else max((sealed[-1].next_offset or 0) if sealed else 0, self._end)
        )
        file = max((archived.next_file, *(entry.file + 1 for entry in archived.segments)))
        term = max(archived.role.term, archived.role.fenced) + 1
        epoch = first_epoch(term)
        active = SegmentEntry(base_offset=end, file=file, salt=secrets.randbits(64), created=system_clock())
        create_segment(self._target, active, archived.log_id)
        must_sync(self._target.sync_directory)
        manifest = replace(
            archived,
            version=archived.version + 1,
            next_file=file + 1,
            segments=Segments.of([*sealed, active]),
            backup=False,
            role=Role(term=term),
            epoch=epoch,
            cuts=archived.cuts.with_cut(epoch, end),
        )
        write_manifest(self._target, manifest)
        if self._end is not None:
            with open_log(self._target) as log:
                log.truncate(self._end)
