"""The bounded map of one pass: key -> latest record, for one range of fingerprints at a time.

Invariant: every key of the dirty records is considered, whatever the memory limit, and a death once recorded is never
lost.
- A slot has 24 bytes (seglog.kernels.keymap). There is one for each dirty key, up to the limit.
- When the map is full, the range of fingerprints is halved and keys outside of it are evicted. Deaths are recorded
  outside of the map, so those that evicted keys caused remain.
- The other half is processed in a later round, which reads all dirty records again: ranges are adjacent and together
  cover all fingerprints.
- Records are added in order of offset, so the latest record of a key replaces earlier ones, which are dead.
"""

from __future__ import annotations

from math import ceil
from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.keymap import evict, insert, look_up

SLOT_BYTES = 24
MAX_LOAD = 0.9  # 26.7 bytes per key when full
LEAST_SLOTS = 16
MOST_SLOTS = 2**32 - 1
LAST = 2**64 - 1

Array = np.ndarray[Any, Any]


class Keys(NamedTuple):
    """A run of records: fingerprints uint64[rows, 2], kinds uint8 (seglog.kernels.keys), offsets int64."""

    fingerprints: Array
    kinds: Array
    offsets: Array


class KeyMap:
    """Maps the keys whose fingerprints begin with low..high. `count`: number of keys, up to `limit`."""

    def __init__(self, records: int, most_bytes: int) -> None:
        """Allocate slots for the keys of `records` records, up to `most_bytes` bytes."""
        slots = min(ceil(records / MAX_LOAD) + 1, most_bytes // SLOT_BYTES, MOST_SLOTS)
        slots = max(slots, LEAST_SLOTS)
        self._fingerprints = np.zeros((slots, 2), np.uint64)
        self._numbers = np.empty(slots, np.int64)
        self.limit = int(slots * MAX_LOAD)
        self.count = 0
        self.low = 0
        self.high = LAST

    @property
    def nbytes(self) -> int:
        """Size of both arrays in bytes."""
        return int(self._fingerprints.nbytes + self._numbers.nbytes)

    def add(self, keys: Keys, first: int, died: Array) -> int:
        """Add the latest records of a run, the first of which has number `first`, and record what they supersede.

        Runs come in order. died: uint8, one bit per number; returns how many are new. May narrow the range: keys
        outside of it are dropped, but not the deaths that they caused.
        """
        taken = dead = 0
        low = np.uint64(self.low)
        while taken < keys.kinds.size:
            rows, added, more = insert(
                keys.fingerprints[taken:],
                keys.kinds[taken:],
                first + taken,
                self._fingerprints,
                self._numbers,
                low,
                np.uint64(self.high),
                self.limit - self.count,
                died,
            )
            taken += rows
            dead += more
            self.count += added
            if taken < keys.kinds.size:
                self._narrow()
        return dead

    def _narrow(self) -> None:
        """Drop the upper half of the range to free slots."""
        self.high = self.low + (self.high - self.low) // 2
        self.count -= evict(self._fingerprints, self._numbers, np.uint64(self.high))

    def holds(self, keys: Keys, known: Array) -> Array:
        """Return which records have a key in the map (bool per row); fills `known`."""
        known = known[: keys.kinds.size]
        low, high = np.uint64(self.low), np.uint64(self.high)
        look_up(keys.fingerprints, keys.kinds, self._fingerprints, low, high, known)
        return known

    @property
    def whole(self) -> bool:
        """Whether it holds all keys at once."""
        return self.low == 0 and self.high == LAST

    def next_range(self) -> bool:
        """Begin the following range of the same width; return False if there is none."""
        if self.high == LAST:
            return False
        width = self.high - self.low + 1
        self.low, self.high = self.high + 1, min(self.high + width, LAST)
        self._fingerprints.fill(0)
        self.count = 0
        return True
