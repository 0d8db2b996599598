"""Records -> fingerprints of their keys, offsets and kinds.

Values are not read, so checksums are not verified here: a compaction verifies what it uses before it relies on it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.fingerprint import fingerprint_at
from seglog.kernels.layout import (
    BEYOND,
    FIXED_METADATA_BYTES,
    HEAD_BYTES,
    METADATA,
    NULL,
    OFFSET,
    OK,
    SHORT,
    VALUE_BASE,
)
from seglog.kernels.memory import address_of, kernel, load_u32, prefetch
from seglog.kernels.parameters import Input, Int64s, Uint8s, Uint64Rows, Word
from seglog.kernels.validate import Cursor

UNKEYED, KEYED, TOMBSTONE = 0, 1, 2  # kinds: a tombstone has a key and a null value
AHEAD = 4  # the next heads are prefetched this many records, of the present length, ahead


@kernel
def read_keys(
    window: Input,
    start: int,
    cursor: Cursor,
    seed0: Word,
    seed1: Word,
    fingerprints: Uint64Rows,
    at: Int64s,
    kinds: Uint8s,
) -> Any:
    """Fill one row for every record from the cursor on; return (rows, position, expected, reason).

    window: uint8, the store's bytes from position `start` up to cursor.end. fingerprints: uint64[rows, 2]; at: int64,
    relative offsets; kinds: uint8. reason: OK, or why there is no record at `position`; SHORT or BEYOND if it exceeds
    cursor.end.
    """
    base = address_of(window) - start
    position, expected, reason, rows = cursor.position, cursor.expected, OK, 0
    while rows < at.size and position < cursor.end:
        record, left = base + position, cursor.end - position
        if left < HEAD_BYTES:
            reason = SHORT
            break
        metadata_len, value_len, key_len = load_u32(record + 8), load_u32(record + 12), load_u32(record + 20)
        kinds[rows] = UNKEYED if key_len == NULL else (TOMBSTONE if value_len == NULL else KEYED)
        length = VALUE_BASE + metadata_len + (0 if value_len == NULL else value_len)
        key_len = 0 if key_len == NULL else key_len
        offset = load_u32(record + 16)
        if key_len > metadata_len - FIXED_METADATA_BYTES:
            reason = METADATA
        elif length > left:
            reason = BEYOND
        elif offset < expected or (cursor.dense and offset != expected):
            reason = OFFSET
        if reason != OK:
            break
        prefetch(record + AHEAD * length)
        first, second = fingerprint_at(record + HEAD_BYTES, key_len, seed0, seed1)
        if first == np.uint64(0) and second == np.uint64(0):
            second = np.uint64(1)  # zeros mark a free slot of the map
        fingerprints[rows, 0], fingerprints[rows, 1] = first, second
        at[rows] = offset
        rows += 1
        position, expected = position + length, offset + 1
    return rows, position, expected, reason
