"""Columns -> records end to end, with their dense entries and marks. The caller has checked the lengths."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.checksum import xxh64_at
from seglog.kernels.layout import (
    CHECKED_FROM,
    FIXED_METADATA_BYTES,
    HEAD_BYTES,
    NO_HIGH,
    NO_LOW,
    NULL,
    VALUE_BASE,
    MarksState,
    Summary,
)
from seglog.kernels.memory import address_of, copy_short, inlined, kernel, load_i64, store_i64, store_u32, store_u64


class Rows(NamedTuple):
    """Addresses of what is encoded, arrays of one int64 per row: timestamps; addresses and lengths of keys, headers and
    values (length -1: null). Addresses, since handing on arrays in the loop would count references for every record.
    """

    timestamps: int
    key_addresses: int
    key_lengths: int
    header_addresses: int
    header_lengths: int
    value_addresses: int
    value_lengths: int


class Place(NamedTuple):
    """Where the first row goes: relative offset, store position, and the store's salt (np.uint64)."""

    relative: int
    position: int
    salt: Any


@kernel
def measure(rows: Rows, sizes: Any, ends: Any) -> None:
    """Fill sizes (int64, one per row) with the encoded bytes of each row, and ends (one longer) with their sums."""
    ends[0] = 0
    for row in range(sizes.size):
        key_len, value_len = load_i64(rows.key_lengths + 8 * row), load_i64(rows.value_lengths + 8 * row)
        size = HEAD_BYTES + max(key_len, 0) + load_i64(rows.header_lengths + 8 * row) + max(value_len, 0)
        sizes[row] = size
        ends[row + 1] = ends[row] + size


@inlined
def _write_record(record: int, row: int, rows: Rows, offset: int, salt: Any) -> Any:
    """Write one record at address `record`; return its checksum and its length."""
    at = 8 * row
    key_len, headers_len = load_i64(rows.key_lengths + at), load_i64(rows.header_lengths + at)
    value, value_len = load_i64(rows.value_addresses + at), load_i64(rows.value_lengths + at)
    store_u32(record + 12, NULL if value_len < 0 else value_len)
    store_u32(record + 20, NULL if key_len < 0 else key_len)
    key_len, value_len = max(key_len, 0), max(value_len, 0)
    metadata_len = FIXED_METADATA_BYTES + key_len + headers_len
    store_u32(record + 8, metadata_len)
    store_u32(record + 16, offset)
    store_i64(record + 24, load_i64(rows.timestamps + at))
    copy_short(record + HEAD_BYTES, load_i64(rows.key_addresses + at), key_len)
    if headers_len > 0:
        copy_short(record + HEAD_BYTES + key_len, load_i64(rows.header_addresses + at), headers_len)
    copy_short(record + VALUE_BASE + metadata_len, value, value_len)
    seed = salt ^ xxh64_at(value, value_len, np.uint64(0))
    checksum = xxh64_at(record + CHECKED_FROM, VALUE_BASE - CHECKED_FROM + metadata_len, seed)
    store_u64(record, checksum)
    return checksum, VALUE_BASE + metadata_len + value_len


@kernel
def encode(
    rows: Rows, start: int, stop: int, place: Place, marks: MarksState, out: Any, entries: Any, found: Any
) -> Any:
    """Encode rows start..stop into `out` (uint8); return (marks written, MarksState, Summary).

    entries: uint64[rows, 2], filled as dense index entries; found: int64[*, 2], filled as marks, room for one per row.
    """
    target = address_of(out)
    position, offset = place.position, place.relative
    next_position, newest = marks.next_position, marks.max_timestamp
    count, tombstones = 0, 0
    low, high = NO_LOW, NO_HIGH
    for row in range(start, stop):
        if position >= next_position:
            found[count, 0], found[count, 1] = newest, offset | (position << 32)
            next_position = (position // marks.interval + 1) * marks.interval
            count += 1
        timestamp = load_i64(rows.timestamps + 8 * row)
        low, high, newest = min(low, timestamp), max(high, timestamp), max(newest, timestamp)
        tombstones += load_i64(rows.value_lengths + 8 * row) < 0
        checksum, length = _write_record(target, row, rows, offset, place.salt)
        entries[row - start, 0], entries[row - start, 1] = checksum, np.uint64(length | (position << 32))
        target += length
        position += length
        offset += 1
    return count, MarksState(marks.interval, next_position, newest), Summary(tombstones, low, high)
