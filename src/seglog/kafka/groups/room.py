"""The memory that the members of all groups hold for as long as they are members: what they sent, and assignments."""

from __future__ import annotations

MOST_MEMBERS = 1000
"""Of one group."""


class Room:
    """A total with a limit. most: bytes that all members may hold; held: what they hold now."""

    def __init__(self, most: int) -> None:
        self.most = most
        self.held = 0

    def fits(self, more: int) -> bool:
        """Whether members may hold `more` bytes more than now; it may be negative."""
        return more <= 0 or self.held + more <= self.most
