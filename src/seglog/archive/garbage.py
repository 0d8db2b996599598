"""Objects that are no longer part of an archive: deleted after a grace period, which readers of earlier states have.

The writer of a term keeps the list in memory and saves it as an object of its own, not in the commits, which stay
small. What a writer did not save, the next one finds by listing all objects.

Only objects of this term and of earlier ones are deleted, and only those that a commit of this writer does not
reference. No later writer references them again, so deleting them late does no harm.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING

from seglog.archive.layout import LOGS, RETIRED, retired_key, term_of
from seglog.errors import StorageError
from seglog.format.foreign import UNREADABLE

if TYPE_CHECKING:
    from seglog.archive.objects import ObjectStore
    from seglog.clock import Clock

DELETES_PER_ROUND = 500
SAVE_SECONDS = 300.0
MICROSECONDS = 1_000_000


class Garbage:
    """The objects to delete, and since when they are garbage."""

    def __init__(self, store: ObjectStore, term: int, grace: float, clock: Clock, referenced: Collection[str]) -> None:
        """Find what earlier writers left. grace: seconds; referenced: keys of the newest commit's objects."""
        self._store = store
        self._term = term
        self._grace = round(grace * MICROSECONDS)
        self._clock = clock
        self._saved_at = monotonic()
        self._is_dirty = False
        known = self._saved()
        found = [key for key in store.keys(LOGS) if (term_of(key) or term) < term and key not in referenced]
        now = clock()
        self._since = {key: known.get(key, now) for key in found}
        if self._since:
            self.save()
        with suppress(StorageError):  # a store that denies deletes keeps all
            for key in self._lists:
                store.delete(key)

    def _saved(self) -> dict[str, int]:
        """Return what earlier writers saved; a damaged list only delays the deletion."""
        own = retired_key(self._term)
        self._lists = [key for key in self._store.keys(RETIRED) if key < own]
        known: dict[str, int] = {}
        for key in self._lists:
            with suppress(*UNREADABLE):
                known |= {name: int(since) for name, since in json.loads(self._store.read(key)).items()}
        return known

    def add(self, keys: Iterable[str]) -> None:
        """Note objects that left the archive with the last commit."""
        now = self._clock()
        before = len(self._since)
        self._since.update((key, now) for key in keys)
        self._is_dirty |= len(self._since) != before

    def delete_due(self) -> int:
        """Delete what has been garbage for the grace period; return how many objects."""
        limit = self._clock() - self._grace
        due = [key for key, since in self._since.items() if since <= limit][:DELETES_PER_ROUND]
        for key in due:
            self._store.delete(key)
            del self._since[key]
        self._is_dirty |= bool(due)
        if self._is_dirty and monotonic() - self._saved_at > SAVE_SECONDS:
            self.save()
        return len(due)

    def save(self) -> None:
        """Save the list for the next writer."""
        data = json.dumps(self._since).encode()
        self._store.put(retired_key(self._term), [data], len(data))
        self._saved_at, self._is_dirty = monotonic(), False

    def close(self) -> None:
        """Save the list, if it changed, as far as that is possible."""
        if self._is_dirty:
            with suppress(StorageError):
                self.save()
