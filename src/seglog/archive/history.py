"""The commits of an archive: find the newest one, and append to them, one writer at a time.

Invariants:
- The next commit has the next number and is created only if absent, so of two writers one fails.
- A writer begins with a commit of a greater term (`claim`). Any later commit of an earlier writer fails.
- Old commits are deleted in ascending order, one by one. After it has created a commit, a writer checks that the
  commit before still exists: a writer that was paused for so long that others deleted the number it creates now
  notices, and reports no success.

No clock takes part in this.
"""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from seglog.archive import commit as commits
from seglog.archive.commit import Commit
from seglog.archive.layout import COMMITS, commit_key, number_of
from seglog.errors import ArchiveFenced, ArchiveMismatch, StorageError

if TYPE_CHECKING:
    from seglog.archive.objects import ObjectStore
    from seglog.clock import Clock

KEPT_COMMITS = 100
READ_ATTEMPTS = 5


def read_commit(store: ObjectStore, number: int) -> Commit | None:
    """Return a commit; None if there is none of this number."""
    key = commit_key(number)
    try:
        data = store.read(key)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
    return commits.decode(data, f"{store.url.rstrip('/')}/{key}")


def newest(store: ObjectStore, after: int = 0) -> Commit | None:
    """Return the newest commit; None if there is none with a number greater than `after`."""
    for _ in range(READ_ATTEMPTS):
        number = last_number(store, COMMITS, after)
        if number is None:
            return None
        found = read_commit(store, number)
        if found is not None:  # else it was deleted since, so there are many newer ones
            return found
    raise StorageError(errno.EAGAIN, "its commits are deleted faster than they can be read; retry", store.url)


def last_number(store: ObjectStore, prefix: str, after: int = 0) -> int | None:
    """Return the greatest number of the objects below a prefix; None if there is none greater than `after`."""
    last = None
    for key in store.keys(prefix, f"{prefix}{after:020d}.json" if after else ""):
        number = number_of(key)
        last = last if number is None else number
    return last


def new_owner() -> str:
    """Return the token of a new writer."""
    return secrets.token_hex(12)


class Writer:
    """The writer of an archive's commits: `claim` makes one. current: the last commit, this writer's own."""

    def __init__(self, store: ObjectStore, first: Commit, clock: Clock) -> None:
        """first: the newest commit, of this writer."""
        self._store = store
        self._clock = clock
        self._pending: Commit | None = None
        self._oldest: int | None = None
        self.current = first

    @classmethod
    def claim(
        cls,
        store: ObjectStore,
        clock: Clock,
        *,
        kind: str,
        owner: str,
        may_follow: Callable[[Commit | None], None],
    ) -> Writer:
        """Become the writer: commit the present state again, with the next term.

        may_follow: raises if this writer must not continue the newest commit.
        """
        present = newest(store)
        may_follow(present)
        if present is None:
            first = Commit(number=1, term=1, owner=owner, written=clock(), kind=kind)
        elif present.kind != kind:
            raise ArchiveMismatch(
                f"{store.url} is the archive of a {present.kind}, not of a {kind}; use another prefix"
            )
        else:
            number, term = present.number + 1, present.term + 1
            first = replace(present, number=number, term=term, owner=owner, written=clock())
        if not _create(store, first):
            raise ArchiveFenced(f"{store.url}: another writer took this archive over at the same moment")
        return cls(store, first, clock)

    @property
    def term(self) -> int:
        """The term of this writer."""
        return self.current.term

    @property
    def unsettled(self) -> bool:
        """Whether it is unknown if the last commit succeeded; `settle` finds out."""
        return self._pending is not None

    def settle(self) -> None:
        """Complete a commit whose outcome is unknown. Raises ArchiveFenced or StorageError."""
        if self._pending is None:
            return
        if not _create(self._store, self._pending):
            raise ArchiveFenced(self._fenced())
        self.current, self._pending = self._pending, None

    def commit(self, **changes: Any) -> Commit:
        """Commit a new state: the present one with changed fields.

        Raises:
            ArchiveFenced: Another writer has taken the archive over; nothing was committed, this writer must stop.
            StorageError: The outcome is unknown; the next call completes it first.
        """
        self.settle()
        number = self.current.number + 1
        self._pending = replace(self.current, number=number, written=self._clock(), **changes)
        self.settle()
        return self.current

    def delete_old(self) -> int:
        """Delete all but the newest commits, oldest first; return how many."""
        stop, deleted = self.current.number - KEPT_COMMITS, 0
        if self._oldest is None:
            first = next(iter(self._store.keys(COMMITS)), None)
            self._oldest = (number_of(first) if first else None) or self.current.number
        while self._oldest < stop:
            self._store.delete(commit_key(self._oldest))
            self._oldest += 1
            deleted += 1
        return deleted

    def _fenced(self) -> str:
        return (
            f"{self._store.url}: another writer has taken this archive over since commit {self.current.number}; this "
            "one stops, and what it did not commit is not archived"
        )


def _create(store: ObjectStore, made: Commit) -> bool:
    """Create a commit; return whether it is the one after its predecessor."""
    before = commit_key(made.number - 1) if made.number > 1 else None
    return create_numbered(store, commit_key(made.number), made.encode(), before=before, prefix=COMMITS)


def create_numbered(store: ObjectStore, key: str, data: bytes, *, before: str | None, prefix: str) -> bool:
    """Create the object after `before`; return whether it is that, also if an earlier attempt created it.

    Objects are deleted in ascending order. So while the one before exists, this number was not deleted, and its
    creator was the first. Without one before, there must be none after this one.
    """
    if not store.create(key, data):
        try:
            if store.read(key) != data:
                return False
        except StorageError as error:
            if error.errno == errno.ENOENT:
                return False  # it was there a moment ago: others have deleted it
            raise
    return last_number(store, prefix, 1) is None if before is None else store.exists(before)
