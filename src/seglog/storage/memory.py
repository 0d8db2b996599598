"""Files in this process's memory: for tests, caches and whatever may be lost. Keeps the same contract as a disk."""

from __future__ import annotations

import errno
import itertools
import os
import threading
from collections.abc import Sequence

from seglog.errors import StorageError
from seglog.storage.base import Buffer

_identities = itertools.count(1)


def _error(number: int, path: str) -> StorageError:
    return StorageError(number, os.strerror(number), path)


class _Node:
    """The bytes behind one or more names, and who locks them."""

    def __init__(self) -> None:
        self.identity = next(_identities)
        self.data = bytearray()
        self.exclusive = False
        self.shared = 0


class MemoryFile:
    """A handle on a node."""

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
        """Return the bytes at `position`; fewer only where the file ends."""
        return bytes(self._open().data[position : position + length])

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data`; a hole before it reads as zeros."""
        node = self._open(writing=True)
        if position > len(node.data):
            node.data.extend(bytes(position - len(node.data)))
        node.data[position : position + len(data)] = data

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts end to end."""
        self.pwrite(b"".join(parts), position)

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        node = self._open(writing=True)
        del node.data[size:]
        node.data.extend(bytes(size - len(node.data)))

    def datasync(self) -> None:
        """Memory keeps what it has as long as it lives."""
        self._open()

    def map(self) -> memoryview:
        """Return a copy of the present bytes: a bytearray cannot grow while it is viewed."""
        return memoryview(bytes(self._open().data))

    def close(self) -> None:
        """Let go."""
        self._node = None


class MemoryLock:
    """A lock on a node."""

    def __init__(self, node: _Node, *, shared: bool) -> None:
        self._node: _Node | None = node
        self._shared = shared

    def write(self, data: bytes) -> None:
        """Replace the content of the locked file."""
        if self._node is not None:
            self._node.data[:] = data

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
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
    """A directory in memory. Logs opened on one MemoryStorage see one another's files, as on a disk."""

    def __init__(self, name: str = "memory") -> None:
        self.path = f"<{name}>"
        self._nodes: dict[str, _Node] = {}
        self._made = False
        self._guard = threading.RLock()

    def _node(self, name: str) -> _Node:
        try:
            return self._nodes[name]
        except KeyError:
            raise _error(errno.ENOENT, f"{self.path}/{name}") from None

    def exists(self) -> bool:
        """Whether it was made."""
        return self._made

    def make(self, directories: Sequence[str]) -> None:  # noqa: ARG002 - directories are only prefixes of names here
        """Make the directory."""
        self._made = True

    def names(self, directory: str = "") -> list[str]:
        """Return the names in a directory, ordered; subdirectories appear where they hold a file."""
        prefix = f"{directory}/" if directory else ""
        with self._guard:
            rest = [name.removeprefix(prefix) for name in self._nodes if name.startswith(prefix)]
        return sorted({name.partition("/")[0] for name in rest})

    def sizes(self, directory: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files in a directory."""
        with self._guard:
            return {name: len(self._nodes[self._below(directory, name)].data) for name in self._files(directory)}

    def _files(self, directory: str) -> list[str]:
        prefix = self._below(directory, "")
        rest = [name.removeprefix(prefix) for name in self._nodes if name.startswith(prefix)]
        return [name for name in rest if "/" not in name]

    @staticmethod
    def _below(directory: str, name: str) -> str:
        return f"{directory}/{name}" if directory else name

    def open(self, name: str, *, writable: bool = False) -> MemoryFile:
        """Open an existing file."""
        return MemoryFile(self._node(name), f"{self.path}/{name}", writable=writable)

    def create(self, name: str, *, replace: bool = False) -> MemoryFile:
        """Create an empty file."""
        with self._guard:
            if name in self._nodes and not replace:
                raise _error(errno.EEXIST, f"{self.path}/{name}")
            node = self._nodes.setdefault(name, _Node())
            node.data.clear()
        return MemoryFile(node, f"{self.path}/{name}", writable=True)

    def rename(self, old: str, new: str) -> None:
        """Move in one step."""
        with self._guard:
            node = self._node(old)
            if self._nodes.get(new) is not node:  # as rename(2): two names of one file stay as they are
                self._nodes[new] = self._nodes.pop(old)

    def link(self, old: str, new: str) -> None:
        """Give a file a second name."""
        with self._guard:
            if new in self._nodes:
                raise _error(errno.EEXIST, f"{self.path}/{new}")
            self._nodes[new] = self._node(old)

    def unlink(self, name: str) -> None:
        """Remove a name; missing is no error."""
        with self._guard:
            self._nodes.pop(name, None)

    def sync_directory(self, directory: str = "") -> None:
        """Names in memory need no sync."""

    def identity(self, name: str) -> object:
        """Return a number that no other file of this process has had."""
        node = self._nodes.get(name)
        return None if node is None else (node.identity, len(node.data))

    def try_lock(self, name: str, *, shared: bool = False) -> MemoryLock | None:
        """Lock a name without waiting."""
        with self._guard:
            node = self._nodes.setdefault(name, _Node())
            if node.exclusive or (node.shared and not shared):
                return None
            if shared:
                node.shared += 1
            else:
                node.exclusive = True
            return MemoryLock(node, shared=shared)

    def remove_directory(self, directory: str) -> None:
        """Forget every file whose name begins with the directory's."""
        with self._guard:
            for name in [name for name in self._nodes if name.startswith(f"{directory}/")]:
                del self._nodes[name]

    def remove_if_empty(self, directory: str) -> None:
        """Directories are only prefixes of names here: one without files is gone already."""

    def free_bytes(self) -> int:
        """Return what one address space has for us, generously."""
        return 2**40

    def remove(self) -> None:
        """Forget every file."""
        with self._guard:
            self._nodes.clear()
            self._made = False
