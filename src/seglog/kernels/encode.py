"""Columns -> records end to end, with their dense entries and marks. The caller has checked the lengths."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.checksum import xxh64_at
from seglog.kernels.layout import (
    CHECKED_FROM,
    FIXED_METADATA_BYTES,
    GROUP,
    HEAD_BYTES,
    NO_HIGH,
    NO_LOW,
    NULL,
    VALUE_BASE,
    MarksState,
    Summary,
)
from seglog.kernels.memory import address_of, copy_short, inlined, kernel, load_i64, load_u32, store_i64, store_u64


class Column(NamedTuple):
    """Where the int64 of each row stands: `address` for row 0, `stride` bytes further for each next one. Stride 0: all
    rows have the same, and it costs no memory.
    """

    address: int
    stride: int


class Cells(NamedTuple):
    """Where the bytes of each row stand.

    width 4 or 8: between two Arrow offsets of so many bytes, from address `starts` on, into what begins at address
    `data`; none is null. width 0: by address and length (-1: null).
    """

    width: int
    starts: int
    data: int
    addresses: Column
    lengths: Column


class Rows(NamedTuple):
    """What is encoded. By address, since handing on arrays in the loop would count references for every record."""

    timestamps: Column
    keys: Cells
    headers: Cells
    values: Cells


class Place(NamedTuple):
    """Where the first row goes: relative offset, store position, and the store's salt (np.uint64)."""

    relative: int
    position: int
    salt: Any


@inlined
def _word(column: Column, row: int) -> int:
    return load_i64(column.address + column.stride * row)  # type: ignore[no-any-return] # numba is untyped


@inlined
def _length(cells: Cells, row: int) -> int:
    """Return the length of a row's bytes, -1 for a null."""
    length: int = _span(cells, row)[1]
    return length


@inlined
def _span(cells: Cells, row: int) -> Any:
    """Return the address of a row's bytes and their length, -1 for a null."""
    if cells.width == 0:
        return _word(cells.addresses, row), _word(cells.lengths, row)
    offset = cells.starts + cells.width * row
    if cells.width == 4:
        start, stop = load_u32(offset), load_u32(offset + 4)
    else:
        start, stop = load_i64(offset), load_i64(offset + 8)
    return cells.data + start, stop - start


@kernel
def measure(rows: Rows, ends: Any) -> int:
    """Fill ends (int64, one longer than the rows) with the sums of encoded bytes; return the row that takes most."""
    widest, most, end = 0, 0, 0
    ends[0] = 0
    for row in range(ends.size - 1):
        key_len, value_len = _length(rows.keys, row), _length(rows.values, row)
        size = HEAD_BYTES + max(key_len, 0) + _length(rows.headers, row) + max(value_len, 0)
        if size > most:
            widest, most = row, size
        end += size
        ends[row + 1] = end
    return widest


@inlined
def _write_body(record: int, row: int, rows: Rows, offset: int) -> Any:
    """Write one record, but for its checksum, at address `record`; return its length and the hash of its value.

    The fields go out in words, as they will be hashed: a word put together of two stores is slow to load.
    """
    key, key_len = _span(rows.keys, row)
    headers, headers_len = _span(rows.headers, row)
    value, value_len = _span(rows.values, row)
    value_word, key_word = (NULL if value_len < 0 else value_len), (NULL if key_len < 0 else key_len)
    key_len, value_len = max(key_len, 0), max(value_len, 0)
    metadata_len = FIXED_METADATA_BYTES + key_len + headers_len
    store_i64(record + 8, metadata_len | (value_word << 32))
    store_i64(record + 16, offset | (key_word << 32))
    store_i64(record + 24, _word(rows.timestamps, row))
    copy_short(record + HEAD_BYTES, key, key_len)
    if headers_len > 0:
        copy_short(record + HEAD_BYTES + key_len, headers, headers_len)
    copy_short(record + VALUE_BASE + metadata_len, value, value_len)
    return VALUE_BASE + metadata_len + value_len, xxh64_at(value, value_len, np.uint64(0))


@inlined
def seal(record: int, value_hash: Any, salt: Any) -> Any:
    """Write and return the checksum of a record whose body stands at address `record`."""
    metadata_len = load_u32(record + 8)
    checksum = xxh64_at(record + CHECKED_FROM, VALUE_BASE - CHECKED_FROM + metadata_len, salt ^ value_hash)
    store_u64(record, checksum)
    return checksum


@inlined
def _write_group(record: int, start: int, stop: int, rows: Rows, place: Place, entries: Any, hashes: Any) -> int:
    """Write rows start..stop, at most GROUP, from address `record` on, and their entries; return their length.

    First all bodies, then all checksums: see validate for why records are taken in groups.
    """
    first, position = record, place.position
    for row in range(start, stop):
        length, hashes[row - start] = _write_body(record, row, rows, place.relative + row - start)
        entries[row - start, 1] = np.uint64(length | (position << 32))
        record += length
        position += length
    length, record, entry = record - first, first, address_of(entries)
    for one in range(stop - start):
        store_u64(entry, seal(record, hashes[one], place.salt))
        record += load_u32(entry + 8)
        entry += 16
    return length


@inlined
def _summarise(start: int, stop: int, rows: Rows) -> Summary:
    tombstones, low, high = 0, NO_LOW, NO_HIGH
    for row in range(start, stop):
        timestamp = _word(rows.timestamps, row)
        low, high = min(low, timestamp), max(high, timestamp)
        tombstones += _length(rows.values, row) < 0
    return Summary(tombstones, low, high)


@kernel
def encode(
    rows: Rows, start: int, stop: int, place: Place, marks: MarksState, out: Any, entries: Any, found: Any
) -> Any:
    """Encode rows start..stop into `out` (uint8); return (marks written, MarksState, Summary).

    entries: uint64[rows, 2], filled as dense index entries; found: int64[*, 2], filled as marks, room for one per row.
    """
    target, hashes = address_of(out), np.empty(GROUP, np.uint64)
    position, offset = place.position, place.relative
    for first in range(start, stop, GROUP):
        last = min(first + GROUP, stop)
        group = Place(offset, position, place.salt)
        length = _write_group(target, first, last, rows, group, entries[first - start : last - start], hashes)
        target, position, offset = target + length, position + length, offset + last - first
    next_position, newest, count = marks.next_position, marks.max_timestamp, 0
    for row in range(start, stop):
        position = load_u32(address_of(entries) + 16 * (row - start) + 12)
        if position >= next_position:
            found[count, 0], found[count, 1] = newest, (place.relative + row - start) | (position << 32)
            next_position = (position // marks.interval + 1) * marks.interval
            count += 1
        newest = max(newest, _word(rows.timestamps, row))
    return count, MarksState(marks.interval, next_position, newest), _summarise(start, stop, rows)
