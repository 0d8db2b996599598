"""The blocks of a dense lookup that are in memory, as a kernel finds them: by address."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from seglog.format.index import ENTRY_BYTES
from seglog.segment.lookup import BYTES_DATA


class BlockTable:
    """Blocks and their addresses. A block is added, never replaced: another thread's kernel may be reading it.

    rows: int64[blocks, 2], the address of each block and its number of entries, 0 without the block.
    """

    __slots__ = ("_blocks", "rows")

    def __init__(self, rows: int = 0, blocks: Iterable[tuple[int, bytes]] = ()) -> None:
        self.rows = np.zeros((rows, 2), np.int64)
        self._blocks: dict[int, bytes] = {}
        for number, block in blocks:
            self._add(number, block)

    def _add(self, number: int, block: bytes) -> None:
        self._blocks[number] = block
        self.rows[number, 0] = id(block) + BYTES_DATA
        self.rows[number, 1] = len(block) // ENTRY_BYTES  # last: from now on the address counts

    def entries(self, number: int) -> int:
        """Return how many entries of a block are known."""
        return int(self.rows[number, 1]) if number < len(self.rows) else 0

    def extended(self, blocks: dict[int, bytes]) -> BlockTable:
        """Return a table with these blocks as well: this one, or another if it is too short or has some of them."""
        if max(blocks) < len(self.rows) and not any(number in self._blocks for number in blocks):
            for number, block in blocks.items():
                self._add(number, block)
            return self
        rows = max(len(self.rows), max(blocks) + max(blocks) // 4 + 16)
        return BlockTable(rows, (self._blocks | blocks).items())
