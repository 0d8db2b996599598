"""Whether a writer still owns its directory: it may have been removed, or replaced by another log.

The lock does not prevent that: it belongs to a file, and `rm -rf` removes the file's name. So every structural change
and every sync first checks that LOCK is still the file that was locked; the inode of an open file is not reused.
Before an install, MANIFEST must be the one that this writer installed last.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from seglog.errors import CorruptLog, FormatVersionError, LogPoisoned, StorageError
from seglog.format import filename

if TYPE_CHECKING:
    from seglog.format.manifest import Manifest
    from seglog.storage import Lock, Storage


class Ownership:
    """The claim of one writer to one directory."""

    def __init__(self, storage: Storage, lock: Lock) -> None:
        """lock: the lock on LOCK."""
        self._storage = storage
        self._lock = lock
        self._identity: object = None

    def check(self) -> None:
        """Raise LogPoisoned if the directory or its LOCK was removed, moved or replaced. One or two stat calls."""
        if not self._lock.is_current():
            raise self._lost("its directory or LOCK file was removed, moved or replaced while it was open for writing")

    def check_after_sync(self) -> None:
        """Check as `check` does, after a write: LogPoisoned also if the check itself fails."""
        try:
            self.check()
        except LogPoisoned:
            raise
        except StorageError as error:
            message = f"cannot check that the directory still belongs to this log ({error.strerror}); open it again"
            raise LogPoisoned(error.errno, message, error.filename) from error

    def is_certain(self) -> bool:
        """Check as `check` does, for a step that may be omitted: False if the check itself fails."""
        try:
            self.check()
        except LogPoisoned:
            raise
        except StorageError:
            return False
        return True

    def check_manifest(self, current: Manifest, read: Callable[[], Manifest | None]) -> None:
        """Also raise LogPoisoned if MANIFEST is neither the one that was installed last nor a copy of it.

        read: reads MANIFEST; raises CorruptLog or FormatVersionError if it cannot be used. A missing or damaged one is
        no reason to stop: the next install replaces it.
        """
        self.check()
        identity = self._storage.identity(filename.MANIFEST)
        if identity is None or identity == self._identity:
            return
        with suppress(CorruptLog):
            found = self._found(read)
            if found is not None and (found.log_id, found.version) != (current.log_id, current.version):
                raise self._lost("another program replaced its MANIFEST while it was open for writing")
        self._identity = identity

    def _found(self, read: Callable[[], Manifest | None]) -> Manifest | None:
        try:
            return read()
        except FormatVersionError as error:
            raise self._lost(f"another program replaced its MANIFEST: {error}") from error

    def installed(self) -> None:
        """Record the present MANIFEST as this writer's own. After a StorageError the next check reads it instead."""
        self._identity = None
        self._identity = self._storage.identity(filename.MANIFEST)

    def _lost(self, why: str) -> LogPoisoned:
        return LogPoisoned(
            errno.ESTALE,
            f"{why}; this writer stops and changes nothing there. Records that it synced before are lost with that "
            "directory unless it was moved; open the log again",
            self._storage.path,
        )
