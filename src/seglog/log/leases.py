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

HOLDS_EVERYTHING = 0
ATTEMPTS = 16


class Lease:
    """A reader's lease; where the directory cannot be written to, the reader goes without one."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._name = filename.lease_file(f"{os.getpid()}-{secrets.token_hex(6)}")
        self._lock: Lock | None = None
        self.version: int | None = None
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
        if self._lock is not None and version != self.version:
            self._lock.write(b"%d\n" % version)
            self.version = version

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
        lock = storage.try_lock(path)
        if lock is not None:  # nobody holds it: its reader is gone
            storage.unlink(path)
            lock.release()
            continue
        version = _leased_version(storage, path)
        oldest = version if oldest is None else min(oldest, version)
    return oldest


def _leased_version(storage: Storage, path: str) -> int:
    try:
        return int(storage.open(path).pread(32, 0) or HOLDS_EVERYTHING)
    except (StorageError, ValueError):
        return HOLDS_EVERYTHING
