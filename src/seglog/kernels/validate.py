"""The rules for a valid record, compiled once and used by decode and scan alike.

Records are processed in small groups: first the group is framed and its values are hashed, then its heads are checked.
The checksum of a head depends on the hash of its value: record by record, one would wait for the other; in groups the
processor works on several records at a time.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.checksum import xxh64_at
from seglog.kernels.headers import count_headers
from seglog.kernels.layout import (
    BEYOND,
    CHECKED_FROM,
    CHECKSUM,
    FIXED_METADATA_BYTES,
    GROUP,
    HEAD_BYTES,
    HEADERS,
    METADATA,
    NULL,
    OFFSET,
    OK,
    SHORT,
    VALUE_BASE,
)
from seglog.kernels.memory import inlined, load_u32, load_u64, local_array, prefetch
from seglog.kernels.parameters import Word

AHEAD = 1024  # bytes prefetched ahead of a record: the processor's own prefetching ends with each page

local_spans, local_hashes = local_array(np.int64, GROUP, 2), local_array(np.uint64, GROUP)  # for `frame`


class Cursor(NamedTuple):
    """The state of reading: position of the next record, end of the readable range, and what is expected next.

    expected: relative offset of the next record, in a sparse segment the lowest that it may have. salt: np.uint64.
    """

    position: int
    end: int
    expected: int
    dense: bool
    salt: Word


@inlined
def frame(base: int, position: int, end: int, soft_end: int, taken: int, spans: Any, hashes: Any) -> Any:
    """Frame up to GROUP records from `position` on and hash their values; return (records, why the next is none).

    Stops before a record that exceeds `soft_end`, unless it would be the first: `taken` records came before these.
    spans: int64[GROUP, 2], filled with (metadata_len, length). Callers must use these lengths: in a map of a store that
    is being written a second read might find others, which were not compared with `end`.
    """
    count = 0
    while count < GROUP and position < end:
        record = base + position
        if end - position < HEAD_BYTES:
            return count, SHORT
        metadata_len, value_len = load_u32(record + 8), load_u32(record + 12)
        value_len = 0 if value_len == NULL else value_len
        value = VALUE_BASE + metadata_len
        if metadata_len < FIXED_METADATA_BYTES:
            return count, METADATA
        if value + value_len > end - position:
            return count, BEYOND
        if taken + count > 0 and position + value + value_len > soft_end:
            return count, OK
        spans[count, 0], spans[count, 1] = metadata_len, value + value_len
        hashes[count] = xxh64_at(record + value, value_len, np.uint64(0))
        prefetch(record + AHEAD)
        prefetch(record + AHEAD + 64)
        count += 1
        position += value + value_len
    return count, OK


@inlined
def check(record: int, metadata_len: int, value_hash: Any, expected: int, cursor: Cursor) -> Any:
    """Check a framed record; return (reason, key_len, headers)."""
    key_len = load_u32(record + 20)
    key_len = 0 if key_len == NULL else key_len
    headers_len = metadata_len - FIXED_METADATA_BYTES - key_len
    if headers_len < 0:
        return METADATA, 0, 0
    seed = cursor.salt ^ value_hash
    if load_u64(record) != xxh64_at(record + CHECKED_FROM, VALUE_BASE - CHECKED_FROM + metadata_len, seed):
        return CHECKSUM, 0, 0
    headers = record + HEAD_BYTES + key_len
    count = 0 if headers_len == 0 else count_headers(headers, headers + headers_len)
    if count < 0:
        return HEADERS, 0, 0
    offset = load_u32(record + 16)
    if offset < expected or (cursor.dense and offset != expected):
        return OFFSET, 0, 0
    return OK, key_len, count
