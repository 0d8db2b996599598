"""Rows in memory that are ready to be encoded as a store holds them. Knows where they are, not what described them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.arrow.columns import Array, int64_room
from seglog.config import MAX_STORE_BYTES
from seglog.errors import InvalidArgument, KeyRequired
from seglog.kernels.encode import Place, encode
from seglog.kernels.extent import STEP, bytes_before, find_rows, measure
from seglog.kernels.layout import MarksState
from seglog.kernels.rows import Column, Rows


class Encoded(NamedTuple):
    """Rows as a store holds them.

    length: bytes written to `out`; entries: 16 bytes per row, as layout.ENTRY; marks: int64[marks, 2], as layout.MARK
    (the first column is max_timestamp); marks_state: input of the next call; tombstones: their number; min_timestamp,
    max_timestamp: None without rows.
    """

    length: int
    entries: memoryview
    marks: Array
    marks_state: MarksState
    tombstones: int
    min_timestamp: int | None
    max_timestamp: int | None


class EncodableRows:
    """Rows whose every check is done, but for those of the log that appends them.

    rows: their number; bytes: their total size once encoded; widest: the first row of maximum size, and that size.
    """

    def __init__(self, cells: Rows, rows: int, key_lengths: Array | None, owners: tuple[Any, ...]) -> None:
        """Take `cells`, whose addresses are valid as long as `owners` live.

        key_lengths: int64 per row, -1 for null; None if every row has a key.
        """
        self._owners = owners
        self._rows = cells
        self._key_lengths = key_lengths
        self.rows = rows
        self._ends = np.empty(-(-rows // STEP) + 1, np.int64)
        row, most = measure(cells, rows, self._ends)
        self.widest, self.bytes = (int(row), int(most)), int(self._ends[-1])

    def check_keys(self) -> None:
        """Raise KeyRequired, which names the row, if a row has no key."""
        if self._key_lengths is None:
            return
        missing = self._key_lengths < 0
        if missing.any():
            raise KeyRequired(row=int(missing.argmax()))

    def bytes_before(self, row: int) -> int:
        """Return the size of the rows before `row`."""
        if row in (0, self.rows):
            return self.bytes if row else 0
        return int(bytes_before(self._rows, self._ends, row))

    def rows_within(self, start: int, room: int) -> int:
        """Return the greatest `stop` such that rows start..stop take up to `room` bytes; `start` if none fits."""
        if start == 0 and self.bytes <= room:
            return self.rows
        more = np.array([self.bytes_before(start) + room + 1], np.int64)
        return max(int(self.rows_taking(more)[0, 0]) - 1, start)

    def rows_taking(self, limits: Array) -> Array:
        """For each number of bytes find the smallest number of leading rows that take at least that many.

        Returns int64[limits, 3]: that number of rows (rows + 1 if all take less), their size, and where the last
        begins.
        """
        found = np.empty((limits.size, 3), np.int64)
        find_rows(self._rows, self.rows, self._ends, limits, found)
        return found

    def encode(
        self,
        start: int,
        stop: int,
        *,
        out: Any,
        relative: int,
        position: int,
        salt: int,
        marks_state: MarksState,
    ) -> Encoded:
        """Encode rows start..stop into `out` (a writable buffer), as a store holds them from `position` on.

        relative: the first row's offset within the segment. Raises InvalidArgument if the rows exceed `out` or 32 bits.
        """
        target = np.frombuffer(out, np.uint8)
        if not 0 <= start <= stop <= self.rows:
            raise InvalidArgument(f"rows {start}..{stop} of a batch of {self.rows}")
        if relative + stop - start > 2**32:
            raise InvalidArgument(f"offsets {relative}..{relative + stop - start} must fit 32 bits")
        entries, marks = int64_room(4 * (stop - start)).reshape(2, -1, 2)
        place, room = Place(relative, position, np.uint64(salt)), min(target.size, MAX_STORE_BYTES - position)
        length, count, state, summary = encode(
            self._rows, self._ends, start, stop, place, marks_state, target, room, entries.view(np.uint64), marks
        )
        if length > room:
            raise InvalidArgument(
                f"{length} bytes at position {position} exceed the buffer ({target.size} bytes) or 32 bits"
            )
        tombstones, low, high = summary
        return Encoded(
            length,
            entries.reshape(-1).view(np.uint8).data,
            marks[:count],
            MarksState(*state),
            tombstones,
            low if stop > start else None,
            high if stop > start else None,
        )


def column_of(array: Array) -> Column:
    """Describe an array of int64; the caller keeps it alive."""
    return Column(array.ctypes.data, array.strides[0])
