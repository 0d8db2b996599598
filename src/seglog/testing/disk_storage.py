"""A recorded disk as a storage: its root directory, open files and locks. Every change is recorded in the journal."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from weakref import WeakSet

from seglog.errors import NotALog, StorageError
from seglog.storage.base import Buffer
from seglog.testing.disk import ROOT, Disk, Named, Node, Resized, Synced, Wrote


def _error(number: int, path: str) -> StorageError:
    return StorageError(number, os.strerror(number), path)


class DiskFile:
    """An open file."""

    def __init__(self, disk: Disk, node: Node, path: str, *, writable: bool) -> None:
        self.path = path
        self._disk = disk
        self._node = node
        self._data: bytearray | None = disk.files[node]
        self._writable = writable

    def _bytes(self, *, writing: bool = False) -> bytearray:
        if self._data is None or (writing and not self._writable):
            raise _error(errno.EBADF, self.path)
        return self._data

    def size(self) -> int:
        return len(self._bytes())

    def pread(self, length: int, position: int) -> bytes:
        return bytes(self._bytes()[position : position + length])

    def pwrite(self, data: Buffer, position: int) -> None:
        self._bytes(writing=True)
        self._disk.apply(Wrote(self._node, position, bytes(data)))

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        self.pwrite(b"".join(parts), position)

    def truncate(self, size: int) -> None:
        self._bytes(writing=True)
        self._disk.apply(Resized(self._node, size))

    def datasync(self) -> None:
        self._bytes()
        self._disk.apply(Synced(self._node))

    def map(self) -> memoryview:
        return memoryview(bytes(self._bytes()))

    def close(self) -> None:
        self._data = None


class DiskLock:
    """A lock on a file. Its content is not recorded: nothing depends on it after a crash."""

    def __init__(self, storage: DiskStorage, name: str, node: Node, *, shared: bool) -> None:
        disk = storage.disk
        self.shared = shared
        self._storage, self._name, self._node = storage, name, node
        self._data = disk.files[node]
        self._holders = disk.holders.setdefault(node, WeakSet())
        self._holders.add(self)

    def write(self, data: bytes) -> None:
        self._data[:] = data

    def is_current(self) -> bool:
        return self._storage.holds(self._name, self._node)

    def release(self) -> None:
        self._holders.discard(self)


class DiskStorage:
    """The root directory of a disk as a storage."""

    def __init__(self, disk: Disk, name: str = "disk") -> None:
        self.path = f"<{name}>"
        self.disk = disk

    # --- lookup -----------------------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return f"{self.path}/{name}" if name else self.path

    def _directory(self, name: str) -> Node:
        node = ROOT
        for part in name.split("/") if name else ():
            found = self.disk.directories[node].get(part)
            if found is None or found not in self.disk.directories:
                raise _error(errno.ENOENT if found is None else errno.ENOTDIR, self._path(name))
            node = found
        return node

    def _place(self, name: str) -> tuple[Node, str]:
        """Return the directory that holds a name, and the last part of the name."""
        directory, _, last = name.rpartition("/")
        return self._directory(directory), last

    def _find(self, name: str) -> Node | None:
        directory, last = self._place(name)
        return self.disk.directories[directory].get(last)

    def _known(self, name: str) -> Node | None:
        """Return a node; None also if its directory is missing."""
        try:
            return self._find(name)
        except StorageError:
            return None

    def _existing(self, name: str) -> Node:
        node = self._find(name)
        if node is None:
            raise _error(errno.ENOENT, self._path(name))
        return node

    # --- calls of Storage -------------------------------------------------------------------------------------------

    def exists(self, directory: str = "") -> bool:
        if not directory:
            return self.disk.made
        try:
            node = self._find(directory)
        except StorageError:
            return False
        if node in self.disk.files:
            raise NotALog(errno.ENOTDIR, "this is a file, not the directory of a log", self._path(directory))
        return node is not None

    def make(self, directories: Sequence[str]) -> None:
        self.disk.made = True
        for directory in directories:
            self._make(directory)

    def _make(self, directory: str) -> None:
        above, _, _ = directory.rpartition("/")
        if above:
            self._make(above)
        parent, name = self._place(directory)
        if name not in self.disk.directories[parent]:
            self.disk.apply(Named(((parent, name, self.disk.new_directory()),)))
            self.disk.apply(Synced(parent))

    def names(self, directory: str = "") -> list[str]:
        try:
            return sorted(self.disk.directories[self._directory(directory)])
        except StorageError as error:
            if error.errno != errno.ENOENT:
                raise
            return []

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        names = self.disk.directories[self._directory(directory)]
        found = {name: node for name, node in names.items() if node in self.disk.files and name.endswith(ending)}
        return {name: len(self.disk.files[node]) for name, node in found.items()}

    def open(self, name: str, *, writable: bool = False) -> DiskFile:
        node = self._existing(name)
        if node in self.disk.directories:
            raise _error(errno.EISDIR, self._path(name))
        return DiskFile(self.disk, node, self._path(name), writable=writable)

    def create(self, name: str, *, replace: bool = False) -> DiskFile:
        node = self._find(name)
        if node is not None and not replace:
            raise _error(errno.EEXIST, self._path(name))
        if node is None:
            node = self.disk.new_file()
            self.disk.apply(Named(((*self._place(name), node),)))
        elif self.disk.files[node]:
            self.disk.apply(Resized(node, 0))
        return DiskFile(self.disk, node, self._path(name), writable=True)

    def rename(self, old: str, new: str) -> None:
        node, taken = self._existing(old), self._find(new)
        if node in self.disk.directories and taken is not None:
            raise _error(errno.ENOTDIR if taken in self.disk.files else errno.ENOTEMPTY, self._path(new))
        if taken != node:  # as rename(2): two names of the same file stay
            self.disk.apply(Named(((*self._place(new), node), (*self._place(old), None))))

    def link(self, old: str, new: str) -> None:
        node = self._existing(old)
        if self._find(new) is not None:
            raise _error(errno.EEXIST, self._path(new))
        self.disk.apply(Named(((*self._place(new), node),)))

    def unlink(self, name: str) -> None:
        if self._known(name) is not None:
            self.disk.apply(Named(((*self._place(name), None),)))

    def sync_directory(self, directory: str = "") -> None:
        self.disk.apply(Synced(self._directory(directory)))

    def identity(self, name: str) -> object:
        node = self._known(name)
        if node is None or node not in self.disk.files:  # a directory has no identity
            return None
        return node, self.disk.changed.get(node, 0), len(self.disk.files.get(node, b""))

    def holds(self, name: str, node: Node) -> bool:
        return self._known(name) == node

    def try_lock(self, name: str, *, shared: bool = False) -> DiskLock | None:
        node = self._find(name)
        if node is None:
            self.create(name)
            node = self._existing(name)
        if any(not (shared and holder.shared) for holder in self.disk.holders.get(node, ())):
            return None
        return DiskLock(self, name, node, shared=shared)

    def remove_directory(self, directory: str) -> None:
        try:
            node = self._directory(directory)
        except StorageError:
            return
        for name, below in list(self.disk.directories[node].items()):
            if below in self.disk.directories:
                self.remove_directory(f"{directory}/{name}")
            else:
                self.disk.apply(Named(((node, name, None),)))
        self.disk.apply(Named(((*self._place(directory), None),)))

    def remove_if_empty(self, directory: str) -> None:
        try:
            empty = not self.disk.directories[self._directory(directory)]
        except StorageError:
            return
        if empty:
            self.disk.apply(Named(((*self._place(directory), None),)))

    def free_bytes(self, directory: str = "") -> int:
        self._directory(directory)
        return 2**40

    def remove(self) -> None:
        for name, node in list(self.disk.directories[ROOT].items()):
            if node in self.disk.directories:
                self.remove_directory(name)
            else:
                self.disk.apply(Named(((ROOT, name, None),)))
        self.disk.made = False
