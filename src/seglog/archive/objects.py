"""The contract between an archive and an object store. Keys are relative to the archive's URL, separated by "/".

Every failed call raises StorageError; the call may have had its effect nevertheless. An object appears completely or
not at all, and every later read or list finds it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol

from seglog.storage.base import Buffer


class ObjectStore(Protocol):
    """Objects below one URL."""

    url: str

    def create(self, key: str, data: bytes) -> bool:
        """Create an object durably; return False, and change nothing, if it exists.

        A repeated call after an error may return False because the first one had succeeded: compare the content.
        """
        ...

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        """Create or replace an object durably.

        Args:
            key: Its key.
            parts: The content in order.
            size: Bytes of all parts.
        """
        ...

    def read(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """Return the bytes start..stop of an object, up to its end by default.

        Raises StorageError with ENOENT if there is no such object.
        """
        ...

    def exists(self, key: str) -> bool:
        """Whether there is an object."""
        ...

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """Yield the keys that begin with `prefix` (which ends with "/") and are greater than `after`, sorted."""
        ...

    def delete(self, key: str) -> None:
        """Delete an object; a missing one is no error."""
        ...
