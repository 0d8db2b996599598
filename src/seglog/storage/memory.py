"""Storage in the memory of this process, for tests, caches and data that may be lost; same contract as a disk."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Sequence

from seglog.errors import NotALog, StorageError
from seglog.storage.base import Buffer

_identities = itertools.count(1)


def _error(number: int, path: str) -> StorageError:
    return StorageError(number, os.strerror(number), path)


class _Node:
    """The bytes of a file with one or more names, and its locks."""

    def __init__(self) -> None:
        self.identity = next(_identities)
        self.data = bytearray()
        self.exclusive = False
        self.shared = 0


class MemoryFile:
    """An open file: a handle on a node."""

    def __init__(self, node: _Node, path: str, *, writable: bool) -> None:
        self._node: _Node | None = node
        self._writable = writable
        self.path = path

    def _open(self, *, writing: bool = False) -> _Node:
        if self._node is None or (writing and not self._writable):
            raise _error(errno.EBADF, self.path)
        return self._node

    def size(self) -> int:
        """Return the size in bytes."""
        return len(self._open().data)

    def pread(self, length: int, position: int) -> bytes:
        """Return the bytes at `position`; fewer only at the end of the file."""
        return bytes(self._open().data[position : position + length])

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data`; a gap before it reads as zeros."""
        node = self._open(writing=True)
        if position > len(node.data):
            node.data.extend(bytes(position - len(node.data)))
        node.data[position : position + len(data)] = data

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts one after another."""
        self.pwrite(b"".join(parts), position)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        node = self._open(writing=True)
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))

    def datasync(self) -> None:
        """Do nothing: memory needs no sync."""
        self._open()

    def map(self) -> memoryview:
        """Return a copy of the present bytes: a bytearray cannot grow while it is viewed."""
        return memoryview(bytes(self._open().data))

    def close(self) -> None:
        """Close the handle; further calls raise StorageError."""
        self._node = None


class MemoryLock:
    """A lock on a node."""

    def __init__(self, storage: MemoryStorage, name: str, node: _Node, *, shared: bool) -> None:
        self._storage = storage
        self._name = name
        self._node: _Node | None = node
        self._shared = shared

    def write(self, data: bytes) -> None:
        """Replace the content of the locked file."""
        if self._node is not None:
            self._node.data[:] = data

    def is_current(self) -> bool:
        """Whether the locked file still has its name."""
        return self._node is not None and self._storage._nodes.get(self._name) is self._node

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        node, self._node = self._node, None
        if node is None:
            return
        if self._shared:
            node.shared -= 1
        else:
            node.exclusive = False

    def __del__(self) -> None:
        self.release()


class MemoryStorage:
    """A directory in memory. Logs opened on one MemoryStorage see one another's files, as on a disk.

    Its methods are described in `Storage`.

    Args:
        name: Shown in paths and errors, as "<name>".
    """

    def __init__(self, name: str = "memory") -> None:
        self.path = f"<{name}>"
        self._nodes: dict[str, _Node] = {}
        self._directories: set[str] = set()
        self._guard = threading.RLock()

    def _node(self, name: str) -> _Node:
        try:
            return self._nodes[name]
        except KeyError:
            raise self._refused(errno.EISDIR if name in self._directories else errno.ENOENT, name) from None

    def _refused(self, number: int, name: str) -> StorageError:
        return _error(number, f"{self.path}/{name}" if name else self.path)

    def _check_directory(self, name: str) -> None:
        """Raise ENOENT if there is no such directory, ENOTDIR if it is a file."""
        if name not in self._directories:
            raise self._refused(errno.ENOTDIR if name in self._nodes else errno.ENOENT, name)

    def _check_free(self, name: str) -> None:
        """Raise if no file of that name can be created: it is a directory, or its own directory is missing."""
        self._check_directory(name.rpartition("/")[0])
        if name in self._directories:
            raise self._refused(errno.EISDIR, name)

    def _below(self, directory: str) -> list[str]:
        """Return the full names of everything in a directory, at any depth."""
        prefix = f"{directory}/" if directory else ""
        return [name for name in [*self._nodes, *self._directories] if name.startswith(prefix) and name]

    def exists(self, directory: str = "") -> bool:
        """Whether the directory was created."""
        if directory in self._nodes:
            raise NotALog(errno.ENOTDIR, "this is a file, not the directory of a log", f"{self.path}/{directory}")
        return directory in self._directories

    def make(self, directories: Sequence[str]) -> None:
        """Create the directory and those below it."""
        with self._guard:
            for directory in directories:
                parts = directory.split("/")
                for name in ("/".join(parts[:count]) for count in range(1, len(parts) + 1)):
                    if name in self._nodes:
                        raise self._refused(errno.EEXIST, name)
                    self._directories.add(name)
            self._directories.add("")

    def names(self, directory: str = "") -> list[str]:
        """Return the names in a directory, sorted."""
        with self._guard:
            if directory in self._nodes:
                raise self._refused(errno.ENOTDIR, directory)
            skipped = len(directory) + 1 if directory else 0
            return sorted({name[skipped:].partition("/")[0] for name in self._below(directory)})

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files in a directory; see Storage.sizes."""
        with self._guard:
            self._check_directory(directory)
            skipped = len(directory) + 1 if directory else 0
            found = [name for name in self._below(directory) if name in self._nodes and "/" not in name[skipped:]]
            return {name[skipped:]: len(self._nodes[name].data) for name in found if name.endswith(ending)}

    def open(self, name: str, *, writable: bool = False) -> MemoryFile:
        """Open an existing file."""
        return MemoryFile(self._node(name), f"{self.path}/{name}", writable=writable)

    def create(self, name: str, *, replace: bool = False) -> MemoryFile:
        """Create an empty file."""
        with self._guard:
            self._check_free(name)
            if name in self._nodes and not replace:
                raise self._refused(errno.EEXIST, name)
            node = self._nodes.setdefault(name, _Node())
            node.data.clear()
        return MemoryFile(node, f"{self.path}/{name}", writable=True)

    def rename(self, old: str, new: str) -> None:
        """Move a file or a directory in one step."""
        with self._guard:
            if old in self._directories:
                self._rename_directory(old, new)
                return
            node = self._node(old)
            self._check_free(new)
            if self._nodes.get(new) is not node:  # as rename(2): two names of the same file stay
                self._nodes[new] = self._nodes.pop(old)

    def _rename_directory(self, old: str, new: str) -> None:
        self._check_directory(new.rpartition("/")[0])
        if f"{new}/".startswith(f"{old}/"):
            raise self._refused(errno.EINVAL, new)
        if new in self._nodes:
            raise self._refused(errno.ENOTDIR, new)
        if self._below(new):
            raise self._refused(errno.ENOTEMPTY, new)
        moved = {name: new + name.removeprefix(old) for name in self._below(old)}
        nodes = {moved.get(name, name): node for name, node in self._nodes.items()}
        directories = {moved.get(name, name) for name in self._directories}
        self._nodes, self._directories = nodes, directories  # in one step, also for a signal handler
        self._directories.remove(old)
        self._directories.add(new)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name."""
        with self._guard:
            node = self._node(old)
            if new in self._nodes or new in self._directories:
                raise self._refused(errno.EEXIST, new)
            self._check_free(new)
            self._nodes[new] = node

    def unlink(self, name: str) -> None:
        """Remove a name; missing is no error."""
        with self._guard:
            if name in self._directories:
                raise self._refused(errno.EISDIR, name)
            self._nodes.pop(name, None)

    def sync_directory(self, directory: str = "") -> None:
        """Check that the directory exists; names in memory need no sync."""
        self._check_directory(directory)

    def identity(self, name: str) -> object:
        """Return a value that no other file of this process has had."""
        node = self._nodes.get(name)
        return None if node is None else (node.identity, len(node.data))

    def try_lock(self, name: str, *, shared: bool = False) -> MemoryLock | None:
        """Lock a name without waiting."""
        with self._guard:
            self._check_free(name)
            node = self._nodes.setdefault(name, _Node())
            if node.exclusive or (node.shared and not shared):
                return None
            if shared:
                node.shared += 1
            else:
                node.exclusive = True
            return MemoryLock(self, name, node, shared=shared)

    def remove_directory(self, directory: str) -> None:
        """Remove a directory and its content."""
        with self._guard:
            for name in self._below(directory):
                self._nodes.pop(name, None)
                self._directories.discard(name)
            self._directories.discard(directory)

    def remove_if_empty(self, directory: str) -> None:
        """Remove a directory if it is empty."""
        with self._guard:
            if not self._below(directory):
                self._directories.discard(directory)

    def free_bytes(self, directory: str = "") -> int:
        """Return a fixed, large number: memory has no size limit of its own."""
        self._check_directory(directory)
        return 2**40

    def remove(self) -> None:
        """Remove everything."""
        self.remove_directory("")
