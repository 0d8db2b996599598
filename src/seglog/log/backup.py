"""Back up a log while it is written to: a copy of one point in time that opens and verifies.

The caller's view prevents the files from being unlinked. Sealed segments never change: they share their bytes with the
log if the file system supports it, and those of an earlier backup are not copied again. The manifest is written last;
until then the copy is the earlier backup. A first backup is made in a hidden directory beside its place and renamed.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Protocol

from seglog.errors import CorruptLog, InvalidArgument, InvalidType, LogLocked, NotALog, SnapshotExpired, StorageError
from seglog.format import filename
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.log.catalog import read_manifest, write_manifest
from seglog.log.locks import holder
from seglog.log.locks.write_lock import holder_of, is_written_around
from seglog.log.segment_cache import is_named
from seglog.log.view import View
from seglog.storage import File, LocalStorage, Lock, Storage, must_sync
from seglog.storage.copies import can_share, share_file
from seglog.storage.local import checked_directory

COPY_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class BackupReport:
    """The result of a backup.

    Attributes:
        logs: Number of logs.
        segments: Number of segments in all logs.
        kept: Segments that an earlier backup had copied.
        shared: Segments that share their bytes with the log (reflink or hard link).
        copied: Number of bytes copied.
    """

    logs: int = 0
    segments: int = 0
    kept: int = 0
    shared: int = 0
    copied: int = 0

    def __add__(self, other: BackupReport) -> BackupReport:
        return BackupReport(
            **{one.name: getattr(self, one.name) + getattr(other, one.name) for one in fields(BackupReport)}
        )


class LogBackup:
    """The backup of one log: `bring` its files, then `commit` its manifest. A context manager that holds the lock."""

    def __init__(self, source: Storage, view: View, target: Storage, *, share: bool) -> None:
        """view: what to copy. target: its own directory; see `backup_log`. share: use links if possible."""
        self._source = source
        self._view = view
        self._size = view.active.size  # now: the view may grow
        self._target = target
        self._share = share
        self._lock: Lock | None = None
        self._known: Manifest | None = None
        self._kept = self._shared = self._copied = 0

    def __enter__(self) -> LogBackup:
        """Lock the target. InvalidArgument if it holds anything but an earlier backup of this log."""
        self._earlier()
        self._target.make(filename.DIRECTORIES)
        self._lock = self._target.try_lock(filename.LOCK)
        if self._lock is None:
            raise self._locked()
        holder.mark(self._lock)
        try:
            self._known = self._earlier()  # again: a writer may have opened it before this took the lock
            if self._known is not None and is_written_around(self._target):
                raise self._locked()
        except BaseException:
            self._release(self._lock)
            raise
        return self

    def _locked(self) -> LogLocked:
        held = f"the backup is open for writing, or another backup to it is running, {holder_of(self._target)}"
        return LogLocked.by(held, "wait=10 waits 10 seconds for it", self._target.path)

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._release(self._lock)

    @staticmethod
    def _release(lock: Lock) -> None:
        holder.unmark(lock)
        lock.release()

    def _earlier(self) -> Manifest | None:
        names = self._target.names() if self._target.exists() else []
        foreign = [name for name in names if not filename.belongs_to_log(name)]
        if foreign:
            raise NotALog(
                errno.ENOTDIR,
                f"the directory holds other files than a log ({foreign[0]!r}); choose another directory",
                self._target.path,
            )
        manifest = None
        with suppress(CorruptLog):
            manifest = read_manifest(self._target)
        if manifest is None and self._is_unfinished(names):
            return None
        if manifest is not None and manifest.log_id == self._view.manifest.log_id and manifest.backup:
            return manifest
        what = "another log, or one that was opened for writing" if manifest else "a log without a readable manifest"
        raise InvalidArgument(f"{self._target.path} holds {what}, not a backup of this log; choose another directory")

    def _is_unfinished(self, names: Iterable[str]) -> bool:
        """Whether the directory holds only stores of this log, from a first backup that was interrupted."""
        if filename.MANIFEST in names or filename.MANIFEST_PREVIOUS in names:
            return False
        for name in names:
            if name.endswith("." + filename.STORE):
                file = self._target.open(name)
                header = decode_header(file.pread(HEADER_BYTES, 0), file.path)
                if header is None or header.log_id != self._view.manifest.log_id:
                    return False
        return True

    def bring(self) -> None:
        """Copy and sync all files that are missing. Changes no file that an earlier backup names."""
        for name in self._target.names(filename.TMP):
            self._target.unlink(f"{filename.TMP}/{name}")
        known = {entry.file: entry for entry in self._known.segments} if self._known else {}
        sizes = self._target.sizes(ending="." + filename.STORE)
        *sealed, active = self._view.manifest.segments
        for entry in sealed:
            if known.get(entry.file) == entry and sizes.get(entry.name(), 0) >= entry.disk_bytes:
                self._kept += 1
            else:
                self._bring_sealed(entry)
        self._file(self._store(active), active.name(), self._size, share=False)
        for name in self._source.names(filename.PINS):
            if name.endswith(filename.HOLD):
                continue  # no archive belongs to the backup
            self._target.make([filename.PINS])
            self._bring_if_there(f"{filename.PINS}/{name}")
        must_sync(self._target.sync_directory)

    def _bring_sealed(self, entry: SegmentEntry) -> None:
        self._file(self._store(entry), entry.name(), entry.disk_bytes, share=self._share)
        if self._known and self._known.active.file == entry.file:  # the store must be durable before its index
            must_sync(self._target.sync_directory)
        for kind in filename.LOOKUPS:  # derived files: reading works without them, but slower
            self._bring_if_there(entry.name(kind))

    def _bring_if_there(self, name: str) -> None:
        """Copy a file that the log may have no more, also if its writer deletes it now."""
        try:
            file = self._source.open(name)
        except StorageError as error:
            if error.errno != errno.ENOENT:
                raise
        else:
            self._file(file, name, file.size(), share=False)

    def _store(self, entry: SegmentEntry) -> File:
        """Open a store of the log. SnapshotExpired if the log has deleted it because its reader has no lease, or
        another log has taken the place of this one.
        """
        expired = SnapshotExpired(entry.base_offset, self._view.next_offset, self._source.path)
        try:
            store = self._source.open(entry.name())
        except StorageError as error:
            if is_named(self._source, entry):
                raise
            raise expired from error
        header = decode_header(store.pread(HEADER_BYTES, 0), store.path)
        if header is not None and header.salt != entry.salt and not is_named(self._source, entry):
            raise expired
        return store

    def _file(self, source: File, name: str, size: int, *, share: bool) -> None:
        temporary = f"{filename.TMP}/backup"
        if share and can_share(source, self._target) and share_file(source.path, f"{self._target.path}/{temporary}"):
            self._shared += 1
        else:
            target = self._target.create(temporary, replace=True)
            for position in range(0, size, COPY_BYTES):
                target.pwrite(source.pread(min(COPY_BYTES, size - position), position), position)
            must_sync(target.datasync)
            self._copied += size
        self._target.rename(temporary, name)
        self._target.unlink(temporary)  # rename keeps both names if they are one file already

    def commit(self) -> BackupReport:
        """Install the manifest, which completes the backup, and remove the segments that it does not name."""
        manifest = replace(self._view.manifest, retired=(), boot="", backup=True)
        if manifest != self._known:
            write_manifest(self._target, manifest, open_ended=False)
        live = {entry.file for entry in manifest.segments}
        for name in self._target.names():
            parsed = filename.parse_segment_file(name)
            if parsed is not None and parsed.number not in live:
                self._target.unlink(name)
        count = len(manifest.segments)
        return BackupReport(logs=1, segments=count, kept=self._kept, shared=self._shared, copied=self._copied)


class Destination(Protocol):
    """The target of a backup."""

    def storage(self) -> Storage:
        """Return the directory to write to."""
        ...

    def finish(self) -> None:
        """Make a first backup visible, if it was not yet."""
        ...


def destination_at(place: str | os.PathLike[str] | Storage, source: Storage) -> Destination:
    """Return the target of a backup at a path or in a Storage. Raises as the two classes do."""
    if not isinstance(place, (str, os.PathLike)) and hasattr(place, "try_lock"):
        return StorageDestination(place, source)
    return PathDestination(place, source.path)  # type: ignore[arg-type] # which rejects what is neither


class StorageDestination:
    """A Storage, which has no name to be renamed to: an interrupted first backup stays in it, and is continued."""

    def __init__(self, place: Storage, source: Storage) -> None:
        """Raise InvalidArgument if it is the source."""
        if place is source:
            raise InvalidArgument(f"{place.path} is the source of the backup; choose another storage")
        self._place = place

    def storage(self) -> Storage:
        """Return the storage."""
        return self._place

    def finish(self) -> None:
        """Do nothing: the manifest, which is written last, completes each log."""


class PathDestination:
    """The place itself if it is not empty, else a hidden directory that `finish` renames."""

    def __init__(self, place: str | os.PathLike[str], source: str) -> None:
        """Raise InvalidType or InvalidArgument if `place` is no path, or lies within the source (a path)."""
        if not isinstance(place, (str, os.PathLike)) or not os.fspath(place):
            raise InvalidType(f"a backup needs the path of a directory, or a Storage, not {place!r}")
        self.path = Path(os.path.abspath(checked_directory(os.fspath(place))))  # noqa: PTH100 - resolves no links
        if f"{self.path.resolve()}/".startswith(f"{Path(source).resolve()}/"):
            raise InvalidArgument(f"{self.path} is, or lies within, the source of the backup; choose another directory")
        self._parent = LocalStorage(self.path.parent)
        try:
            there = self.path.is_dir() and any(self.path.iterdir())
        except OSError as error:
            raise StorageError(
                error.errno, f"a backup cannot be written there: {error.strerror}", str(self.path)
            ) from error
        self._hidden = None if there else f".{self.path.name}.backup"

    def storage(self) -> Storage:
        """Return the directory to write to, and remove what an interrupted first backup left."""
        if self._hidden is None:
            return LocalStorage(self.path)
        self._parent.make([])
        self._parent.remove_directory(self._hidden)
        return LocalStorage(self.path.parent / self._hidden)

    def finish(self) -> None:
        """Durably give a first backup its final name."""
        if self._hidden is not None:
            self._parent.rename(self._hidden, self.path.name)
            must_sync(self._parent.sync_directory)


def backup_log(source: Storage, view: View, place: str | os.PathLike[str] | Storage, *, share: bool) -> BackupReport:
    """Copy the log, as a view shows it, to a directory; see Log.backup."""
    destination = destination_at(place, source)
    with LogBackup(source, view, destination.storage(), share=share) as backup:
        backup.bring()
        report = backup.commit()
    destination.finish()
    return report
