"""What a server keeps for its callers beyond a request, so that none of them takes the place of all others.

A caller is a token or, on a server without tokens, the address of a client. Three quarters are for all alike, so that
one who is alone gets them. Of the last quarter only those get more who have less than half of what the others leave:
there is always some left for one that has nothing yet. Event loop only.
"""

from __future__ import annotations

import hashlib
from collections import Counter

from seglog.errors import Busy

FREE_QUARTERS = 3
OWNER_DIGITS = 16


class ShareFull(Busy):
    """A caller has its share of something that the server keeps; waiting does not help, only to release some of it."""


def owner_of(name: str) -> str:
    """Return how records name a caller: by its token's name, or its address on a server without tokens."""
    return hashlib.sha256(name.encode()).hexdigest()[:OWNER_DIGITS]


def is_fair(most: int, held: int, own: int, more: int) -> bool:
    """Whether a caller may have `more`. most: for all; held: by all now, of which the caller has `own`."""
    return more <= 0 or 4 * (held + more) <= FREE_QUARTERS * most or 2 * (own + more) <= most - (held - own)


class Shares:
    """Something that is limited for all callers together. most: how much of it; held: how much they hold now."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0
        self._of: Counter[str] = Counter()

    def of(self, payer: str) -> int:
        """Return what a caller holds."""
        return self._of[payer]

    def fits(self, payer: str, more: int) -> bool:
        """Whether a caller may hold `more` than now; it may be negative."""
        return is_fair(self.most, self.held, self._of[payer], more)

    def fits_from_another(self, payer: str, size: int) -> bool:
        """Whether a caller may hold `size` that another one holds now."""
        return is_fair(self.most, self.held - size, self._of[payer], size)

    def change(self, payer: str, more: int) -> None:
        """Count `more` for a caller, or less if negative; one that can be refused asks `fits` first."""
        self.held += more
        self._of[payer] += more
        if not self._of[payer]:
            del self._of[payer]
