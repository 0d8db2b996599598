"""The records of a store -> the records of a Kafka batch: validated and written in one pass, without columns between.

`record_batches` describes a record of a batch, docs/format.md one of a store.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.layout import CHECKSUM, HEAD_BYTES, NULL, OK, VALUE_BASE
from seglog.kernels.memory import (
    address_of,
    copy_short,
    inlined,
    kernel,
    load_i64,
    load_u8,
    load_u16,
    load_u32,
    store_u8,
)
from seglog.kernels.parameters import Input, Uint8s
from seglog.kernels.validate import Cursor, check, frame, local_hashes, local_spans

MICROSECONDS = 1000  # of a millisecond
MOST_DELTA = 2**31 - 1
SLACK_BYTES = 1024  # so much more of the store than fits is validated, since records are shorter in a batch

END, STOPPED, FULL = 0, 1, 2


class Part(NamedTuple):
    """The records of a batch.

    stop: relative offset; rows: the most records. stamped: end where the millisecond changes. whole: validate the first
    record also if it does not fit, to find out what it needs.
    """

    stop: int
    rows: int
    stamped: bool
    whole: bool


class Translated(NamedTuple):
    """The result of `translate`.

    rows, size: records and bytes written. needed: about the bytes of the next record if it did not fit, exactly if it
    would have been the first; else 0. position, expected: where to continue. reason: OK, or one of layout. ending: END
    of what the cursor can read, or an invalid record; STOPPED at a record from `stop` on; FULL: another batch follows.
    first, last: relative offsets of the records; first_ms, most_ms: the time of the first, and the latest.
    """

    rows: int
    size: int
    needed: int
    position: int
    expected: int
    reason: int
    ending: int
    first: int
    last: int
    first_ms: int
    most_ms: int


@inlined
def _zigzag(value: int) -> Any:
    return np.uint64((value << 1) ^ (value >> 63))


@inlined
def _varint_bytes(value: int) -> int:
    bits, size = _zigzag(value) >> np.uint64(7), 1
    while bits > np.uint64(0):
        bits >>= np.uint64(7)
        size += 1
    return size


@inlined
def _put_varint(address: int, value: int) -> int:
    bits = _zigzag(value)
    while bits > np.uint64(0x7F):
        store_u8(address, np.int64(bits & np.uint64(0x7F)) | 0x80)
        bits >>= np.uint64(7)
        address += 1
    store_u8(address, np.int64(bits))
    return address + 1


@inlined
def _span_bytes(length: int) -> int:
    return _varint_bytes(length) + max(length, 0)


@inlined
def _put_span(address: int, source: int, length: int) -> int:
    address = _put_varint(address, length)
    if length > 0:
        copy_short(address, source, length)
        address += length
    return address


@inlined
def _is_named(key: int, length: int, name: int, name_length: int) -> bool:
    if length != name_length:
        return False
    for at in range(length):  # noqa: SIM110 # numba compiles no all()
        if load_u8(key + at) != load_u8(name + at):
            return False
    return True


@inlined
def _header_at(at: int) -> Any:
    """Return the lengths of a header's key and value (-1: null), and where the next header begins."""
    key_len = load_u16(at)
    value_len = load_u32(at + 2 + key_len)
    value_len = -1 if value_len == NULL else value_len
    return key_len, value_len, at + 6 + key_len + max(value_len, 0)


@inlined
def _measure_headers(at: int, end: int, name: int, name_length: int) -> Any:
    """Return the number of headers without those of this name, and their bytes in a batch."""
    count, size = 0, 0
    while at < end:
        key_len, value_len, after = _header_at(at)
        if not _is_named(at + 2, key_len, name, name_length):
            count += 1
            size += _span_bytes(key_len) + _span_bytes(value_len)
        at = after
    return count, size


@inlined
def _put_headers(address: int, limit: int, at: int, end: int, name: int, name_length: int) -> int:
    """Write the headers that were measured; stop at `limit`, which they exceed only if they changed meanwhile."""
    while at < end:
        key_len, value_len, after = _header_at(at)
        if not _is_named(at + 2, key_len, name, name_length):
            if address + _span_bytes(key_len) + _span_bytes(value_len) > limit:
                return limit + 1
            address = _put_span(address, at + 2, key_len)
            address = _put_span(address, after - max(value_len, 0), value_len)
        at = after
    return address


