"""Records -> validated columns for Arrow: offsets, timestamps, and 16-byte views into the store itself."""

from __future__ import annotations

from typing import Any, NamedTuple

from seglog.kernels.columns import view_words
from seglog.kernels.layout import HEAD_BYTES, NULL, OK, VALUE_BASE
from seglog.kernels.memory import address_of, inlined, kernel, load_i64, load_u32, store_i64, store_u8, store_u64
from seglog.kernels.parameters import Input
from seglog.kernels.validate import Cursor, check, frame, local_hashes, local_spans

WIDE = 7  # in addition to layout's reasons: the record is valid, but its end exceeds Arrow's 32-bit offsets
MAX_VIEW = 2**31 - 1


class Wanted(NamedTuple):
    """The records of a batch: relative offsets first..stop, up to max_bytes from its first record to its end."""

    first: int
    stop: int
    base_offset: int
    max_bytes: int


class Columns(NamedTuple):
    """Addresses of the memory for one batch, arrays of `rows` elements (rows.Rows explains why addresses).

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
    """The result of `decode`.

    rows: rows filled; headers: number of their headers; start: position that the views count from; position, expected:
    where to continue; reason: OK (full, `stop`, or the end), a reason of layout, or WIDE; stopped: whether `stop` was
    reached.
    """

    rows: int
    headers: int
    start: int
    position: int
    expected: int
    reason: int
    stopped: bool


@inlined
def _fill(columns: Columns, row: int, record: int, key_len: int, span: Any, at: int, limit: int) -> None:
    """Fill one row from the record at address `record`, `at` bytes after the batch's start."""
    value = VALUE_BASE + span[0]
    value_len = span[1] - value
    store_i64(columns.timestamps + 8 * row, load_i64(record + 24))
    store_u8(columns.key_valid + row, load_u32(record + 20) != NULL)
    store_u8(columns.value_valid + row, load_u32(record + 12) != NULL)
    low, high = view_words(record + HEAD_BYTES, key_len, at + HEAD_BYTES, limit)
    store_u64(columns.keys + 16 * row, low)
    store_u64(columns.keys + 16 * row + 8, high)
    low, high = view_words(record + value, value_len, at + value, limit)
    store_u64(columns.values + 16 * row, low)
    store_u64(columns.values + 16 * row + 8, high)


@kernel
def decode(source: Input, cursor: Cursor, wanted: Wanted, columns: Columns) -> Any:
    """Validate records from the cursor on and fill `columns` as far as possible; return the fields of a Batch.

    source: uint8, the store from position 0, at least up to cursor.end. Records outside of `wanted` are validated, too.
    """
    base = address_of(source)
    position, expected, start = cursor.position, cursor.expected, cursor.position
    spans, hashes = local_spans(), local_hashes()
    rows, headers, reason, stopped = 0, 0, OK, False
    while rows < columns.rows and position < cursor.end and reason == OK and not stopped:
        framed, after = frame(base, position, cursor.end, start + wanted.max_bytes, rows, spans, hashes)
        for one in range(min(framed, columns.rows - rows)):
            record = base + position
            reason, key_len, items = check(record, spans[one, 0], hashes[one], expected, cursor)
            if reason != OK:
                break
            offset, following = load_u32(record + 16), position + spans[one, 1]
            stopped = offset >= wanted.stop
            if not stopped and offset >= wanted.first and following - start > MAX_VIEW:
                reason = WIDE
            if stopped or reason != OK:
                break
            if offset >= wanted.first:
                store_i64(columns.offsets + 8 * rows, wanted.base_offset + offset)
                store_i64(columns.positions + 8 * rows, position)
                span = (spans[one, 0], spans[one, 1])
                _fill(columns, rows, record, key_len, span, position - start, base + cursor.end)
                rows += 1
                headers += items
            else:
                start = following
            position, expected = following, offset + 1
        else:
            reason = after if rows < columns.rows else OK
            if framed == 0:
                break  # the next record exceeds max_bytes, or is not valid
    return rows, headers, start, position, expected, reason, stopped
