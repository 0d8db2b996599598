"""Leases: how readers in other processes keep the files they may read from being unlinked.

A reader holds a shared flock on `readers/<id>.lease`, whose content is the oldest manifest version it still reads by.
A lease ends with its process; whoever unlinks files removes the leases nobody holds.
"""

from __future__ import annotations

import os
import secrets

from seglog.errors import StorageError
from seglog.format import filename
from seglog.storage import Lock, Storage
from seglog.uncopied import Uncopied

HOLDS_EVERYTHING = 0
ATTEMPTS = 16


class Lease(Uncopied):
    """A reader's lease; where the directory cannot be written to, the reader goes without one."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock: Lock | None = None
        self.version: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._inherited = False
        self._name = filename.lease_file(f"{os.getpid()}-{secrets.token_hex(6)}")
        try:
            self._lock = self._take()
            self.hold(HOLDS_EVERYTHING)
        except StorageError:
            self._lock = None

    def _take(self) -> Lock | None:
        """Take the lease; again if a writer, in the moment before it was held, removed it as one left behind."""
        for _ in range(ATTEMPTS):
            lock = self._storage.try_lock(self._name, shared=True)
            if lock is not None:
                if self._storage.identity(self._name) is not None:
                    return lock
                lock.release()
        return None

    def hold(self, version: int) -> None:
        """Note the oldest manifest version still in use."""
        if self._inherited:
            self._begin()
        if self._lock is not None and version != self.version:
            self._lock.write(b"%d\n" % version)
            self.version = version

    def leave_to_parent(self) -> None:
        """In a forked child: the lease stays the parent's, and the next `hold` takes one for this process."""
        self._lock = self.version = None
        self._inherited = True

    def release(self) -> None:
        """End the lease."""
        lock, self._lock = self._lock, None
        if lock is not None:
            lock.release()
            try:
                self._storage.unlink(self._name)
            except StorageError:
                return  # whoever unlinks files clears it


def oldest_leased_version(storage: Storage) -> int | None:
    """Return the oldest manifest version that a reader in any process holds, None without readers."""
    oldest: int | None = None
    for name in storage.names(filename.READERS):
        path = f"{filename.READERS}/{name}"
        if _is_abandoned(storage, path):
            continue
        version = _leased_version(storage, path)
        oldest = version if oldest is None else min(oldest, version)
    return oldest


def _is_abandoned(storage: Storage, path: str) -> bool:
    """Whether nobody holds the lease, which is then removed; where nobody can tell, it counts as held."""
    try:
        lock = storage.try_lock(path)
    except StorageError:
        return False
    if lock is None:
        return False
    try:
        storage.unlink(path)
    except StorageError:
        pass  # of a user whose files only they may remove; it holds nothing all the same
    finally:
        lock.release()
    return True


def _leased_version(storage: Storage, path: str) -> int:
    try:
        return int(storage.open(path).pread(32, 0) or HOLDS_EVERYTHING)
    except (StorageError, ValueError):
        return HOLDS_EVERYTHING