@inlined
def _measure(record: int, span: Any, key_len: int, items: int, hidden: Any) -> Any:
    """Return the lengths of a record's key and value (-1: null), and the number and the bytes of its headers.

    span: metadata_len and length of the record; hidden: address and length of a name.
    """
    value = VALUE_BASE + span[0]
    value_len = -1 if load_u32(record + 12) == NULL else span[1] - value
    if items > 0:
        items, headers_size = _measure_headers(record + HEAD_BYTES + key_len, record + value, hidden[0], hidden[1])
    else:
        items, headers_size = 0, 0
    return (-1 if load_u32(record + 20) == NULL else key_len), value_len, items, headers_size


@inlined
def _put(at: int, size: int, deltas: Any, record: int, value: int, lengths: Any, hidden: Any) -> int:
    """Write a record of `size` bytes after its length; return the address after it, another one if it changed.

    deltas: of time and offset; value: its address; lengths: what `_measure` returns.
    """
    key_len, value_len, items, headers_size = lengths
    at = _put_varint(at, size)
    limit = at + size
    store_u8(at, 0)
    at = _put_varint(at + 1, deltas[0])
    at = _put_varint(at, deltas[1])
    at = _put_span(at, record + HEAD_BYTES, key_len)
    at = _put_span(at, value, value_len)
    at = _put_varint(at, items)
    if headers_size > 0:
        at = _put_headers(at, limit, record + HEAD_BYTES + max(key_len, 0), value, hidden[0], hidden[1])
    return at


@kernel
def translate(source: Input, cursor: Cursor, part: Part, hidden: Input, out: Uint8s) -> Any:
    """Validate records from the cursor on and write those of `part` into `out`; return the fields of `Translated`.

    source: the store from position 0, at least up to cursor.end. hidden: UTF-8 name of a header that is not written.
    """
    base, at, name = address_of(source), address_of(out), (address_of(hidden), hidden.size)
    limit = at + out.size
    spans, hashes = local_spans(), local_hashes()
    position, expected, reason, ending = cursor.position, cursor.expected, OK, END
    rows, needed, first, last, first_ms, most_ms = 0, 0, 0, 0, 0, 0
    while position < cursor.end and reason == OK and ending == END:
        soft_end = position + limit - at + SLACK_BYTES
        framed, after = frame(base, position, cursor.end, soft_end, rows if part.whole else 1, spans, hashes)
        for one in range(framed):
            record, span = base + position, (spans[one, 0], spans[one, 1])
            reason, key_len, items = check(record, span[0], hashes[one], expected, cursor)
            offset = load_u32(record + 16)
            if reason == OK and offset >= part.stop:
                ending = STOPPED
            if reason != OK or ending != END:
                break
            time = load_i64(record + 24) // MICROSECONDS
            if rows == 0:
                first, first_ms, most_ms = offset, time, time
            deltas = (time - first_ms, offset - first)
            lengths = _measure(record, span, key_len, items, name)
            size = 1 + _varint_bytes(deltas[0]) + _varint_bytes(deltas[1]) + lengths[3]
            size += _span_bytes(lengths[0]) + _span_bytes(lengths[1]) + _varint_bytes(lengths[2])
            following = at + _span_bytes(size)
            if rows == part.rows or (part.stamped and deltas[0] != 0) or deltas[1] > MOST_DELTA or following > limit:
                needed = following - at if following > limit else 0
                ending = FULL
                break
            if _put(at, size, deltas, record, record + VALUE_BASE + span[0], lengths, name) != following:
                reason = CHECKSUM  # the store changed meanwhile
                break
            at, last, most_ms = following, offset, max(most_ms, time)
            rows += 1
            position += span[1]
            expected = offset + 1
        else:
            reason = after
            if framed == 0 and reason == OK:  # the next record does not fit
                needed, ending = limit - at + 1, FULL
    return rows, at - address_of(out), needed, position, expected, reason, ending, first, last, first_ms, most_ms
