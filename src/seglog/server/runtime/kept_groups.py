"""Whose groups a server keeps, with committed offsets and members: in memory and on disk for long, see `Shares`.

Members are those of seglog's protocol; others are in memory only (kafka/groups). Which caller a group counts against is
known only in memory: the first one that made it larger since the server has started. Called with the groups locked.
"""

from __future__ import annotations

from collections.abc import Mapping

from seglog.errors import Busy
from seglog.server.runtime.shares import is_fair
from seglog.topic.groups.groups import MAX_GROUPS


class KeptGroups:
    """The groups of each caller."""

    def __init__(self, most: int) -> None:
        """most: bytes that all groups may take."""
        self._most = most
        self._payers: dict[str, str] = {}
        self._groups: dict[str, set[str]] = {}

    def admit(self, payer: str, group: str, more: int, sizes: Mapping[str, int], size: int) -> None:
        """Let a caller make a group larger; see `Admits`.

        Raises:
            Busy: All groups of the caller would be more than its share; or it has too many groups.
        """
        payer = self._payers.get(group, payer) if group in sizes else payer
        own = self._groups.setdefault(payer, set())
        own.intersection_update(sizes)
        held = sum(sizes[one] for one in own - {group}) + sizes.get(group, 0)
        if not is_fair(self._most, size, held, more):
            raise Busy(
                f"groups, with committed offsets and members, take {size} bytes of {self._most}, and {held} of them "
                f"are groups of {payer!r}, which may have half of what others leave; delete groups, or raise --memory"
            )
        if group not in sizes and not is_fair(MAX_GROUPS, len(sizes), len(own), 1):
            raise Busy(f"{len(sizes)} groups of at most {MAX_GROUPS} exist, {len(own)} of {payer!r}")
        own.add(group)
        self._payers[group] = payer
        if len(self._payers) > 2 * MAX_GROUPS:
            self._payers = {one: of for one, of in self._payers.items() if one in sizes or one == group}
