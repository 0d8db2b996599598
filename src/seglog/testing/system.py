"""System calls that fail as a test plans it, to show how a storage on real files handles a bad disk.

Within the context every call of `os`, `fcntl.flock` and `mmap.mmap` for files below one directory is recorded, and one
of them goes wrong: it fails, or transfers fewer bytes than requested. The files are real. Works for any storage that
makes its calls in Python by the modules' names (`os.pwrite(...)`); C code and the builtin `open` are not covered. The
whole process is affected, so other paths pass through unchanged. Knows nothing of logs.

    with FaultySystem(directory) as system:
        storage.create("a")
        system.fault = SystemFault(operations=WRITES, at=2, error=errno.ENOSPC, moves=0.5)
        ...

`faulty` tests a log on a storage that fails; this tests a storage on a system that fails.
"""

from __future__ import annotations

import errno
import fcntl
import mmap
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import Any, Self

import seglog.storage.local_file
from seglog.storage import mapping
from seglog.testing.faulty import Call, Crashed

WRITES = frozenset({"pwrite", "pwritev", "write"})
READS = frozenset({"pread", "read"})
TRANSFERS = READS | WRITES
SYNCS = frozenset({"fdatasync", "fsync"})

_LIMITS = (errno.EMFILE, errno.EACCES)
_FULL = (errno.EIO, errno.ENOSPC, errno.EROFS)
LEGAL: dict[str, tuple[int, ...]] = {
    "close": (errno.EIO, errno.EINTR, errno.ENOSPC),
    "create": (*_FULL, *_LIMITS, errno.EINTR),
    "fdatasync": (*_FULL, errno.EINTR),
    "flock": (errno.EIO, errno.EINTR, errno.ENOLCK),
    "fstat": (errno.EIO,),
    "fsync": (*_FULL, errno.EINTR),
    "ftruncate": (*_FULL, errno.EINTR),
    "link": (*_FULL, errno.EACCES),
    "listdir": (errno.EIO, *_LIMITS),
    "mkdir": (*_FULL, errno.EACCES),
    "mmap": (errno.EIO, errno.ENOMEM, errno.EMFILE),
    "open": (errno.EIO, errno.EINTR, *_LIMITS),
    "open_writable": (errno.EIO, errno.EINTR, errno.EROFS, *_LIMITS),
    "pread": (errno.EIO, errno.EINTR),
    "pwrite": (*_FULL, errno.EINTR),
    "pwritev": (*_FULL, errno.EINTR),
    "read": (errno.EIO, errno.EINTR),
    "rename": (*_FULL, errno.EACCES),
    "rmdir": (*_FULL, errno.EACCES),
    "scandir": (errno.EIO, *_LIMITS),
    "stat": (errno.EIO, errno.EACCES),
    "statvfs": (errno.EIO, errno.EINTR),
    "unlink": (*_FULL, errno.EACCES),
    "write": (*_FULL, errno.EINTR),
}
"""The errors that a call may return, according to Linux's documentation and file systems. Every recorded call has an
entry; opening has three: create, open_writable, and open for reading."""

_BY_DESCRIPTOR = ("fdatasync", "fstat", "fsync", "ftruncate", "pread", "pwrite", "pwritev", "read", "write")
_BY_PATH = {
    **{name: name for name in ("listdir", "mkdir", "rmdir", "stat", "statvfs", "unlink")},
    "lstat": "stat",
    "remove": "unlink",
}
_BY_TWO_PATHS = {"link": "link", "rename": "rename", "replace": "rename"}
_ALIASES: tuple[tuple[ModuleType, str, str], ...] = ((seglog.storage.local_file, "sync_data", "fdatasync"),)
"""Calls of `os` that a module keeps under another name: (module, its name, the call's name)."""


