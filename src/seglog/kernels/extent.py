"""The encoded size of a batch's rows, and the position of each row, without an int64 per row.

`ends` has the size before every STEP-th row and after the last one; sizes in between are computed on request.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.layout import HEAD_BYTES
from seglog.kernels.memory import inlined, int32s_at, int64s_at, kernel, local_array
from seglog.kernels.parameters import Int64Rows, Int64s
from seglog.kernels.rows import Cells, Rows, word_of

STEP = 256
local_sizes = local_array(np.int64, STEP)


@inlined
def _add_differences(offsets: Any, sizes: Any) -> None:
    for one in range(sizes.size):
        sizes[one] += offsets[one + 1] - offsets[one]


@inlined
def _add_lengths(cells: Cells, first: int, sizes: Any) -> None:
    """Add the lengths of the rows from `first` on to `sizes`, by column, so that each layout is checked once."""
    offsets = cells.starts + cells.width * first
    if cells.width == 4:
        _add_differences(int32s_at(offsets, sizes.size + 1), sizes)
    elif cells.width == 8:
        _add_differences(int64s_at(offsets, sizes.size + 1), sizes)
    elif cells.lengths.stride == 0:
        sizes += max(word_of(cells.lengths, first), 0)
    else:
        for one in range(sizes.size):
            sizes[one] += max(word_of(cells.lengths, first + one), 0)


@inlined
def _fill_sizes(rows: Rows, first: int, sizes: Any) -> None:
    """Fill `sizes` (int64) with the encoded sizes of the rows from `first` on."""
    sizes[:] = HEAD_BYTES
    for cells in (rows.keys, rows.headers, rows.values):
        _add_lengths(cells, first, sizes)


@inlined
def _sum_and_most(sizes: Any) -> Any:
    total, most = 0, 0
    for one in range(sizes.size):
        total, most = total + sizes[one], max(most, sizes[one])
    return total, most


@kernel
def measure(rows: Rows, count: int, ends: Int64s) -> Any:
    """Fill `ends` (int64, one longer than the steps) for `count` rows; return the first row of maximum size, and that
    size.
    """
    room = local_sizes()
    widest: Any = 0
    most, end = 0, 0
    for step in range(ends.size - 1):
        ends[step] = end
        sizes = room[: min(count - step * STEP, STEP)]
        _fill_sizes(rows, step * STEP, sizes)
        total, longest = _sum_and_most(sizes)
        if longest > most:
            widest, most = step * STEP + sizes.argmax(), longest
        end += total
    ends[ends.size - 1] = end
    return widest, most


@kernel
def bytes_before(rows: Rows, ends: Int64s, row: int) -> int:
    """Return the size of the rows before `row`."""
    step, room = row // STEP, local_sizes()
    sizes = room[: row - step * STEP]
    _fill_sizes(rows, step * STEP, sizes)
    return ends[step] + sizes.sum()  # type: ignore[no-any-return] # numba is untyped


@kernel
def find_rows(rows: Rows, count: int, ends: Int64s, limits: Int64s, found: Int64Rows) -> None:
    """For each number of bytes find the smallest number of leading rows that take at least that many.

    limits: int64. found: int64[limits, 3], filled with that number of rows (count + 1 if all take less), their size,
    and where the last of them begins.
    """
    room = local_sizes()
    for one in range(limits.size):
        step = max(np.searchsorted(ends[: ends.size - 1], limits[one]) - 1, 0)
        row, begin, end = step * STEP, ends[step], ends[step]
        sizes = room[: min(count - row, STEP)]
        _fill_sizes(rows, row, sizes)
        for size in sizes:
            if end >= limits[one]:
                break
            begin = end
            end += size
            row += 1
        found[one, 0] = row if end >= limits[one] else count + 1
        found[one, 1], found[one, 2] = end, begin
