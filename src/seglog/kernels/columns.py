"""Columns of byte strings in one form for all layouts: per row an int64 address and an int64 length (-1: null).

So a chunked, sliced or dictionary column reaches the encoder without a copy of its data. The caller keeps the memory at
the addresses alive. Every function that reads offsets or views from outside checks them against their buffers.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.memory import copy_short, inlined, int32s_at, kernel, load_i64, load_u8, load_u32, load_u64
from seglog.kernels.parameters import Int32s, Int64s, Uint8s

INLINE_BYTES = 12  # the longest string that an Arrow view contains itself


@inlined
def _never_fall(offsets: Any) -> bool:
    """Whether int32 offsets never decrease; without a branch per row, so that many are compared at once."""
    signs = 0
    for row in range(offsets.size - 1):
        signs |= offsets[row + 1] - offsets[row]  # int64, so that no difference wraps
    return signs >= 0


@kernel
def fault_of_offsets(offsets: int, width: int, rows: int, size: int) -> int:
    """Return -1, or the first row whose Arrow offsets, `width` (4 or 8) bytes each, exceed `size` bytes of data."""
    if width == 4:
        array = int32s_at(offsets, rows + 1)
        if _never_fall(array) and array[0] >= 0 and array[rows] <= size:
            return -1
    start = load_u32(offsets) if width == 4 else load_i64(offsets)
    for row in range(rows):
        offsets += width
        stop = load_u32(offsets) if width == 4 else load_i64(offsets)
        if start < 0 or stop < start or stop > size:
            return row
        start = stop
    return -1


@kernel
def rows_from_offsets(offsets: int, width: int, data: int, addresses: Int64s, lengths: Int64s) -> None:
    """Fill rows from Arrow offsets at address `offsets`, `width` (4 or 8) bytes each, into the data at address `data`.

    The caller has checked them with `fault_of_offsets`.
    """
    start = load_u32(offsets) if width == 4 else load_i64(offsets)
    for row in range(addresses.size):
        offsets += width
        stop = load_u32(offsets) if width == 4 else load_i64(offsets)
        addresses[row] = data + start
        lengths[row] = stop - start
        start = stop


@kernel
def rows_from_views(
    views: int, valid: Uint8s, buffers: Int64s, sizes: Int64s, addresses: Int64s, lengths: Int64s
) -> int:
    """Fill rows from 16-byte Arrow views at address `views`.

    valid: uint8 per row, empty if no row is null; buffers, sizes: int64 address and size of each data buffer.
    Returns -1, or the first row whose view exceeds its buffer.
    """
    for row in range(addresses.size):
        view = views + 16 * row
        addresses[row], lengths[row] = 0, -1
        if valid.size > 0 and valid[row] == 0:
            continue
        length = load_u32(view)
        if length <= INLINE_BYTES:
            addresses[row], lengths[row] = view + 4, length
            continue
        buffer, start = load_u32(view + 8), load_u32(view + 12)
        if buffer >= buffers.size or start + length > sizes[buffer]:
            return row
        addresses[row], lengths[row] = buffers[buffer] + start, length
    return -1


@kernel
def gather(addresses: Int64s, lengths: Int64s, offsets: Int32s, target: int) -> None:
    """Copy rows end to end to address `target` and fill `offsets` (int32, rows + 1 long); a null takes no bytes."""
    position = 0
    for row in range(addresses.size):
        offsets[row] = position
        length = max(lengths[row], 0)
        copy_short(target + position, addresses[row], length)
        position += length
    offsets[addresses.size] = position


@inlined
def view_words(address: int, length: int, position: int, limit: int) -> Any:
    """Return the two uint64 words of an Arrow view of `length` bytes at `address`, at `position` of data buffer 0.

    Memory is readable up to `limit`; a short string close to it is read byte by byte.
    """
    if length > INLINE_BYTES:
        return np.uint64(length | (load_u32(address) << 32)), np.uint64(position << 32)
    if address + 16 <= limit:
        first, rest = load_u32(address), load_u64(address + 4)
        if length < 4:
            return np.uint64(length | ((first & ((1 << (8 * length)) - 1)) << 32)), np.uint64(0)
        keep = np.uint64(8 * (12 - length))
        rest = np.uint64(0) if length == 4 else (rest << keep) >> keep
        return np.uint64(length | (first << 32)), rest
    low, high = length, 0
    for byte in range(length):
        if byte < 4:
            low |= load_u8(address + byte) << (32 + 8 * byte)
        else:
            high |= load_u8(address + byte) << (8 * (byte - 4))
    return np.uint64(low), np.uint64(high)
