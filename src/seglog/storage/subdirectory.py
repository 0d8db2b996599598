"""A subdirectory of a storage, as a storage of its own: the same files under longer names."""

from __future__ import annotations

import os
from collections.abc import Sequence

from seglog.storage.base import File, Lock, Storage, doomed_name
from seglog.storage.inside import inside
from seglog.storage.local import LocalStorage


class Subdirectory:
    """The part of a storage below `directory`; errors and injected faults are those of the outer storage.

    locked: the lock of an outer directory, which covers this one, if the caller holds it.
    """

    def __init__(self, outer: Storage, directory: str, *, locked: object = None) -> None:
        self.locked = locked
        self.path = inside(outer.path, directory)
        self._outer: Storage = outer
        self._directory = directory
        if isinstance(outer, Subdirectory):  # a partition of a topic of a broker also takes only one step
            self._outer, self._directory = outer._outer, outer._at(directory)

    def _at(self, name: str) -> str:
        return inside(self._directory, name)

    @property
    def is_link(self) -> bool:
        """Whether it is a symbolic link of the file system."""
        return isinstance(self._outer, LocalStorage) and os.path.islink(self.path)  # noqa: PTH114 - a string

    @property
    def outermost(self) -> Storage:
        """The storage that this is a part of."""
        return self._outer

    @property
    def enclosing(self) -> Storage:
        """The storage of the parent directory."""
        parent = self._parent()
        return Subdirectory(self._outer, parent) if parent else self._outer

    def exists(self, directory: str = "") -> bool:
        """See Storage.exists."""
        return self._outer.exists(self._at(directory))

    def make(self, directories: Sequence[str]) -> None:
        """See Storage.make."""
        was_empty = self._outer.exists(self._directory) and not self._outer.names(self._directory)
        self._outer.make([self._directory, *(self._at(name) for name in directories)])
        if was_empty:
            self._outer.sync_directory(self._parent())

    def _parent(self) -> str:
        return self._directory.rpartition("/")[0]

    def names(self, directory: str = "") -> list[str]:
        """See Storage.names."""
        return self._outer.names(self._at(directory))

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """See Storage.sizes."""
        return self._outer.sizes(self._at(directory), ending=ending)

    def open(self, name: str, *, writable: bool = False) -> File:
        """See Storage.open."""
        return self._outer.open(self._at(name), writable=writable)

    def create(self, name: str, *, replace: bool = False) -> File:
        """See Storage.create."""
        return self._outer.create(self._at(name), replace=replace)

    def rename(self, old: str, new: str) -> None:
        """See Storage.rename."""
        self._outer.rename(self._at(old), self._at(new))

    def link(self, old: str, new: str) -> None:
        """See Storage.link."""
        self._outer.link(self._at(old), self._at(new))

    def unlink(self, name: str) -> None:
        """See Storage.unlink."""
        self._outer.unlink(self._at(name))

    def sync_directory(self, directory: str = "") -> None:
        """See Storage.sync_directory."""
        self._outer.sync_directory(self._at(directory))

    def identity(self, name: str) -> object:
        """See Storage.identity."""
        return self._outer.identity(self._at(name))

    def try_lock(self, name: str, *, shared: bool = False) -> Lock | None:
        """See Storage.try_lock."""
        return self._outer.try_lock(self._at(name), shared=shared)

    def remove_directory(self, directory: str) -> None:
        """See Storage.remove_directory."""
        self._outer.remove_directory(self._at(directory))

    def remove_if_empty(self, directory: str) -> None:
        """See Storage.remove_if_empty."""
        self._outer.remove_if_empty(self._at(directory))

    def free_bytes(self, directory: str = "") -> int:
        """See Storage.free_bytes."""
        return self._outer.free_bytes(self._at(directory))

    def remove(self) -> None:
        """See Storage.remove."""
        parent, name = self._parent(), self._directory.rpartition("/")[2]
        doomed = f"{parent}/{doomed_name(name)}" if parent else doomed_name(name)
        self._outer.rename(self._directory, doomed)
        self._outer.sync_directory(parent)
        self._outer.remove_directory(doomed)


def enclosing(storage: Storage) -> Storage | None:
    """Return the storage of the parent directory; None if it is not known."""
    if isinstance(storage, Subdirectory):
        return storage.enclosing
    return storage.enclosing if isinstance(storage, LocalStorage) else None


def local_directory(storage: Storage) -> LocalStorage | None:
    """Return the directory of the file system that a storage is, without any injected faults; None for another one."""
    outermost = storage.outermost if isinstance(storage, Subdirectory) else storage
    if type(outermost) is not LocalStorage or type(storage) not in (LocalStorage, Subdirectory):
        return None
    return outermost if storage is outermost else LocalStorage(storage.path)


def sizes_of(storage: Storage, names: Sequence[str], *, ending: str) -> list[int | None]:
    """Return the size in bytes of each of these files, in this order; None for one that is missing or no file.

    ending: that of all these names. A directory of the file system is not listed for this.
    """
    directory = local_directory(storage)
    if directory is not None:
        return directory.sizes_of(names)
    sizes = storage.sizes(ending=ending)
    return [sizes.get(name) for name in names]


def link_target(storage: Storage) -> Storage | None:
    """Return the storage that a symbolic link leads to; None if this is no link."""
    if not (isinstance(storage, Subdirectory) and storage.is_link):
        return None
    return LocalStorage(os.path.realpath(storage.path))


def lock_around(storage: Storage) -> object:
    """Return the lock of an outer directory that covers this one, if its user holds it; else None."""
    return storage.locked if isinstance(storage, Subdirectory) else None
