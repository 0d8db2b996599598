"""What each group takes, and who pays for it: bytes of committed offsets and members. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

NOBODY = ""
"""Pays for what no server has written, or one of an earlier version."""


class Charges:
    """sizes: group -> about how many bytes it takes, of groups that take any; size: of all."""

    def __init__(self) -> None:
        self.sizes = Counter[str]()
        self.size = 0
        self._paid: dict[str, Counter[str]] = {}  # payer -> group -> bytes, no zeros

    def change(self, group: str, growth: Mapping[str, int]) -> None:
        """Count what payers pay more for a group, or less if negative."""
        for payer, more in growth.items():
            paid = self._paid.setdefault(payer, Counter())
            for sizes in (self.sizes, paid):
                sizes[group] += more
                if not sizes[group]:
                    del sizes[group]
            if not paid:
                del self._paid[payer]
            self.size += more

    def paid(self) -> dict[str, int]:
        """Return payer -> bytes."""
        return {payer: paid.total() for payer, paid in self._paid.items()}

    def of(self, payer: str) -> Counter[str]:
        """Return the bytes of each group that a payer pays for."""
        return self._paid.get(payer, Counter())


class Payer(NamedTuple):
    """Who pays for what is written. id: as records have it; admits: decides whether it may pay more."""

    id: str
    admits: Admits


Admits = Callable[[str, Mapping[str, int], Charges], None]
"""Called before a group changes: its name, what each payer would pay more or less, what they pay now.

Raises to refuse that. The groups are locked meanwhile.
"""
