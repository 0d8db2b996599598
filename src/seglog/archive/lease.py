"""Leadership: which of several processes should write. A small protocol, and a lease on an object store.

A lease decides who tries. It does not protect data by itself: a leader may be paused for longer than its lease. What
protects an archive is that every commit checks for a successor (`history`).
"""

from __future__ import annotations

import errno
import json
import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from types import TracebackType
from typing import Protocol, Self

from seglog.archive.arguments import checked_seconds
from seglog.archive.history import create_numbered, last_number
from seglog.archive.layout import lease_key, lease_prefix
from seglog.archive.objects import ObjectStore
from seglog.archive.urls import object_store
from seglog.errors import ArchiveFenced, LogLocked, StorageError
from seglog.format.foreign import UNREADABLE

TTL_SECONDS = 15.0
KEPT = 8
LOOKS_PER_TTL = 10


class Lease(Protocol):
    """The leadership of one name. One process at a time holds it, if none is slower than its time to live."""

    def acquire(self, wait: float | None = None) -> int:
        """Become the leader; return a term, greater than that of every leader before.

        Args:
            wait: Seconds to wait for the present leader to end. None: as long as it takes; 0: try once.

        Raises:
            LogLocked: Another process is the leader.
        """
        ...

    def renew(self) -> None:
        """Stay the leader. Call it several times within the time to live.

        Raises:
            ArchiveFenced: Another process has become the leader; stop at once.
            StorageError: The outcome is unknown; call it again.
        """
        ...

    def release(self) -> None:
        """Stop being the leader, so that the next one need not wait."""
        ...


@dataclass(frozen=True)
class _Entry:
    token: str
    holder: str
    ttl: float
    released: bool = False

    def encode(self) -> bytes:
        return json.dumps(asdict(self)).encode()


@dataclass(frozen=True, kw_only=True)
class LeaseState:
    """What an object store has of a lease.

    Attributes:
        holder: The last holder; None if it was released, or never held.
        ttl: Seconds after the last renewal at which it ends.
        number: Number of renewals and changes so far; a lease whose number does not change for `ttl` has ended.
    """

    holder: str | None
    ttl: float
    number: int


class ObjectLease:
    """A lease on an object store: numbered objects, each created if absent. A context manager that acquires it.

    Each renewal creates the next number. A lease has ended if its number has not changed for its time to live, measured
    by the clock of the process that waits (a monotonic one); clocks of several machines are never compared.
    """

    def __init__(
        self,
        place: str | ObjectStore,
        name: str = "leader",
        *,
        holder: str = "",
        ttl: float = TTL_SECONDS,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """place: the URL of an archive, or an object store. holder: shown to others. ttl: seconds."""
        ttl = checked_seconds(ttl, "ttl")
        self.ttl = ttl
        self.holder = holder
        self._store = object_store(place)
        self._prefix = lease_prefix(name)
        self._entry = _Entry(secrets.token_hex(12), holder, ttl)
        self._monotonic = monotonic
        self._sleep = sleep
        self._seen: tuple[int | None, float] = (None, monotonic())
        self._number: int | None = None

    def acquire(self, wait: float | None = None) -> int:
        """See Lease.acquire."""
        begun = self._monotonic()
        while True:
            number = last_number(self._store, self._prefix)
            if number != self._seen[0]:
                self._seen = (number, self._monotonic())
            entry = None if number is None else self._read(number)
            if (entry is None or self._has_ended(entry)) and self._create((number or 0) + 1, self._entry):
                return self._number or 0
            if wait is not None and self._monotonic() - begun >= wait:
                who = entry.holder if entry is not None and entry.holder else "another process"
                raise LogLocked(
                    errno.EWOULDBLOCK,
                    f"{who} holds the lease, which ends {entry.ttl if entry is not None else self.ttl:g} s after its "
                    "last renewal",
                    f"{self._store.url}/{self._prefix}",
                )
            self._sleep(self._entry.ttl / LOOKS_PER_TTL)

    def _read(self, number: int) -> _Entry:
        """Return an entry; one that cannot be read counts as held for our own time to live."""
        try:
            return _Entry(**json.loads(self._store.read(lease_key(self._prefix, number))))
        except UNREADABLE:
            return _Entry("", "", self._entry.ttl)

    def _has_ended(self, entry: _Entry) -> bool:
        return entry.released or self._monotonic() - self._seen[1] >= entry.ttl

    def _create(self, number: int, entry: _Entry) -> bool:
        key = lease_key(self._prefix, number)
        before = lease_key(self._prefix, number - 1) if number > 1 else None
        if not create_numbered(self._store, key, entry.encode(), before=before, prefix=self._prefix):
            return False
        self._number = number
        if number % KEPT == 0:
            with suppress(StorageError):  # a store that denies deletes keeps all
                self._delete_before(number - KEPT)
        return True

    def _delete_before(self, number: int) -> None:
        """Delete old entries in ascending order: `create_numbered` relies on that."""
        for key in list(self._store.keys(self._prefix)):
            if key >= lease_key(self._prefix, number):
                return
            self._store.delete(key)

    def state(self) -> LeaseState:
        """Return who holds the lease, without taking part."""
        number = last_number(self._store, self._prefix)
        entry = None if number is None else self._read(number)
        if entry is None or entry.released:
            return LeaseState(holder=None, ttl=self.ttl, number=number or 0)
        return LeaseState(holder=entry.holder, ttl=entry.ttl, number=number or 0)

    def renew(self) -> None:
        """See Lease.renew."""
        if self._number is None or not self._create(self._number + 1, self._entry):
            self._number = None
            raise ArchiveFenced(f"{self._store.url}/{self._prefix}: another process has become the leader; stop")

    def release(self) -> None:
        """See Lease.release."""
        if self._number is not None:
            released = _Entry(self._entry.token, self._entry.holder, self._entry.ttl, released=True)
            self._create(self._number + 1, released)
            self._number = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
