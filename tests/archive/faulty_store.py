"""An object store that refuses, repeats or delays one call, as a network and a store may."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

from seglog.errors import StorageError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from seglog.archive.objects import ObjectStore
    from seglog.storage.base import Buffer

KINDS = ("refused", "unanswered", "repeated", "late")
"""refused: no effect. unanswered: it has its effect, and the caller gets an error. repeated: a proxy sends it twice.
late: the caller gets an error, and it takes effect when `deliver` is called."""


class FaultyStore:
    """Counts calls that change something, or all of them; the one of number `at` fails as `kind` says."""

    def __init__(self, store: ObjectStore, kind: str = "", at: int = -1, *, reads: bool = False) -> None:
        self.url = store.url
        self.calls = 0
        self._store = store
        self._kind = kind
        self._at = at
        self._reads = reads
        self._late: list[Callable[[], object]] = []

    def _call(self, action: Callable[[], Any]) -> Any:
        self.calls += 1
        if self.calls - 1 != self._at:
            return action()
        if self._kind == "repeated":
            action()
            return action()
        if self._kind == "unanswered":
            action()
        if self._kind == "late":
            self._late.append(action)
        raise StorageError(errno.EIO, "the connection broke", self.url)

    def deliver(self) -> None:
        for action in self._late:
            action()

    def create(self, key: str, data: bytes) -> bool:
        return bool(self._call(lambda: self._store.create(key, data)))

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        whole = [bytes(part) for part in parts]
        self._call(lambda: self._store.put(key, whole, size))

    def delete(self, key: str) -> None:
        self._call(lambda: self._store.delete(key))

    def read(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        if not self._reads:
            return self._store.read(key, start, stop)
        return bytes(self._call(lambda: self._store.read(key, start, stop)))

    def exists(self, key: str) -> bool:
        return bool(self._call(lambda: self._store.exists(key))) if self._reads else self._store.exists(key)

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        yield from (
            self._call(lambda: list(self._store.keys(prefix, after)))
            if self._reads
            else self._store.keys(prefix, after)
        )
