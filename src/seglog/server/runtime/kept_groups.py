"""Whose groups a server keeps, with committed offsets and members: in memory and on disk for long, see `Shares`.

Members are those of seglog's protocol; others are in memory only (kafka/groups). Each byte counts against the caller
that made the group larger by it, which is known only in memory. What groups had before the server started counts
against no caller; if it leaves too little, the groups that exist may still grow a little. Called with the groups
locked.
"""

from __future__ import annotations

from collections import Counter

from seglog.server.runtime.shares import ShareFull, is_fair
from seglog.topic.groups.bounds import MAX_GROUPS

GROWTH_PART = 8
"""The part of the limit (1/8) that groups may grow by in any case, all together, until the server starts again."""
NOBODY = ""
"""Stands for the caller of what groups had before the server started."""


class KeptGroups:
    """The groups of each caller."""

    def __init__(self, most: int) -> None:
        """most: bytes that all groups may take."""
        self._most = most
        self._parts: dict[str, dict[str, int]] = {}  # of each group the bytes of each caller, without zeros
        self._bytes: Counter[str] = Counter()  # of each caller
        self._size = 0  # of all
        self._groups: Counter[str] = Counter()  # in which each caller has a part
        self._growing: dict[str, str] = {}  # the caller that made a group larger last

    def admit(self, payer: str, group: str, more: int) -> None:
        """Let a caller make a group larger; see `Admits`.

        Raises:
            ShareFull: All that groups have of the caller would be more than its share; or it has too many groups.
        """
        is_new = group not in self._parts
        before, own, size = self._bytes[NOBODY], self._bytes[payer], self._size
        most = self._most - before if is_new else max(self._most - before, self._most // GROWTH_PART)
        if not is_fair(most, size - before, own, more):
            raise ShareFull(
                f"groups, with committed offsets and members, take {size} bytes of {self._most}, a quarter of "
                f"--memory; {before} of them since before the server started, and {own} are of {payer!r}, whose "
                f"share has no room for {more} more. Delete groups that are not used, or raise --memory"
            )
        if is_new and not is_fair(MAX_GROUPS, len(self._parts), self._groups[payer], 1):
            raise ShareFull(
                f"{len(self._parts)} groups of at most {MAX_GROUPS} exist, {self._groups[payer]} of {payer!r}; delete "
                "some that are not used"
            )
        self._growing[group] = payer
        if len(self._growing) > 2 * MAX_GROUPS:
            self._growing = {one: of for one, of in self._growing.items() if one in self._parts or one == group}

    def resized(self, group: str, more: int) -> None:
        """Count what a group has grown by, or less if negative: first of the caller that came to it last."""
        parts = self._parts.setdefault(group, {})
        if more > 0:
            self._change(parts, self._growing.get(group, NOBODY), more)
        for payer in reversed([*parts]):
            if more < 0:
                less = min(parts[payer], -more)
                self._change(parts, payer, -less)
                more += less
        if not parts:
            del self._parts[group]
            self._growing.pop(group, None)

    def _change(self, parts: dict[str, int], payer: str, more: int) -> None:
        """Count more, or less, of a group for a caller."""
        if payer not in parts:
            self._groups[payer] += 1
        parts[payer] = parts.get(payer, 0) + more
        self._bytes[payer] += more
        self._size += more
        if not parts[payer]:
            del parts[payer]
            self._groups[payer] -= 1
        if not self._groups[payer]:
            del self._groups[payer], self._bytes[payer]
