"""Records -> validated columns for Arrow: offsets, timestamps, and 16-byte views into the store itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.columns import view_words
from seglog.kernels.layout import HEAD_BYTES, NULL, OK, VALUE_BASE
from seglog.kernels.memory import kernel, load_i64, load_u32, store_i64, store_u8, store_u64
from seglog.kernels.validate import GROUP, Cursor, check, frame

WIDE = 7  # a reason beside layout's: the record is valid, but Arrow's 32-bit offsets do not reach its end
MAX_VIEW = 2**31 - 1


class Wanted(NamedTuple):
    """Which records a batch takes: relative offsets first..stop, at most max_bytes from its first record to its end."""

    first: int
    stop: int
    base_offset: int
    max_bytes: int


class Columns(NamedTuple):
    """Addresses of the room for one batch, arrays of `rows` elements (see encode.Rows for why addresses).

    offsets, timestamps, positions: int64. keys, values: 16-byte Arrow views into the store from the batch's `start`.
    key_valid, value_valid: uint8.
    """

    rows: int
    offsets: int
    timestamps: int
    positions: int
    keys: int
    values: int
    key_valid: int
    value_valid: int


class Batch(NamedTuple):
    """What `decode` found: rows filled, where the views count from, where reading stands now, and why it stopped.

    reason: OK (batch full, `stop` or the end reached), a reason of layout, or WIDE. The rest are totals over the rows.
    """

    rows: int
    start: int
    position: int
    expected: int
    reason: int
    stopped: bool
    headers: int
    header_key_bytes: int
    header_value_bytes: int
    null_keys: int
    null_values: int
    key_bytes: int
    value_bytes: int


@kernel
def _fill(columns: Columns, row: int, record: int, key_len: int, at: int, limit: int) -> Any:
    """Fill one row from the record at `record`, `at` bytes behind the batch's start; return (null key, null value, value_len)."""
    store_i64(columns.timestamps + 8 * row, load_i64(record + 24))
    value = VALUE_BASE + load_u32(record + 8)
    value_len = load_u32(record + 12)
    null_key, null_value = load_u32(record + 20) == NULL, value_len == NULL
    value_len = 0 if null_value else value_len
    low, high = view_words(record + HEAD_BYTES, key_len, at + HEAD_BYTES, limit)
    store_u64(columns.keys + 16 * row, low)
    store_u64(columns.keys + 16 * row + 8, high)
    low, high = view_words(record + value, value_len, at + value, limit)
    store_u64(columns.values + 16 * row, low)
    store_u64(columns.values + 16 * row + 8, high)
    store_u8(columns.key_valid + row, not null_key)
    store_u8(columns.value_valid + row, not null_value)
    return null_key, null_value, value_len


@kernel
def decode(source: Any, cursor: Cursor, wanted: Wanted, columns: Columns) -> Batch:
    """Validate records from the cursor on and fill `columns` until they are full, or something stops it.

    source: uint8, the store from position 0; cursor.end is not behind its end. A record outside `wanted` is validated too.
    """
    base = np.int64(source.ctypes.data)
    position, expected, start = cursor.position, cursor.expected, cursor.position
    positions, hashes = np.empty(GROUP, np.int64), np.empty(GROUP, np.uint64)
    rows, headers, header_keys, header_values = 0, 0, 0, 0
    null_keys, null_values, key_bytes, value_bytes = 0, 0, 0, 0
    reason, stopped = OK, False
    room = columns.rows
    while rows < room and position < cursor.end and reason == OK and not stopped:
        group = min(GROUP, room - rows)
        count, framed = frame(base, position, cursor.end, start + wanted.max_bytes, rows, positions[:group], hashes)
        for one in range(count):
            position = positions[one]
            record = base + position
            reason, key_len, items, item_keys, item_values = check(record, hashes[one], expected, cursor)
            if reason != OK:
                break
            offset = load_u32(record + 16)
            length = VALUE_BASE + load_u32(record + 8)
            length += 0 if load_u32(record + 12) == NULL else load_u32(record + 12)
            if offset >= wanted.stop:
                stopped = True
                break
            if offset < wanted.first:
                position, expected = position + length, offset + 1
                start = position
                continue
            if position + length - start > MAX_VIEW and rows == 0:
                reason = WIDE
                break
            store_i64(columns.offsets + 8 * rows, wanted.base_offset + offset)
            store_i64(columns.positions + 8 * rows, position)
            null_key, null_value, value_len = _fill(columns, rows, record, key_len, position - start, base + cursor.end)
            rows += 1
            position, expected = position + length, offset + 1
            headers, header_keys, header_values = headers + items, header_keys + item_keys, header_values + item_values
            null_keys, null_values = null_keys + null_key, null_values + null_value
            key_bytes, value_bytes = key_bytes + key_len, value_bytes + value_len
        else:
            reason = framed
            if count == 0:
                break  # the next record passes max_bytes
    return Batch(
        rows, start, position, expected, reason, stopped, headers, header_keys, header_values,
        null_keys, null_values, key_bytes, value_bytes,
    )