@dataclass(frozen=True, kw_only=True)
class SystemFault:
    """Which call goes wrong, and how.

    operations, name: the calls that count, by name (keys of LEGAL; none: all) and by a part of the file's path. at:
    which of them, from 1 on. error: the errno with which it fails. forever: every later call that counts fails, too.
    moves: with a fraction below 1, a read or write transfers only that part of its bytes, at least one, and succeeds;
    if an error is set as well, the next call is the first one to fail, as on a disk that fills up.
    """

    operations: frozenset[str] = frozenset()
    name: str = ""
    at: int = 1
    error: int | None = None
    forever: bool = False
    moves: float = 1.0

    def counts(self, call: Call) -> bool:
        """Whether the call counts."""
        return (not self.operations or call.operation in self.operations) and self.name in call.name

    def strikes(self, number: int) -> bool:
        """Whether the number-th call that counts goes wrong."""
        last = self.at + (self.moves < 1 and self.error is not None)
        return number >= self.at and (self.forever or number <= last)

    def is_short(self, number: int) -> bool:
        """Whether the number-th call transfers a part of its bytes instead of failing."""
        return self.moves < 1 and (self.error is None or number == self.at)


class FaultySystem:
    """A context in which the system calls for files below `root` are recorded, and go wrong as planned.

    calls: all of them, in order, with their path below `root`; fault: the planned fault; struck: whether it has
    occurred.
    """

    def __init__(self, root: str | os.PathLike[str], fault: SystemFault | None = None) -> None:
        self.root = os.fspath(root)
        self.calls: list[Call] = []
        self.ended = False
        self._guard = threading.RLock()  # a collection within a call may close a file: a call of its own
        self._paths: dict[int, str] = {}
        self._locked: set[int] = set()
        self._replaced: list[tuple[Any, str, Any]] = []
        self.fault = fault

    @property
    def fault(self) -> SystemFault | None:
        """The planned fault; setting it resets the count."""
        return self._fault

    @fault.setter
    def fault(self, fault: SystemFault | None) -> None:
        self._fault = fault
        self._counted = 0
        self.struck = False

    def end(self) -> None:
        """Let the process end here: its flocks are released, and every later call except close raises Crashed."""
        self.ended = True
        for descriptor in self._locked:
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    # --- one call -------------------------------------------------------------------------------------------------

    def _meet(self, operation: str, path: str) -> float:
        """Record a call; return the fraction of its bytes to transfer, or raise its error."""
        if self.ended and operation != "close":
            raise Crashed(f"{operation} {path}")
        call = Call(operation, path[len(self.root) :].lstrip("/"))
        with self._guard:
            self.calls.append(call)
            fault = self._fault
            if fault is None or not fault.counts(call):
                return 1.0
            self._counted += 1
            if not fault.strikes(self._counted):
                return 1.0
            self.struck = True
            if fault.is_short(self._counted):
                return fault.moves
        assert fault.error is not None, "a fault has an error, or moves less than all"
        raise OSError(fault.error, os.strerror(fault.error), path)

    def _below(self, path: Any, directory: int | None = None) -> str | None:
        """Return the full path if it is below the root; None otherwise."""
        if isinstance(path, int):
            return self._paths.get(path)
        full = os.fsdecode(path)
        if directory is not None:
            full = f"{self._paths.get(directory, '')}/{full}"
        return full if full == self.root or full.startswith(f"{self.root}/") else None

    # --- the calls, by kind of argument -----------------------------------------------------------------------------

    def _by_descriptor(self, operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: Any, *rest: Any) -> Any:
            path = self._paths.get(descriptor) if isinstance(descriptor, int) else None
            if path is None:
                return real(descriptor, *rest)
            share = self._meet(operation, path)
            return real(descriptor, *rest) if share == 1 else _moved(real, operation, descriptor, rest, share)

        return call

    def _by_path(self, operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".", *rest: Any, **options: Any) -> Any:
            full = self._below(path, options.get("dir_fd"))
            if full is not None:
                self._meet("fstat" if operation == "stat" and isinstance(path, int) else operation, full)
            return real(path, *rest, **options)

        return call

    def _by_two_paths(self, operation: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(old: Any, new: Any, **options: Any) -> Any:
            full = self._below(new, options.get("dst_dir_fd"))
            if full is not None:
                self._meet(operation, full)
            return real(old, new, **options)

        return call

    def _open(self, real: Callable[..., int]) -> Callable[..., int]:
        def call(path: Any, flags: int, *rest: Any, **options: Any) -> int:
            full = self._below(path, options.get("dir_fd"))
            if full is None:
                return real(path, flags, *rest, **options)
            writable = "open_writable" if flags & (os.O_RDWR | os.O_WRONLY) else "open"
            self._meet("create" if flags & os.O_CREAT else writable, full)
            descriptor = real(path, flags, *rest, **options)
            self._paths[descriptor] = full
            return descriptor

        return call

    def _close(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def call(descriptor: int) -> None:
            path = self._paths.pop(descriptor, None)
            self._locked.discard(descriptor)
            real(descriptor)  # first: the system releases a descriptor even if close fails
            if path is not None:
                self._meet("close", path)

        return call

    def _scandir(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(path: Any = ".") -> Any:
            full = self._below(path)
            if full is None:
                return real(path)
            self._meet("scandir", full)
            return _Entries(self, real(path))

        return call

    def _flock(self, real: Callable[[Any, int], None]) -> Callable[[Any, int], None]:
        def call(descriptor: Any, operation: int) -> None:
            path = self._paths.get(descriptor) if isinstance(descriptor, int) else None
            if path is not None and not self.ended:
                self._meet("flock", path)
            real(descriptor, operation)
            if path is not None:
                self._locked.add(descriptor)

        return call

    def _map(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(descriptor: int, *rest: Any, **options: Any) -> Any:
            path = self._paths.get(descriptor)
            if path is not None:
                self._meet("mmap", path)
            return real(descriptor, *rest, **options)

        return call

    # --- replacing the calls ----------------------------------------------------------------------------------------

    def _stand_ins(self) -> Iterator[tuple[Any, str, Any]]:
        """Yield (module, name, replacement)."""
        for name in _BY_DESCRIPTOR:
            yield os, name, self._by_descriptor(name, getattr(os, name))
        for name, operation in _BY_PATH.items():
            yield os, name, self._by_path(operation, getattr(os, name))
        for name, operation in _BY_TWO_PATHS.items():
            yield os, name, self._by_two_paths(operation, getattr(os, name))
        for module, name, operation in _ALIASES:
            yield module, name, self._by_descriptor(operation, getattr(module, name))
        yield os, "open", self._open(os.open)
        yield os, "close", self._close(os.close)
        yield os, "scandir", self._scandir(os.scandir)
        yield fcntl, "flock", self._flock(fcntl.flock)
        yield mmap, "mmap", self._map(mmap.mmap)
        yield mapping, "map_file", self._map(mapping.map_file)

    def __enter__(self) -> Self:
        for module, name, stand_in in list(self._stand_ins()):
            self._replaced.append((module, name, getattr(module, name)))
            setattr(module, name, stand_in)
        return self

    def __exit__(self, *_: object) -> None:
        while self._replaced:
            module, name, real = self._replaced.pop()
            setattr(module, name, real)


def _moved(real: Callable[..., Any], operation: str, descriptor: int, rest: tuple[Any, ...], share: float) -> Any:
    """Make a read or write that transfers only a fraction of its bytes, at least one."""
    what, *where = rest
    if operation in READS:
        return real(descriptor, max(int(what * share), min(what, 1)), *where)
    data = b"".join(what) if operation == "pwritev" else bytes(what)
    part = data[: max(int(len(data) * share), 1)]
    return real(descriptor, [part] if operation == "pwritev" else part, *where)


class _Entries:
    """The result of `os.scandir`; the status of an entry is a call as well."""

    def __init__(self, system: FaultySystem, inner: Any) -> None:
        self._system = system
        self._inner = inner

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        return _Entry(self._system, next(self._inner))

    def close(self) -> None:
        """Close the directory."""
        self._inner.close()


class _Entry:
    """One entry."""

    def __init__(self, system: FaultySystem, inner: Any) -> None:
        self._system = system
        self._inner = inner

    def __fspath__(self) -> str:
        return str(self._inner.path)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        """Return the entry's status."""
        full = self._system._below(self._inner.path)
        if full is not None:
            self._system._meet("stat", full)
        status: os.stat_result = self._inner.stat(follow_symlinks=follow_symlinks)
        return status
