"""Whose groups a server keeps, with committed offsets and members: in memory and on disk for long, see `Shares`.

Members are those of seglog's protocol; others are in memory only (kafka/groups). Each record counts against the caller
that wrote it, also after a restart. What no server, or an earlier version, has written counts against no caller until
one replaces it. Called with the groups locked.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from seglog.server.runtime.shares import ShareFull, Shares, is_fair, owner_of
from seglog.topic.groups.bounds import MAX_GROUPS
from seglog.topic.groups.charges import NOBODY, Charges, Payer

GROWTH_PART = 8
"""The part of the limit (1/8) that groups may grow by in any case, all together, until the server starts again."""


class KeptGroups:
    """What each caller may keep."""

    def __init__(self, most: int) -> None:
        """most: bytes that all groups may take."""
        self._most = most
        self._spare: Shares | None = None  # for groups that exist, of a server that has started with too much

    def payer(self, name: str) -> Payer:
        """Return a caller as groups know it. name: of its token, or its address."""
        payer = owner_of(name)
        return Payer(payer, partial(self._admit, name, payer))

    def _admit(self, name: str, payer: str, group: str, growth: Mapping[str, int], charges: Charges) -> None:
        """Let a caller make a group larger, or pay for what another one paid for; see `Admits`.

        Raises:
            ShareFull: The caller would pay for more than its share; or it has too many groups.
        """
        if self._spare is None:
            began_full = charges.size > self._most - self._most // GROWTH_PART
            self._spare = Shares(self._most // GROWTH_PART if began_full else 0)
        more = growth.get(payer, 0) + min(growth.get(NOBODY, 0), 0)
        if more <= 0:
            return
        own, is_new = charges.of(payer), group not in charges.sizes
        if not is_fair(self._most, charges.size + sum(growth.values()) - more, own.total(), more):
            if not is_new and self._spare.fits(payer, more):
                self._spare.change(payer, more)
                return
            raise ShareFull(
                f"groups, with committed offsets and members, take {charges.size} bytes of {self._most}, a quarter of "
                f"--memory; {own.total()} are of {name!r}, whose share has no room for {more} more. Delete groups that "
                "are not used, or raise --memory"
            )
        if is_new and not is_fair(MAX_GROUPS, len(charges.sizes), len(own), 1):
            raise ShareFull(
                f"{len(charges.sizes)} groups of at most {MAX_GROUPS} exist, {len(own)} of {name!r}; delete some that "
                "are not used"
            )
