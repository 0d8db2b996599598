"""An object store in a directory: `file:///path`, or any Storage. Durable: every file and name is synced.

obstore has a store for directories, too, but it syncs nothing.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress

from seglog.errors import StorageError
from seglog.storage import Storage, is_directory
from seglog.storage.base import Buffer

TEMPORARY = ".tmp"


class DirectoryStore:
    """Objects as files; a link that fails if the name exists creates one."""

    def __init__(self, storage: Storage, url: str) -> None:
        self.url = url
        self._storage = storage
        self._made: set[str] = set()

    def create(self, key: str, data: bytes) -> bool:
        """See ObjectStore.create."""
        temporary = self._written([data])
        try:
            self._make(key)
            self._storage.link(temporary, key)
            created = True
        except StorageError as error:
            if error.errno != errno.EEXIST:
                raise
            created = False
        finally:
            with suppress(StorageError):
                self._storage.unlink(temporary)
        self._storage.sync_directory(_directory(key))  # also of an existing one, which a killed process may have linked
        return created

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:  # noqa: ARG002 - a file needs no size
        """See ObjectStore.put."""
        temporary = self._written(parts)
        self._make(key)
        self._storage.rename(temporary, key)
        self._storage.sync_directory(_directory(key))

    def _written(self, parts: Iterable[Buffer]) -> str:
        self._make(f"{TEMPORARY}/")
        name = f"{TEMPORARY}/{secrets.token_hex(8)}"
        file = self._storage.create(name)
        position = 0
        for part in parts:
            file.pwrite(part, position)
            position += len(part)
        file.datasync()
        return name

    def _make(self, key: str) -> None:
        directory = _directory(key)
        if directory not in self._made:
            self._storage.make([directory])
            self._made.add(directory)

    def read(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See ObjectStore.read."""
        file = self._storage.open(key)
        return file.pread((file.size() if stop is None else stop) - start, start)

    def exists(self, key: str) -> bool:
        """See ObjectStore.exists."""
        return self._storage.identity(key) is not None

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """See ObjectStore.keys."""
        for name in sorted(self._storage.names(prefix.rstrip("/"))):
            key = prefix + name
            if is_directory(self._storage, key):
                yield from self.keys(f"{key}/", after)
            elif key > after:
                yield key

    def delete(self, key: str) -> None:
        """See ObjectStore.delete."""
        self._storage.unlink(key)


def _directory(key: str) -> str:
    return key.rpartition("/")[0]
