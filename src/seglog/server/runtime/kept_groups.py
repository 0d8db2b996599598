"""Whose groups a server keeps, with committed offsets and members: in memory and on disk for long, see `Shares`.

Members are those of seglog's protocol; others are in memory only (kafka/groups). Which caller a group counts against is
known only in memory: the first one that made it larger since the server has started. What groups had before counts
against no caller; if it leaves too little, the groups that exist may still grow a little. Called with the groups
locked.
"""

from __future__ import annotations

from collections.abc import Mapping

from seglog.server.runtime.shares import ShareFull, is_fair
from seglog.topic.groups.bounds import MAX_GROUPS

GROWTH_PART = 8
"""The part of the limit (1/8) that groups may grow by in any case, all together, until the server starts again."""


class KeptGroups:
    """The groups of each caller."""

    def __init__(self, most: int) -> None:
        """most: bytes that all groups may take."""
        self._most = most
        self._found: dict[str, int] | None = None  # the bytes of each group when the server started
        self._payers: dict[str, str] = {}
        self._groups: dict[str, set[str]] = {}  # the same, by caller; no empty ones

    def admit(self, payer: str, group: str, more: int, sizes: Mapping[str, int], size: int) -> None:
        """Let a caller make a group larger; see `Admits`.

        Raises:
            ShareFull: All groups of the caller would be more than its share; or it has too many groups.
        """
        found = self._found = dict(sizes) if self._found is None else self._found
        is_new = group not in sizes
        if is_new:
            found.pop(group, None)
        else:
            payer = self._payers.get(group, payer)
        own = {one for one in self._groups.get(payer, ()) if one in sizes}
        before = sum(min(had, sizes.get(one, 0)) for one, had in found.items())
        grown = sum(max(sizes.get(one, 0) - found.get(one, 0), 0) for one in {*own, group})
        most = self._most - before if is_new else max(self._most - before, self._most // GROWTH_PART)
        if not is_fair(most, size - before, grown, more):
            raise ShareFull(
                f"groups, with committed offsets and members, take {size} bytes of {self._most}, a quarter of "
                f"--memory; {before} of them since before the server started, and {grown} are of {payer!r}, whose "
                f"share has no room for {more} more. Delete groups that are not used, or raise --memory"
            )
        if is_new and not is_fair(MAX_GROUPS, len(sizes), len(own), 1):
            raise ShareFull(
                f"{len(sizes)} groups of at most {MAX_GROUPS} exist, {len(own)} of {payer!r}; delete some that are not "
                "used"
            )
        self._count(payer, group, sizes)

    def _count(self, payer: str, group: str, sizes: Mapping[str, int]) -> None:
        """Count a group against a caller from now on, and against no other."""
        before = self._payers.get(group, payer)
        if before != payer:
            self._groups[before].discard(group)
            if not self._groups[before]:
                del self._groups[before]
        self._payers[group] = payer
        self._groups.setdefault(payer, set()).add(group)
        if len(self._payers) > 2 * MAX_GROUPS:
            self._payers = {one: of for one, of in self._payers.items() if one in sizes or one == group}
            self._groups = {}
            for one, of in self._payers.items():
                self._groups.setdefault(of, set()).add(one)
