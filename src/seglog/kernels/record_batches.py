"""The records of Kafka's record batches (format 2) -> columns: varints, without an object per record.

A record: length, attributes i8, timestamp delta, offset delta, key length, key, value length, value, number of
headers, and each header's key length, key, value length, value. All numbers are zigzag varints; a length of -1 is null.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.columns import view_words
from seglog.kernels.memory import address_of, inlined, kernel, load_u8
from seglog.kernels.parameters import Input, Int32s, Int64Rows, Int64s, Uint8s, Uint64Rows

Spans = tuple[Int64s, Int64s]  # addresses and lengths
LEAST_BYTES = 7
"""The fewest bytes of a record: one for each of its fields."""
MOST_MS = (2**63 - 1) // 1000

SOUND, CUT, NOT_CONSECUTIVE, NOT_FILLED, BAD_HEADERS, BAD_TIME = 0, 1, 2, 3, 4, 5
FAULTS = (
    "",
    "a record exceeds the batch",
    "the offset deltas are not 0, 1, 2, ...",
    "a record's fields do not fill its length",
    "a header has no key",
    "a timestamp does not fit 64 bits of microseconds",
)


@inlined
def _varint(address: int, end: int) -> Any:
    """Return a number and the address after it; 0 as the address if it exceeds `end` or 64 bits, or if it was 0."""
    bits, shift = np.uint64(0), np.uint64(0)
    while 0 < address < end and shift < np.uint64(70):
        byte = np.uint64(load_u8(address))
        address += 1
        bits |= (byte & np.uint64(0x7F)) << shift
        if byte < np.uint64(0x80):
            return np.int64(bits >> np.uint64(1)) ^ -np.int64(bits & np.uint64(1)), address
        shift += np.uint64(7)
    return np.int64(0), np.int64(0)


@inlined
def _span(address: int, end: int) -> Any:
    """Return the address of length-prefixed bytes, their length (-1: null), and the address after them, or 0."""
    length, start = _varint(address, end)
    if start == 0 or length < -1 or length > end - start:
        return np.int64(0), np.int64(0), np.int64(0)
    return start, length, start + max(length, 0)


@inlined
def _past_headers(at: int, end: int, count: int) -> Any:
    """Return the address after `count` headers, 0 if they exceed `end`; and whether each has a key."""
    named = True
    for _ in range(count):
        _, length, at = _span(at, end)
        named = named and length >= 0
        _, _, at = _span(at, end)
        if at == 0:
            break
    return at, named


@inlined
def _is_time(first: int, delta: int) -> bool:
    """Whether a time in ms, as a sum, fits 64 bits of microseconds."""
    return -MOST_MS <= first <= MOST_MS and -MOST_MS <= delta <= MOST_MS and -MOST_MS <= first + delta <= MOST_MS


@kernel
def locate_records(
    source: Input,
    position: int,
    times: tuple[int, int],
    timestamps: Int64s,
    keys: Spans,
    values: Spans,
    headers: Int64Rows,
) -> Any:
    """Find the records from `position` to the end of `source`, one per row, which must fill it.

    times: the batch's first timestamp in ms, and the microseconds for records without one (-1).
    Fills timestamps (us), keys and values (addresses in `source`, and lengths, -1: null), headers (int64[rows, 2]:
    position of the first header, and their number).
    Returns (fault, row, total number of headers).
    """
    base = address_of(source)
    limit, address, total, fault = base + source.size, base + position, 0, SOUND
    first, now = times
    for row in range(timestamps.size):
        size, start = _varint(address, limit)
        if start == 0 or size < LEAST_BYTES - 1 or size > limit - start:
            return CUT, row, total
        end = start + size
        delta, at = _varint(start + 1, end)
        number, at = _varint(at, end)
        key, key_length, at = _span(at, end)
        value, value_length, at = _span(at, end)
        count, at = _varint(at, end)
        headers[row, 0], headers[row, 1] = at - base, count
        at, named = _past_headers(at, end, count)
        if at == 0 or count < 0:
            fault = CUT
        elif number != row:
            fault = NOT_CONSECUTIVE
        elif not named:
            fault = BAD_HEADERS
        elif at != end:
            fault = NOT_FILLED
        elif not _is_time(first, delta):
            fault = BAD_TIME
        if fault != SOUND:
            return fault, row, total
        timestamps[row] = now if first + delta == -1 else (first + delta) * 1000
        keys[0][row], keys[1][row] = key, key_length
        values[0][row], values[1][row] = value, value_length
        total += count
        address = end
    return (SOUND if address == limit else NOT_FILLED), timestamps.size, total


@kernel
def locate_record_headers(source: Input, headers: Int64Rows, offsets: Int32s, keys: Spans, values: Spans) -> None:
    """Find the headers that `locate_records` has checked.

    offsets: int32[rows + 1], where each row's begin; keys, values: as there, one per header.
    """
    base = address_of(source)
    limit, item = base + source.size, 0
    for row in range(headers.shape[0]):
        offsets[row] = item
        at = base + headers[row, 0]
        for _ in range(headers[row, 1]):
            keys[0][item], keys[1][item], at = _span(at, limit)
            values[0][item], values[1][item], at = _span(at, limit)
            item += 1
    offsets[headers.shape[0]] = item


@kernel
def fill_views(source: Input, spans: Spans, views: Uint64Rows, valid: Uint8s) -> None:
    """Fill Arrow views into `source` of bytes that were found there, and whether they are not null."""
    base = address_of(source)
    for row in range(valid.size):
        address, length = spans[0][row], spans[1][row]
        valid[row] = length >= 0
        views[row, 0], views[row, 1] = view_words(address, max(length, 0), address - base, base + source.size)
