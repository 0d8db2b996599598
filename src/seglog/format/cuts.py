"""Record where and when records of a log were replaced by others: the epochs of its offsets. Pure.

Each cut (a truncate, or an opening that could not be sure of the records after some offset) begins a new epoch: from
that offset on the log may hold other records than before. So two readers have seen the same record before an offset
exactly if the offset had the same epoch for both.
"""

from __future__ import annotations

import secrets
from bisect import bisect_left
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

MOST = 64
"""Maximum number of cuts in a manifest. A cut replaces those at or after its offset, so few logs have many."""
TERM_BITS = 32
COUNTED_BITS = 16  # cuts of one leader before its epochs may meet those of another leader of the same term
BACKUP_BITS = 12
CHOSEN = 1 << (TERM_BITS - COUNTED_BITS)  # numbers between the term and the counted bits
FIRST = CHOSEN - 4 * (1 << BACKUP_BITS)  # of them, with room in the term for at least 4 backups, each of the one before


def first_epoch(term: int) -> int:
    """Return an epoch for a leader of a term to begin with: no other leader begins with it.

    Epochs must never be given twice. One leader counts them up; a promoted copy, or a log that was restored, begins at
    a number with its term in the high bits, then random bits.
    """
    return (term << TERM_BITS) | (secrets.randbelow(FIRST) << COUNTED_BITS)


def separate_epoch(epoch: int) -> int:
    """Return an epoch for a backup that becomes a log of its own, after its present epoch.

    The original counts on from the present epoch, and another backup of it may become a log, too. The term stays the
    same: near its end there are fewer numbers to choose from.
    """
    left = min(1 << BACKUP_BITS, CHOSEN - 1 - (epoch >> COUNTED_BITS) % CHOSEN)
    return epoch + 1 + ((1 + secrets.randbelow(left) if left else 0) << COUNTED_BITS)


@dataclass(frozen=True, slots=True)
class Cuts:
    """The cuts of a log. entries: (epoch, offset), both ascending. base: the epoch of all offsets before the first one.

    A base other than 0 means that a version of seglog cut the log without recording the offset.
    """

    base: int = 0
    entries: tuple[tuple[int, int], ...] = ()

    def epoch_at(self, offset: int) -> int:
        """Return the epoch of an offset: that since which the record before it is the same."""
        number = self._before(offset)
        return self.entries[number - 1][0] if number else self.base

    def is_known_at(self, offset: int) -> bool:
        """Whether a recorded cut set the epoch of this offset."""
        return self._before(offset) > 0

    def first_since(self, epoch: int) -> int | None:
        """Return the lowest offset that was cut after an epoch; None if unknown."""
        return next((offset for number, offset in self.entries if number > epoch), None)

    def _before(self, offset: int) -> int:
        return bisect_left(self.entries, offset, key=lambda entry: entry[1])

    def with_cut(self, epoch: int, offset: int) -> Cuts:
        """Return these cuts and a new one, which begins a new epoch.

        If there are too many, the two oldest are merged: no cut is missed, but a position between them counts as cut.
        """
        entries = (*(entry for entry in self.entries if entry[1] < offset), (epoch, offset))
        if len(entries) > MOST:
            entries = ((entries[1][0], entries[0][1]), *entries[2:])
        return Cuts(self.base, entries)

    def to_json(self) -> dict[str, Any]:
        """Return the fields for a manifest's header."""
        return {"cuts_from": self.base, "cuts": [list(entry) for entry in self.entries]}

    @classmethod
    def from_json(cls, values: dict[str, Any], epoch: int) -> Cuts:
        """Read the fields; without them all offsets have the present epoch. ValueError or TypeError if invalid."""
        if "cuts" not in values:
            return cls(epoch)
        entries = tuple((_number(number), _number(offset)) for number, offset in values["cuts"])
        if any(not (one[0] < two[0] and one[1] < two[1]) for one, two in pairwise(entries)):
            raise ValueError(f"cuts are {values['cuts']}")
        return cls(_number(values["cuts_from"]), entries)


def _number(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} instead of a number")
    return value
