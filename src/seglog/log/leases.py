"""Leases: how readers in other processes prevent the files that they may read from being unlinked.

Invariant: a file is unlinked only if no lease holds a manifest version older than the one that retired it.

- A reader holds a shared flock on `readers/<id>.lease`; the content is the oldest manifest version that it still uses.
- It takes the lease before it reads the manifest, with version 0, which holds everything. It names a version only
  after it has loaded that version, so there is no moment in which files of its view may be unlinked.
- The flock ends with the process, so a dead reader holds nothing. A writer that collects files removes such leases.
- What cannot be determined (a lease that cannot be locked or read) counts as held.
- A read of several processes, such as Spark's, has a lease that no process holds: its content also names the time until
  which it counts, by the system's clock, and its processes write it again. With a wrong clock it ends too early, which
  the read reports as SnapshotExpired, or after LONGEST_KEPT at the latest.
"""

from __future__ import annotations

import os
import secrets

from seglog.clock import system_clock
from seglog.errors import StorageError
from seglog.format import filename
from seglog.storage import Lock, Storage
from seglog.uncopied import Uncopied

HOLDS_EVERYTHING = 0
LONGEST_KEPT = 24 * 3600 * 1_000_000  # us that a lease without a process may be ahead of the clock
ATTEMPTS = 16


class Lease(Uncopied):
    """A reader's lease; if the directory is not writable, the reader works without one."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._lock: Lock | None = None
        self.version: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._inherited = False
        self._name = filename.lease_file(f"{os.getpid()}-{secrets.token_hex(6)}")
        try:
            self._lock = _take(self._storage, self._name)
            self.hold(HOLDS_EVERYTHING)
        except StorageError:
            self._lock = None

    def hold(self, version: int) -> None:
        """Store the oldest manifest version still in use."""
        if self._inherited:
            self._begin()
        if self._lock is not None and version != self.version:
            self._lock.write(b"%d\n" % version)
            self.version = version

    def leave_to_parent(self) -> None:
        """Prepare for a forked child: the lease belongs to the parent; the next `hold` takes one for the child."""
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
                return  # a writer that collects files removes it


def _take(storage: Storage, name: str) -> Lock | None:
    """Take a lease; repeat if a writer looks at the file, or removed it as abandoned just before it was locked."""
    for _ in range(ATTEMPTS):
        lock = storage.try_lock(name, shared=True)
        if lock is not None:
            if storage.identity(name) is not None:
                return lock
            lock.release()
    return None


def keep_version(storage: Storage, version: int, until: int) -> None:
    """Keep the files of a manifest's version until a time (us), for processes that come and go.

    Each user has a file: one that belongs to another user cannot be written again. The caller holds a lease of that
    version, or kept it before. Raises StorageError if it cannot be written.
    """
    name = filename.lease_file(f"version-{version}-{os.geteuid()}")
    lock = _take(storage, name)
    if lock is None:
        return
    try:
        lock.write(b"%d %d\n" % (version, until))
    finally:
        lock.release()


def oldest_leased_version(storage: Storage) -> int | None:
    """Return the oldest manifest version that a reader in any process holds; None without readers."""
    oldest: int | None = None
    for name in storage.names(filename.READERS):
        path = f"{filename.READERS}/{name}"
        if _is_abandoned(storage, path):
            continue
        version = _leased_version(storage, path)
        oldest = version if oldest is None else min(oldest, version)
    return oldest


def _is_abandoned(storage: Storage, path: str) -> bool:
    """Whether no process holds the lease, which is then removed; if that is unknown, it counts as held."""
    try:
        lock = storage.try_lock(path)
    except StorageError:
        return False
    if lock is None:
        return False
    if _is_kept(storage, path):
        lock.release()
        return False
    try:
        storage.unlink(path)
    except StorageError:
        pass  # a file of another user that only they may remove; it holds nothing
    finally:
        lock.release()
    return True


def _is_kept(storage: Storage, path: str) -> bool:
    """Whether a lease that no process holds still counts."""
    try:
        _, until = map(int, storage.open(path).pread(64, 0).split())
    except (StorageError, ValueError):
        return False
    return 0 < until - system_clock() <= LONGEST_KEPT


def _leased_version(storage: Storage, path: str) -> int:
    try:
        return int(storage.open(path).pread(64, 0).split()[0])
    except (StorageError, ValueError, IndexError):
        return HOLDS_EVERYTHING
