"""How many groups a broker keeps: those without members and committed offsets are deleted after a while.

Its owner holds a lock around every call.
"""

from __future__ import annotations

from collections.abc import Callable

from seglog.clock import Clock
from seglog.errors import GroupConflict
from seglog.topic.groups.records import GroupRecord
from seglog.topic.groups.registry import Book
from seglog.topic.groups.state import Crew

MAX_MEMBERS = 1000
"""The most members of one group: more than partitions are useless, and each change writes all of them."""
MAX_GROUPS = 10_000
"""The most groups with members, with committed offsets, and without both, of one broker: all are kept in memory."""
EMPTY_SECONDS = 600.0
"""When a group without members and committed offsets is deleted; earlier if there are MAX_GROUPS."""
SWEEP_SECONDS = 60.0
Present = Callable[[str], Crew]
"""Returns a group without the members that are silent."""


class Bounds:
    """Deletes empty groups, and refuses a new one that would be one too many."""

    def __init__(self, book: Book, ticks: Clock) -> None:
        """ticks: measures durations, in us."""
        self._book = book
        self._ticks = ticks
        self._empty_since: dict[str, int] = {}
        self._swept_at = ticks() - round(SWEEP_SECONDS * 1_000_000)

    def admit(self, group: str, present: Present) -> None:
        """Delete empty groups from time to time. Raises GroupConflict if a new group would be one too many."""
        self.sweep_if_due(present)
        book = self._book
        if group in book.crews or group in book.offsets or max(len(book.crews), len(book.offsets)) < MAX_GROUPS:
            return
        self._sweep(self._ticks(), 0.0, present)
        if max(len(book.crews), len(book.offsets)) >= MAX_GROUPS:
            raise GroupConflict(
                f"there are {MAX_GROUPS} consumer groups already, so {group!r} was not created; delete unused groups"
            )

    def sweep_if_due(self, present: Present) -> None:
        """Delete the groups that were empty for long, once in SWEEP_SECONDS."""
        now = self._ticks()
        if not 0 <= now - self._swept_at < SWEEP_SECONDS * 1_000_000:
            self._sweep(now, EMPTY_SECONDS, present)

    def emptied(self, group: str) -> None:
        """Let the time of a group begin again, which had members or offsets since it was last found empty."""
        self._empty_since.pop(group, None)

    def _sweep(self, now: int, seconds: float, present: Present) -> None:
        """Delete the groups that had neither members nor committed offsets for `seconds`."""
        self._swept_at = now
        groups = {*list(self._book.crews), *list(self._book.kept)}
        empty = [one for one in groups if not self._book.offsets.get(one) and not present(one).members]
        self._empty_since = {one: min(self._empty_since.get(one, now), now) for one in empty}
        gone = [one for one, since in self._empty_since.items() if now - since >= seconds * 1_000_000]
        self._book.append([GroupRecord(one, None) for one in gone if one in self._book.crews])
        for one in gone:
            self._book.kept.pop(one, None)
            del self._empty_since[one]
