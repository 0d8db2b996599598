"""The catalog: installs manifests, which is the only structural commit, and unlinks what left the log when allowed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from seglog.clock import Clock
from seglog.errors import StorageError
from seglog.format import filename, manifest
from seglog.format.manifest import Manifest, Retired, SegmentEntry
from seglog.log.boot import boot_id
from seglog.log.leases import oldest_leased_version
from seglog.log.ownership import Ownership
from seglog.log.quarantine import link_aside
from seglog.log.view import Views
from seglog.storage import Lock, Storage, must_sync


def read_manifest(storage: Storage, name: str = filename.MANIFEST, *, like: Manifest | None = None) -> Manifest | None:
    """Read a manifest file, None where there is none; like, and CorruptLog or FormatVersionError, as in `decode`."""
    try:
        file = storage.open(name)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return manifest.decode(file.pread(file.size(), 0), file.path, like)


class Catalog:
    """The current manifest of a log that is open for writing."""

    def __init__(self, storage: Storage, lock: Lock, current: Manifest, clock: Clock, *, next_file: int) -> None:
        """lock: the log's LOCK, held by the caller; current: what MANIFEST holds."""
        self._storage = storage
        self._clock = clock
        self._next_file = max(next_file, current.next_file)
        self._unlinked: set[int] = set()
        self.current = current
        self.views = Views()
        self.ownership = Ownership(storage, lock)
        self.ownership.installed()

    def new_file_number(self) -> int:
        """Return a file number that was never used; a failed attempt does not give it back."""
        number = self._next_file
        self._next_file += 1
        return number

    def following(
        self, segments: Iterable[SegmentEntry], *, retire: Iterable[SegmentEntry] = (), **changes: object
    ) -> Manifest:
        """Return the next manifest, with these segments and other changed fields. Changes nothing; asks the clock."""
        old = self.current
        version = old.version + 1
        names = tuple(entry.name(kind) for entry in retire for kind in filename.KINDS)
        retired = tuple(waiting for waiting in old.retired if waiting.version not in self._unlinked)
        if names:
            retired += (Retired(version=version, retired_at=self._clock(), names=names),)
        return replace(
            old,
            version=version,
            next_file=self._next_file,
            segments=tuple(segments),
            retired=retired,
            boot=boot_id(),
            backup=False,
            **changes,  # type: ignore[arg-type] # fields of Manifest, named by the callers in this package
        )

    def install(self, new: Manifest) -> None:
        """Make a manifest of `following` the log's structure, in one step that survives a crash.

        StorageError: nothing changed. LogPoisoned: the disk may hold either state, or the directory is no longer this
        log's; the writer must stop.
        """
        self.ownership.check()  # before tmp/ is written to
        old = self.current
        new.take_blocks(old)
        write_manifest(self._storage, new, check=lambda: self._check_manifest(old))
        self.current = new
        with suppress(StorageError):  # it is installed all the same
            self.ownership.installed()

    def begin_epoch(self, end: int) -> None:
        """Note that records from `end` on may have been seen that are lost: what comes there now is of another epoch.

        Where the disk is full, the next install notes it: an opening must be possible then.
        """
        changes = self.current.after_cut(end)
        try:
            self.install(self.following(self.current.segments, **changes))
        except StorageError:
            self.current = replace(self.current, **changes)

    def _check_manifest(self, old: Manifest) -> None:
        self.ownership.check_manifest(old, lambda: read_manifest(self._storage, like=old))

    def collect(self) -> None:
        """Unlink retired files that no reader holds any more; the next install forgets them.

        A refusal leaves them retired: whoever changed the structure has succeeded, and they go at the next call.
        """
        waiting = [retired for retired in self.current.retired if retired.version not in self._unlinked]
        if waiting and self.ownership.is_certain():
            with suppress(StorageError):
                self._unlink(waiting)

    def _unlink(self, waiting: list[Retired]) -> None:
        holders = (self.views.oldest_version(), oldest_leased_version(self._storage))
        oldest = min((version for version in holders if version is not None), default=None)
        for retired in waiting:
            if oldest is None or oldest >= retired.version:
                for name in retired.names:
                    self._storage.unlink(name)
                self._unlinked.add(retired.version)


def write_manifest(
    storage: Storage, new: Manifest, *, replaces_damaged: bool = False, check: Callable[[], None] | None = None
) -> None:
    """Write a file in tmp/, sync it, keep the old one as MANIFEST.prev, rename, sync the directory.

    A damaged old one goes to quarantine/ instead: the MANIFEST.prev that the new one was rebuilt from stays.
    check: called right before the old one is touched; it raises where that must not happen.
    """
    temporary = f"{filename.TMP}/{filename.MANIFEST}"
    file = storage.create(temporary, replace=True)
    try:
        parts = new.encoded_parts()
        file.pwrite(parts[0], 0) if len(parts) == 1 else file.pwritev(parts, 0)
    except StorageError:
        storage.unlink(temporary)
        raise
    must_sync(file.datasync)
    if check is not None:
        check()
    if replaces_damaged:
        _keep_evidence(storage)
    else:
        _keep_previous(storage)
    storage.rename(temporary, filename.MANIFEST)
    must_sync(storage.sync_directory)


def _keep_evidence(storage: Storage) -> None:
    """Give it its second name durably, before the first one is taken away."""
    if storage.identity(filename.MANIFEST) is not None:
        link_aside(storage, filename.MANIFEST)
        must_sync(lambda: storage.sync_directory(filename.QUARANTINE))


def _keep_previous(storage: Storage) -> None:
    if storage.identity(filename.MANIFEST) is None:
        return
    previous = f"{filename.TMP}/{filename.MANIFEST_PREVIOUS}"
    storage.unlink(previous)
    storage.link(filename.MANIFEST, previous)
    storage.rename(previous, filename.MANIFEST_PREVIOUS)
    storage.unlink(previous)  # rename leaves both names where they are one file already
