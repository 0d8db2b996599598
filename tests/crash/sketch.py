"""About how many different keys there were, in 16 KiB however many: what rounds on several machines have met adds up.

HyperLogLog (Flajolet, Fusy, Gandouet, Meunier 2007): keys are uniform 64-bit hashes; the first 14 bits choose a
register, which keeps the most leading zeros that any of its keys' other bits had. The standard error is 0.8 %.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

INDEX_BITS = 14
REGISTERS = 2**INDEX_BITS
REST_BITS = 64 - INDEX_BITS
BIAS = 0.7213 / (1 + 1.079 / REGISTERS)


class Sketch:
    """A set of keys that can be added to and counted. path: the file it is kept in, from `keep` to the next reading."""

    def __init__(self, path: Path) -> None:
        self._path = path
        kept = path.read_bytes() if path.exists() else bytes(REGISTERS)
        self._registers = np.frombuffer(kept, np.uint8).copy()

    def add(self, keys: np.ndarray[Any, Any]) -> None:
        """Add keys, uint64."""
        rest = (keys & np.uint64(2**REST_BITS - 1)).astype(np.float64)  # 50 bits: exact
        zeros = (REST_BITS - np.frexp(rest)[1] + 1).astype(np.uint8)
        np.maximum.at(self._registers, (keys >> np.uint64(REST_BITS)).astype(np.int64), zeros)

    def count(self) -> int:
        """Return about how many different keys were added."""
        estimate = BIAS * REGISTERS**2 / float(np.sum(np.exp2(-self._registers.astype(np.float64))))
        empty = int((self._registers == 0).sum())
        if estimate <= 2.5 * REGISTERS and empty:
            return round(REGISTERS * np.log(REGISTERS / empty))
        return round(estimate)

    def keep(self) -> None:
        """Put it in its file."""
        partial = self._path.with_suffix(".partial")
        partial.write_bytes(self._registers.tobytes())
        partial.replace(self._path)
