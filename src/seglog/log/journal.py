"""Append changes to a log's MANIFEST, so that a change costs the same however many segments there are.

Whatever this module cannot append safely the catalog writes as a new base. Readers in other processes see a change
before it is synced, as they see a renamed file before its directory is synced.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.manifest import CHECK_BYTES, Manifest
from seglog.format.manifest_changes import (
    COPIES,
    Change,
    ManifestFile,
    decode_file,
    doubled,
    encode_change,
    follow,
    is_rebuildable,
)
from seglog.storage import File, Storage, must_sync


def read_file(
    storage: Storage,
    name: str = filename.MANIFEST,
    *,
    known: ManifestFile | None = None,
    like: Manifest | None = None,
) -> ManifestFile | None:
    """Read a manifest file; None if there is none.

    known: what it held before; only what was appended is read if the rest is unchanged. like and the errors: those of
    `decode_file`.
    """
    try:
        file = storage.open(name)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    if known is None:
        return decode_file(file.pread(file.size(), 0), file.path, like)
    start = known.end - CHECK_BYTES
    data = file.pread(max(file.size() - start, 0), start)
    if known.open_ended and data.startswith(known.tail):
        return follow(known, data[CHECK_BYTES:], file.path)
    return decode_file(file.pread(file.size(), 0), file.path, known.manifest)


def confirm(storage: Storage, known: ManifestFile) -> None:
    """Make the last change durable: who wrote it may have died before its sync, or after a sync that failed.

    It is written again: after a failed sync the page cache may hold what the disk does not, and count as synced.
    """
    if known.line:
        file = storage.open(filename.MANIFEST, writable=True)
        data = doubled(known.line) if known.copies == COPIES else known.line
        file.pwrite(data, known.end - len(data))
        must_sync(file.datasync)


class Journal:
    """Where the next change of a MANIFEST goes.

    Invariants:
    - A change is appended only to a base that this process has written, and only if the file ends with the check of the
      state before, which is compared on the open file. So no other log's file ever gets a change of this one.
    - MANIFEST.prev is the file that the base replaced. It gets every change as well, unsynced, so that a log whose
      MANIFEST is lost knows as much as its stores. Whatever they cannot tell is not appended (`is_rebuildable`).
    """

    def __init__(self, storage: Storage, file: ManifestFile | None) -> None:
        """file: what MANIFEST holds; None if it was rebuilt."""
        self._storage = storage
        self._file: ManifestFile | None = None
        self._replaced = file  # what MANIFEST holds where no change may be appended to it
        self._previous: ManifestFile | None = None

    def rewritten(self, old: Manifest, file: ManifestFile) -> None:
        """Note a new base, which has replaced the state `old`."""
        before, self._replaced = self._replaced, None
        if not is_rebuildable(old, file.manifest):
            self._file, self._replaced = None, file
            return
        self._file = file
        self._previous = before if before is not None and before.manifest == old and before.takes(b"") else None
        self._repeat(Change.between(old, file.manifest), file.manifest)

    def append(self, old: Manifest, new: Manifest, check: Callable[[], None]) -> bool:
        """Append the change durably; False if a new base must be written instead, and nothing was changed.

        check: raises if another log has the directory. StorageError: nothing was changed. LogPoisoned: the disk may
        hold either state.
        """
        known, self._file = self._file, None  # after any error a new base is written
        if known is None:
            return False
        file, line = None, b""
        if is_rebuildable(old, new):
            change = Change.between(old, new)
            line = encode_change(known, change)
            file = self._opened(filename.MANIFEST, known) if known.takes(line) else None
        if file is None:
            self._replaced = known
            return False
        check()
        try:
            file.pwrite(doubled(line), known.end)
        except StorageError:
            must_sync(lambda: file.truncate(known.end))
            must_sync(file.datasync)
            raise
        must_sync(file.datasync)
        self._file = known.with_change(new, line)
        self._repeat(change, new)
        return True

    def _repeat(self, change: Change, new: Manifest) -> None:
        """Append the change to MANIFEST.prev as well; if that fails, no more until the next base."""
        known, self._previous = self._previous, None
        if known is not None:
            line = encode_change(known, change)
            with suppress(StorageError):
                file = self._opened(filename.MANIFEST_PREVIOUS, known)
                if file is not None:
                    file.pwrite(doubled(line), known.end)
                    self._previous = known.with_change(new, line)

    def _opened(self, name: str, known: ManifestFile) -> File | None:
        """Return a manifest file, open to be written, if it still ends as known."""
        try:
            file = self._storage.open(name, writable=True)
        except StorageError as error:
            if error.errno == errno.ENOENT:
                return None
            raise
        return file if file.pread(CHECK_BYTES + 1, known.end - CHECK_BYTES) == known.tail else None
