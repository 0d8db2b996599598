"""Rows -> records in sequence, with their dense entries and marks. The caller has checked them (columns, extent)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.checksum import xxh64_at
from seglog.kernels.extent import bytes_before
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
)
from seglog.kernels.memory import address_of, copy_short, inlined, kernel, load_u32, local_array, store_i64, store_u64
from seglog.kernels.parameters import Int64Rows, Int64s, Uint8s, Uint64Rows, Word
from seglog.kernels.rows import Rows, length_of, span_of, word_of

local_hashes = local_array(np.uint64, GROUP)


class Place(NamedTuple):
    """Place of the first row: relative offset, position in the store, and the store's salt (np.uint64)."""

    relative: int
    position: int
    salt: Word


@inlined
def _write_body(record: int, row: int, rows: Rows, offset: int) -> Any:
    """Write one record without its checksum at address `record`; return its length and the hash of its value.

    Fields are stored in the words in which they are hashed: loading a word that two stores wrote is slow.
    """
    key, key_len = span_of(rows.keys, row)
    headers, headers_len = span_of(rows.headers, row)
    value, value_len = span_of(rows.values, row)
    value_word, key_word = (NULL if value_len < 0 else value_len), (NULL if key_len < 0 else key_len)
    key_len, value_len = max(key_len, 0), max(value_len, 0)
    metadata_len = FIXED_METADATA_BYTES + key_len + headers_len
    store_i64(record + 8, metadata_len | (value_word << 32))
    store_i64(record + 16, offset | (key_word << 32))
    store_i64(record + 24, word_of(rows.timestamps, row))
    copy_short(record + HEAD_BYTES, key, key_len)
    if headers_len > 0:
        copy_short(record + HEAD_BYTES + key_len, headers, headers_len)
    copy_short(record + VALUE_BASE + metadata_len, value, value_len)
    return VALUE_BASE + metadata_len + value_len, xxh64_at(value, value_len, np.uint64(0))


@inlined
def seal(record: int, value_hash: Any, salt: Any) -> Any:
    """Write and return the checksum of a record whose body is at address `record`."""
    metadata_len = load_u32(record + 8)
    checksum = xxh64_at(record + CHECKED_FROM, VALUE_BASE - CHECKED_FROM + metadata_len, salt ^ value_hash)
    store_u64(record, checksum)
    return checksum


@inlined
def _write_group(record: int, start: int, stop: int, rows: Rows, place: Place, entries: Any, hashes: Any) -> int:
    """Write rows start..stop, up to GROUP, from address `record` on, and their entries; return their length.

    First all bodies, then all checksums: `validate` explains why records are processed in groups.
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


@kernel
def encode(
    rows: Rows,
    ends: Int64s,
    start: int,
    stop: int,
    place: Place,
    marks: MarksState,
    out: Uint8s,
    room: int,
    entries: Uint64Rows,
    found: Int64Rows,
) -> Any:
    """Encode rows start..stop into `out` (uint8); return (bytes, marks written, fields of MarksState, of Summary).

    ends: as `measure` filled it. entries: uint64[rows, 2], filled as dense index entries; found: int64[*, 2], filled as
    marks, with space for one per row. Nothing is written if the rows need more than `room` bytes.
    """
    target, hashes = address_of(out), local_hashes()
    position, offset = place.position, place.relative
    length = bytes_before(rows, ends, stop) - bytes_before(rows, ends, start)
    next_position, newest, count = marks.next_position, marks.max_timestamp, 0
    tombstones, low, high = 0, NO_LOW, NO_HIGH
    if length > room:
        stop = start
    for first in range(start, stop, GROUP):
        last = min(first + GROUP, stop)
        group = Place(offset, position, place.salt)
        taken = _write_group(target, first, last, rows, group, entries[first - start : last - start], hashes)
        target, position, offset = target + taken, position + taken, offset + last - first
    for row in range(start, stop):
        position, timestamp = load_u32(address_of(entries) + 16 * (row - start) + 12), word_of(rows.timestamps, row)
        if position >= next_position:
            found[count, 0], found[count, 1] = newest, (place.relative + row - start) | (position << 32)
            next_position = (position // marks.interval + 1) * marks.interval
            count += 1
        newest, low, high = max(newest, timestamp), min(low, timestamp), max(high, timestamp)
        tombstones += length_of(rows.values, row) < 0
    return length, count, (marks.interval, next_position, newest), (tombstones, low, high)
