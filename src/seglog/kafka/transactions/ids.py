"""The transactional ids in memory: found or made for a request, if its token may use them, and forgotten. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from seglog.kafka.faults import NotOwner, UnknownProducer
from seglog.kafka.producers.registry import new_producer
from seglog.kafka.transactions.state import State, Transactional
from seglog.server.rights.access import EVERY
from seglog.server.runtime.shares import ShareFull, is_fair

if TYPE_CHECKING:
    from seglog.clock import Clock
    from seglog.server.rights.access import Caller

MOST_IDS = 10_000
EXPIRY_SECONDS = 7 * 24 * 3600.0


class Ids:
    """All ids of a broker."""

    def __init__(self, clock: Clock, most_of_token: int, forgotten: Callable[[str], object]) -> None:
        """most_of_token: ids that a token may have, unless it is an admin's. forgotten: called for an expired id."""
        self._clock = clock
        self._most_of_token = most_of_token
        self._forgotten = forgotten
        self._known: dict[str, Transactional] = {}

    def load(self, stored: Iterable[Transactional]) -> None:
        """Take what an earlier process has left."""
        self._known = {one.name: one for one in stored}
        for one in self:
            one.payer = one.owner

    def __iter__(self) -> Iterator[Transactional]:
        return iter(self._known.values())

    def get(self, name: str) -> Transactional | None:
        """Return an id, None if it is not known."""
        return self._known.get(name)

    def of(self, caller: Caller) -> list[Transactional]:
        """Return the ids that a caller may use, by name."""
        every = caller.may("admin", EVERY)
        return sorted((one for one in self if every or one.owner == caller.name), key=lambda one: one.name)

    def claim(self, caller: Caller, payer: str, name: str) -> Transactional:
        """Return an id, which the caller's token owns from now on if it is new. Raises NotOwner, and ShareFull.

        A new one has no epoch yet (-1). payer: whose share a new one counts against.
        """
        one = self._known.get(name)
        if one is None:
            one = self._known[name] = self._new(caller, payer, name)
        _check_owner(caller, one)
        return one

    def _new(self, caller: Caller, payer: str, name: str) -> Transactional:
        if not any(rights & {"write", "admin"} for rights in caller.rights.values()):
            raise NotOwner(f"the token {caller.name!r} may not write to any topic")
        self._expire()
        own = sum(one.payer == payer for one in self)
        is_full = own >= self._most_of_token and not caller.may("admin", EVERY)
        if is_full or not is_fair(MOST_IDS, len(self._known), own, 1):
            raise ShareFull(f"there are {len(self._known)} transactional ids of at most {MOST_IDS}, {own} of {payer!r}")
        return Transactional(name, caller.name, new_producer(), -1, 0.0, used_at=self._clock(), payer=payer)

    def _expire(self) -> None:
        """Forget the ids that have not been used for long."""
        before = self._clock() - int(EXPIRY_SECONDS * 1_000_000)
        for one in [*self]:
            if one.used_at < before and one.state not in (State.OPEN, State.DECIDED) and not one.lock.locked():
                del self._known[one.name]
                self._forgotten(one.name)

    def find(self, caller: Caller, name: str | None, producer: int, epoch: int) -> Transactional:
        """Return an id for a request of its present producer.

        Raises UnknownProducer, NotOwner, or Fenced for an earlier producer.
        """
        one = None if name is None else self._known.get(name)
        if one is not None:
            _check_owner(caller, one)
        if one is None or one.producer_id != producer:
            raise UnknownProducer(f"the transactional id {name!r} has no producer {producer}")
        one.check_epoch(epoch)
        return one


def _check_owner(caller: Caller, one: Transactional) -> None:
    if one.owner != caller.name and not caller.may("admin", EVERY):
        raise NotOwner(f"the token {caller.name!r} may not use the transactional id {one.name!r}")
