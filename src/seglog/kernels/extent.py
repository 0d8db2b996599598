"""How many bytes the rows of a batch take once encoded, and which row stands where; without an int64 for each.

`ends` holds the bytes before every STEP-th row and behind the last one; what is between is counted when asked for.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import carray

from seglog.kernels.layout import HEAD_BYTES
from seglog.kernels.memory import inlined, kernel, pointer_to
from seglog.kernels.rows import Cells, Rows, word_of

STEP = 256


@inlined
def _add_differences(offsets: Any, sizes: Any) -> None:
    for one in range(sizes.size):
        sizes[one] += offsets[one + 1] - offsets[one]


@inlined
def _add_lengths(cells: Cells, first: int, sizes: Any) -> None:
    """Add the lengths of the rows from `first` on to `sizes`; a column at a time, so that its layout is asked once."""
    offsets = pointer_to(cells.starts + cells.width * first)
    if cells.width == 4:
        _add_differences(carray(offsets, sizes.size + 1, np.int32), sizes)
    elif cells.width == 8:
        _add_differences(carray(offsets, sizes.size + 1, np.int64), sizes)
    elif cells.lengths.stride == 0:
        sizes += max(word_of(cells.lengths, first), 0)
    else:
        for one in range(sizes.size):
            sizes[one] += max(word_of(cells.lengths, first + one), 0)


@inlined
def _sizes(rows: Rows, first: int, stop: int, room: Any) -> Any:
    """Return the encoded bytes of rows first..stop, at most STEP, at the front of `room` (int64[STEP])."""
    sizes = room[: stop - first]
    sizes[:] = HEAD_BYTES
    for cells in (rows.keys, rows.headers, rows.values):
        _add_lengths(cells, first, sizes)
    return sizes


@inlined
def _sum_and_most(sizes: Any) -> Any:
    total, most = 0, 0
    for one in range(sizes.size):
        total, most = total + sizes[one], max(most, sizes[one])
    return total, most


@kernel
def measure(rows: Rows, count: int, ends: Any) -> Any:
    """Fill `ends` (int64, one longer than the steps) for so many rows; return the first row that takes most bytes, and
    how many.
    """
    room = np.empty(STEP, np.int64)
    widest: Any = 0
    most, end = 0, 0
    for step in range(ends.size - 1):
        ends[step] = end
        sizes = _sizes(rows, step * STEP, min((step + 1) * STEP, count), room)
        total, longest = _sum_and_most(sizes)
        if longest > most:
            widest, most = step * STEP + sizes.argmax(), longest
        end += total
    ends[ends.size - 1] = end
    return widest, most


@kernel
def bytes_before(rows: Rows, ends: Any, row: int) -> int:
    """Return how many bytes the rows before `row` take."""
    step, room = row // STEP, np.empty(STEP, np.int64)
    return ends[step] + _sizes(rows, step * STEP, row, room).sum()  # type: ignore[no-any-return] # numba is untyped


@kernel
def find_rows(rows: Rows, count: int, ends: Any, limits: Any, found: Any) -> None:
    """For each number of bytes say which rows take as many.

    limits: int64. found: int64[limits, 3], filled with the least number of first rows that take so many bytes, what
    they take, and where the last of them begins; with count + 1 rows where all of them take less.
    """
    room = np.empty(STEP, np.int64)
    for one in range(limits.size):
        step = max(np.searchsorted(ends[: ends.size - 1], limits[one]) - 1, 0)
        row, begin, end = step * STEP, ends[step], ends[step]
        for size in _sizes(rows, row, min(row + STEP, count), room):
            if end >= limits[one]:
                break
            begin = end
            end += size
            row += 1
        found[one, 0] = row if end >= limits[one] else count + 1
        found[one, 1], found[one, 2] = end, begin
