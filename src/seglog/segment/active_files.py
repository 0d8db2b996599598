"""The two open files of the active segment: their syncs, and closing them while the log is idle."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from typing import NoReturn, cast

from seglog.errors import LogPoisoned, LogReadOnly, StorageError
from seglog.storage import File, SuspendableFile, must_sync


class ActiveFiles:
    """store: the records; index: their lookups, which are derived and never synced. Safe for threads.

    failure: the error of a sync that failed. No later one may succeed: the system reports a failure once, so that a
    second sync would return without an error although data was lost.
    """

    def __init__(self, store: File, index: File) -> None:
        self.store = store
        self.index = index
        self.failure: LogPoisoned | None = None
        self._syncing = threading.Lock()

    def sync_store(self) -> None:
        """Return once everything that was written to the store is on the disk; LogPoisoned also after a failed sync."""
        with self._syncing:
            if self.failure is not None:
                raise LogPoisoned(*self.failure.args) from self.failure
            self._sync_store()

    def _sync_store(self) -> None:
        try:
            must_sync(self.store.datasync)
        except LogPoisoned as error:
            self.failure = error
            raise

    @property
    def suspendable(self) -> bool:
        """Whether the files have descriptors that can be closed for a while."""
        return isinstance(self.store, SuspendableFile) and isinstance(self.index, SuspendableFile)

    def suspend(self, reopened: Callable[[], None]) -> bool:
        """Sync the store and close both files until a call needs them; `reopened` is called then.

        Return False if they are being synced, or cannot be closed. LogPoisoned if the sync fails: a later one would
        not report what was lost. The caller ensures that no thread writes meanwhile.
        """
        files = [file for file in (self.store, self.index) if isinstance(file, SuspendableFile)]
        syncing = self._syncing  # a child forked meanwhile gets another one
        if len(files) < 2 or not syncing.acquire(blocking=False):
            return False
        try:
            if self.failure is not None:
                return False
            self._sync_store()
            for file in files:
                if not file.suspended:
                    file.suspend(reopened)
        except StorageError:
            return False  # a file could not be looked at, and was not closed
        finally:
            syncing.release()
        return True

    def reopen(self) -> None:
        """Open the files again that `suspend` closed."""
        for file in (self.store, self.index):
            file.size()

    def leave_to_parent(self) -> None:
        """Reject every call from now on: in a forked child, which shares the descriptors with its parent."""
        self.store = self.index = cast("File", _ParentsFile(self.store.path))
        self.failure = None
        self._syncing = threading.Lock()  # a thread of the parent may hold the other one


class _ParentsFile:
    """A file that only the parent process may use."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __getattr__(self, name: str) -> NoReturn:
        raise LogReadOnly(errno.EPERM, "this file belongs to the process that this one was forked from", self.path)
