"""Which producers are remembered, in which order they have sent something, and against whose share each counts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

from seglog.server.runtime.shares import Shares

Place = tuple[str, int]
"""A topic's id, and the number of the partition."""
FROM_LOG = ""
"""Stands for the caller of a producer without an owner that was read from a log, until it sends something."""
One = TypeVar("One", bound=Hashable)


class Who(NamedTuple):
    """A producer. owner: of the token that it has used, see `owner_of`; id: which it may have chosen."""

    owner: str
    id: int

    def payer(self, payer: str) -> str:
        """Return whose share it counts against: its owner's, which logs store; without one `payer`'s."""
        return self.owner or payer


class Entry(NamedTuple):
    """What a partition remembers of a producer."""

    place: Place
    who: Who


class Remembered(Generic[One]):
    """Producers of one partition, or of all; a caller that has more than its share loses those that it used first."""

    def __init__(self, most: int) -> None:
        """most: of all callers, see `Shares`."""
        self._shares = Shares(most)
        self._payers: dict[One, str] = {}
        self._of: dict[str, OrderedDict[One, None]] = {}

    def __len__(self) -> int:
        """Return how many are remembered."""
        return len(self._payers)

    def use(self, payer: str, entry: One) -> list[One]:
        """Note that a producer sends something, or was found in a log; return those that must be forgotten for it."""
        before = self._payers.get(entry)
        if before is not None and payer in (before, FROM_LOG):
            self._of[before].move_to_end(entry)
            return []
        if before is not None:
            self.forget(entry)
        forgotten, own = [], self._of.setdefault(payer, OrderedDict())
        while own and not self._shares.fits(payer, 1):
            oldest = next(iter(own))
            self._drop(oldest)
            forgotten.append(oldest)
        own[entry] = None
        self._payers[entry] = payer
        self._shares.change(payer, 1)
        return forgotten

    def forget(self, entry: One) -> None:
        """Count a producer no longer; no error if it is not known."""
        payer = self._payers.get(entry)
        if payer is not None:
            self._drop(entry)
            if not self._of[payer]:
                del self._of[payer]

    def _drop(self, entry: One) -> None:
        payer = self._payers.pop(entry)
        del self._of[payer][entry]
        self._shares.change(payer, -1)
