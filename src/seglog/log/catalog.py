"""The catalog: installs manifests, the only structural commit, and unlinks files that left the log when allowed."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace

from seglog.clock import Clock
from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.cuts import separate_epoch
from seglog.format.manifest import Manifest, Retired, SegmentEntry, Segments
from seglog.format.manifest_changes import ManifestFile
from seglog.log.boot_id import boot_id
from seglog.log.journal import Journal, read_file
from seglog.log.leases import oldest_leased_version
from seglog.log.locks.ownership import Ownership
from seglog.log.quarantine import link_aside
from seglog.log.role_file import write_role
from seglog.log.view import Views
from seglog.storage import Lock, Storage, must_sync


def read_manifest(storage: Storage, name: str = filename.MANIFEST, *, like: Manifest | None = None) -> Manifest | None:
    """Read a manifest file; None if there is none. `like` and the errors are those of `read_file`."""
    found = read_file(storage, name, like=like)
    return None if found is None else found.manifest


class Catalog:
    """The current manifest of a log that is open for writing."""

    def __init__(
        self,
        storage: Storage,
        lock: Lock,
        current: Manifest,
        clock: Clock,
        *,
        next_file: int,
        file: ManifestFile | None = None,
    ) -> None:
        """lock: the log's LOCK, held by the caller; current: what MANIFEST holds; file: see `Journal`."""
        self._storage = storage
        self._clock = clock
        self._next_file = max(next_file, current.next_file)
        self._unlinked: set[int] = set()
        self.current = current
        self._epoch_from: int | None = None  # the offset of an epoch that MANIFEST does not have yet
        self._journal = Journal(storage, file)
        self.views = Views()
        self.ownership = Ownership(storage, lock)
        self.ownership.installed()

    def new_file_number(self) -> int:
        """Return a file number that was never used, not even by a failed attempt."""
        number = self._next_file
        self._next_file += 1
        return number

    def following(
        self, segments: Iterable[SegmentEntry], *, retire: Iterable[SegmentEntry] = (), **changes: object
    ) -> Manifest:
        """Return the next manifest, with these segments and changed fields. Has no effect besides reading the clock.

        It includes an epoch that has begun and is not installed, unless `changes` begin one.
        """
        old = self.current
        if self._epoch_from is not None:
            changes = {**old.after_cut(self._epoch_from), **changes}
        version = old.version + 1
        names = tuple(entry.name(kind) for entry in retire for kind in entry.kinds)
        retired = tuple(waiting for waiting in old.retired if waiting.version not in self._unlinked)
        if names:
            retired += (Retired(version=version, retired_at=self._clock(), names=names),)
        return replace(
            old,
            version=version,
            next_file=self._next_file,
            segments=Segments.of(segments),
            retired=retired,
            boot=boot_id(),
            backup=False,
            **changes,  # type: ignore[arg-type] # fields of Manifest, named by the callers in this package
        )

    def install(self, new: Manifest, *, as_base: bool = False) -> None:
        """Install a manifest from `following` as the log's structure, atomically and durably: append the change to
        MANIFEST, or replace it. as_base: replace it in any case.

        StorageError: nothing changed. LogPoisoned: the disk may hold either state, or another log has the directory;
        the writer must stop.
        """
        self.ownership.check()  # before tmp/ is written to
        old = self.current
        if new.role != old.role and not new.role.accepts:
            write_role(self._storage, new.role)
        if as_base or not self._journal.append(old, new, lambda: self._check_manifest(old)):
            file = write_manifest(self._storage, new, check=lambda: self._check_manifest(old))
            self._journal.rewritten(old, file)
        self.current, self._epoch_from = new, None
        if new.role != old.role and new.role.accepts:
            with suppress(StorageError):  # the next opening writes it
                write_role(self._storage, new.role)
        with suppress(StorageError):  # the manifest is installed in any case
            self.ownership.installed()

    def begin_epoch(self, end: int) -> None:
        """Record that records from `end` on may have been read and then lost: new records there are of another epoch.

        If the disk is full, it is recorded later, so that the log can still be opened, to delete what is not needed.
        No reader sees the epoch before it is installed, and no record is appended: else the next opening might give the
        same epoch to other records, and a reader of the first ones would not notice.
        """
        self._epoch_from = end
        try:
            self.note_epoch()
        except StorageError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise

    def begin_separate_epoch(self, end: int) -> None:
        """Begin an epoch that the original of this backup never uses for other records.

        StorageError: nothing changed. Unlike `begin_epoch` this does not wait for space on a full disk: the next
        opening would begin another one.
        """
        epoch = separate_epoch(self.current.epoch)
        cuts = self.current.cuts.with_cut(epoch, end)
        self.install(self.following(self.current.segments, epoch=epoch, cuts=cuts))

    @property
    def must_note_epoch(self) -> bool:
        """Whether an epoch has begun that is not installed."""
        return self._epoch_from is not None

    def note_epoch(self) -> None:
        """Install an epoch that has begun, if no other change did; StorageError where that is not possible yet."""
        if self.must_note_epoch:
            self.install(self.following(self.current.segments))

    def _check_manifest(self, old: Manifest) -> None:
        self.ownership.check_manifest(old, lambda: read_manifest(self._storage, like=old))

    def collect(self) -> None:
        """Unlink retired files that no reader uses any more; the next install removes them from the manifest.

        After an error they stay retired: the change of structure has succeeded, and the next call tries again.
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
    storage: Storage,
    new: Manifest,
    *,
    replaces_damaged: bool = False,
    check: Callable[[], None] | None = None,
    open_ended: bool = True,
) -> ManifestFile:
    """Write a manifest as the log's MANIFEST, a base without changes.

    Invariant: MANIFEST always names a complete, synced manifest; a crash leaves the old one or the new one. Therefore:
    1. write and sync the new one as a file in tmp/;
    2. run `check`, which raises if another log has the directory;
    3. keep the old one as MANIFEST.prev (a link and a rename, so that neither name is ever missing);
    4. rename the new one to MANIFEST, which is the commit;
    5. sync the directory. If this fails either one may be on the disk, so the writer is poisoned.

    replaces_damaged: move the old one to quarantine/ instead of step 3, because MANIFEST.prev is the one that the new
    one was rebuilt from. open_ended: see `Manifest.encode`.
    """
    temporary = f"{filename.TMP}/{filename.MANIFEST}"
    file = storage.create(temporary, replace=True)
    data = new.encode(open_ended=open_ended)
    try:
        empty = storage.identity(temporary)
        file.pwrite(data, 0)
        grows = storage.identity(temporary) != empty  # else no reader would notice a change that is appended
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
    written = ManifestFile.of_base(new, data)
    return written if grows else replace(written, open_ended=False)


def _keep_evidence(storage: Storage) -> None:
    """Durably give the damaged manifest a second name before its first one is replaced."""
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
    storage.unlink(previous)  # rename keeps both names if they are one file already
