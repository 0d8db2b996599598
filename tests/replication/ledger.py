"""What a leader has acknowledged: which record must be at which offset, as long as nothing cuts it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


class Ledger:
    """The acknowledged records of one partition. Thread-safe.

    A record counts only if no cut at or below its offset was under way between its request and its acknowledgement.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._cuts: list[int] = []
        self._values: dict[int, bytes] = {}
        self.acknowledged = 0

    def begin(self) -> int:
        """Return a token to acknowledge a record with whose request begins now."""
        with self._guard:
            return len(self._cuts)

    def acknowledge(self, token: int, offset: int, value: bytes) -> None:
        """Note that a record was acknowledged."""
        with self._guard:
            if all(offset < cut for cut in self._cuts[token:]):
                self._values[offset] = value
                self.acknowledged += 1

    def cut(self, offset: int) -> None:
        """Note that records from an offset on may be removed: call it before the request and after it."""
        with self._guard:
            self._cuts.append(offset)
            self._values = {at: value for at, value in self._values.items() if at < offset}

    def expected(self) -> dict[int, bytes]:
        """Return the records that must be there."""
        with self._guard:
            return dict(self._values)

    def missing(self, found: Mapping[int, bytes]) -> list[int]:
        """Return the offsets of the records that must be there and are not, or are others."""
        return [offset for offset, value in self.expected().items() if found.get(offset) != value]
