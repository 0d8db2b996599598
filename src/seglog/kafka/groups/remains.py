"""What is kept of a group when its last member is gone, in memory only: Kafka's tools show it until it expires."""

from __future__ import annotations

from typing import NamedTuple

CONSUMER, CLASSIC = "consumer", "classic"
MOST_KIND = 255
"""The longest protocol type that is kept, in characters: it counts against no caller."""


class Remains(NamedTuple):
    """type: of the group; kind: its protocol type; epoch: its last one, or its last generation."""

    type: str
    kind: str
    epoch: int

    def or_none(self) -> Remains | None:
        """Return itself, None for a group that never had members, or whose protocol type is too long."""
        return self if self.epoch and len(self.kind) <= MOST_KIND else None
