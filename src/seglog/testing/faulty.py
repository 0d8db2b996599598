"""A storage that fails as a test plans it: one call fails, or is the last one of a dying process.

Wraps any storage, passes every call through and records it. Knows nothing of logs. It shows what a killed process
leaves: all that it wrote. It does not show what a power cut leaves (unsynced blocks in any combination).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple
from weakref import WeakSet

from seglog.errors import StorageError
from seglog.storage import File, Lock, Storage
from seglog.storage.base import Buffer

READING = frozenset(
    {"exists", "free_bytes", "identity", "is_current", "map", "names", "open", "pread", "size", "sizes"}
)
SYNCING = frozenset({"datasync", "sync_directory"})
WRITING = SYNCING | {
    *("create", "link", "make", "pwrite", "pwritev", "remove", "remove_directory", "rename", "truncate", "try_lock"),
    *("remove_if_empty", "unlink", "write"),
}

Spill = Callable[[float], None]


class Crashed(BaseException):
    """The process died at this call. Not an Exception, because a dead process handles nothing."""


class Call(NamedTuple):
    """One call of the storage: the name of the method, and of the file or directory."""

    operation: str
    name: str


@dataclass(frozen=True, kw_only=True)
class Fault:
    """Which call goes wrong, and how.

    operations, name: the calls that count, by method and by a part of the file's name. at: which of them, from 1 on.
    error: the errno to raise; None: the process dies there, and every later call raises Crashed. forever: every later
    call that counts fails, too. keep: fraction of a failing write's bytes that are written.
    """

    operations: frozenset[str] = WRITING
    name: str = ""
    at: int = 1
    error: int | None = None
    forever: bool = False
    keep: float = 0.0

    def counts(self, call: Call) -> bool:
        """Whether the call counts."""
        return call.operation in self.operations and self.name in call.name


class FaultyStorage:
    """A storage around another one.

    calls: all calls, in order; fault: the planned fault; struck: whether it has occurred.
    """

    def __init__(self, inner: Storage, fault: Fault | None = None) -> None:
        self.path = inner.path
        self.calls: list[Call] = []
        self.crashed = False
        self._inner = inner
        self._guard = threading.RLock()  # a collection within a call may close a file: a call of its own
        self._locks: WeakSet[_FaultyLock] = WeakSet()
        self.fault = fault

    @property
    def fault(self) -> Fault | None:
        """The planned fault; setting it resets the count."""
        return self._fault

    @fault.setter
    def fault(self, fault: Fault | None) -> None:
        self._fault = fault
        self._counted = 0
        self.struck = False

    def meet(self, operation: str, name: str, spill: Spill | None = None) -> None:
        """Record a call, and raise if it is planned to fail; `spill` first does a given fraction of it."""
        call = Call(operation, name)
        with self._guard:
            fault = self._strikes(call)
        if fault is None:
            return
        if spill is not None and fault.keep and not self.crashed:
            spill(fault.keep)
        if fault.error is not None:
            raise StorageError(fault.error, os.strerror(fault.error), f"{self.path}/{name}")
        self.crash()
        raise Crashed(f"{operation} {name}")

    def _strikes(self, call: Call) -> Fault | None:
        """Return the fault if it applies to this call."""
        if self.crashed:
            return Fault()
        self.calls.append(call)
        if self._fault is None or not self._fault.counts(call):
            return None
        self._counted += 1
        hit = self._counted == self._fault.at or (self._fault.forever and self._counted > self._fault.at)
        self.struck = self.struck or hit
        return self._fault if hit else None

    def crash(self) -> None:
        """Let the process die now: its locks are released, every later call raises Crashed."""
        self.crashed = True
        for lock in list(self._locks):
            lock.release()

    # --- calls of Storage -----------------------------------------------------------------------------------------

    def exists(self, directory: str = "") -> bool:
        """See Storage.exists."""
        self.meet("exists", directory)
        return self._inner.exists(directory)

    def make(self, directories: Sequence[str]) -> None:
        """See Storage.make."""
        self.meet("make", "")
        self._inner.make(directories)

    def names(self, directory: str = "") -> list[str]:
        """See Storage.names."""
        self.meet("names", directory)
        return self._inner.names(directory)

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """See Storage.sizes."""
        self.meet("sizes", directory)
        return self._inner.sizes(directory, ending=ending)

    def open(self, name: str, *, writable: bool = False) -> File:
        """See Storage.open."""
        self.meet("open", name)
        return _FaultyFile(self, self._inner.open(name, writable=writable), name)

    def create(self, name: str, *, replace: bool = False) -> File:
        """See Storage.create."""
        self.meet("create", name)
        return _FaultyFile(self, self._inner.create(name, replace=replace), name)

    def rename(self, old: str, new: str) -> None:
        """See Storage.rename; recorded under the new name."""
        self.meet("rename", new)
        self._inner.rename(old, new)

    def link(self, old: str, new: str) -> None:
        """See Storage.link; recorded under the new name."""
        self.meet("link", new)
        self._inner.link(old, new)

    def unlink(self, name: str) -> None:
        """See Storage.unlink."""
        self.meet("unlink", name)
        self._inner.unlink(name)

    def sync_directory(self, directory: str = "") -> None:
        """See Storage.sync_directory."""
        self.meet("sync_directory", directory)
        self._inner.sync_directory(directory)

    def identity(self, name: str) -> object:
        """See Storage.identity."""
        self.meet("identity", name)
        return self._inner.identity(name)

    def try_lock(self, name: str, *, shared: bool = False) -> Lock | None:
        """See Storage.try_lock."""
        self.meet("try_lock", name)
        inner = self._inner.try_lock(name, shared=shared)
        if inner is None:
            return None
        lock = _FaultyLock(self, inner, name)
        self._locks.add(lock)
        return lock

    def remove_directory(self, directory: str) -> None:
        """See Storage.remove_directory."""
        self.meet("remove_directory", directory)
        self._inner.remove_directory(directory)

    def remove_if_empty(self, directory: str) -> None:
        """See Storage.remove_if_empty."""
        self.meet("remove_if_empty", directory)
        self._inner.remove_if_empty(directory)

    def free_bytes(self, directory: str = "") -> int:
        """See Storage.free_bytes."""
        self.meet("free_bytes", directory)
        return self._inner.free_bytes(directory)

    def remove(self) -> None:
        """See Storage.remove."""
        self.meet("remove", "")
        self._inner.remove()


class _FaultyFile:
    """A file of a faulty storage."""

    def __init__(self, storage: FaultyStorage, inner: File, name: str) -> None:
        self.path = inner.path
        self._storage = storage
        self._inner = inner
        self._name = name

    def size(self) -> int:
        self._storage.meet("size", self._name)
        return self._inner.size()

    def pread(self, length: int, position: int) -> bytes:
        self._storage.meet("pread", self._name)
        return self._inner.pread(length, position)

    def pwrite(self, data: Buffer, position: int) -> None:
        self._storage.meet("pwrite", self._name, lambda share: self._write_share(data, position, share))
        self._inner.pwrite(data, position)

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        self._storage.meet("pwritev", self._name, lambda share: self._write_share(b"".join(parts), position, share))
        self._inner.pwritev(parts, position)

    def _write_share(self, data: Buffer, position: int, share: float) -> None:
        self._inner.pwrite(memoryview(data)[: int(len(data) * share)], position)

    def truncate(self, size: int) -> None:
        self._storage.meet("truncate", self._name)
        self._inner.truncate(size)

    def datasync(self) -> None:
        self._storage.meet("datasync", self._name)
        self._inner.datasync()

    def map(self) -> memoryview:
        self._storage.meet("map", self._name)
        return self._inner.map()

    def close(self) -> None:
        self._inner.close()


class _FaultyLock:
    """A lock of a faulty storage; releasing it never fails, because the end of the process does it as well."""

    def __init__(self, storage: FaultyStorage, inner: Lock, name: str) -> None:
        self._storage = storage
        self._inner = inner
        self._name = name

    def write(self, data: bytes) -> None:
        self._storage.meet("write", self._name)
        self._inner.write(data)

    def is_current(self) -> bool:
        """See Lock.is_current."""
        self._storage.meet("is_current", self._name)
        return self._inner.is_current()

    def release(self) -> None:
        self._inner.release()
