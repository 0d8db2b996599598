"""The headers of a record, `key_len u16 | key (UTF-8) | value_len u32 | value` repeated, from and to columns."""

from __future__ import annotations

from typing import Any

from seglog.kernels.layout import NULL
from seglog.kernels.memory import address_of, copy_short, kernel, load_u8, load_u16, load_u32, store_u16, store_u32
from seglog.kernels.parameters import Input, Int32s, Int64Rows, Int64s, Uint8s

MAX_HEADER_KEY_BYTES = 0xFFFF
Spans = tuple[Int64s, Int64s]  # addresses and lengths

KEY_NULL, KEY_LONG, KEY_NOT_UTF8 = -1, -2, -3


@kernel
def _continuation(address: int, end: int, count: int) -> bool:
    if address + count > end:
        return False
    for byte in range(count):  # noqa: SIM110 # numba compiles no all()
        if load_u8(address + byte) & 0xC0 != 0x80:
            return False
    return True


@kernel
def _utf8_width(address: int, end: int) -> int:
    """Return the size of the well-formed UTF-8 character at `address`; 0 if there is none (Unicode, table 3-7)."""
    lead = load_u8(address)
    if lead < 0x80:
        return 1
    if lead < 0xC2 or lead > 0xF4:
        return 0
    width = 2 if lead < 0xE0 else (3 if lead < 0xF0 else 4)
    if not _continuation(address + 1, end, width - 1):
        return 0
    second = load_u8(address + 1)
    overlong = (lead == 0xE0 and second < 0xA0) or (lead == 0xF0 and second < 0x90)
    surrogate = lead == 0xED and second > 0x9F
    beyond = lead == 0xF4 and second > 0x8F
    return 0 if overlong or surrogate or beyond else width


@kernel
def is_utf8(address: int, length: int) -> bool:
    """Whether `length` bytes at `address` are UTF-8 according to Python's strict decoder."""
    end = address + length
    while address < end:
        width = _utf8_width(address, end)
        if width == 0:
            return False
        address += width
    return True


@kernel
def count_headers(address: int, end: int) -> int:
    """Return the number of headers in the range; -1 if they do not fill it exactly or a key is not UTF-8."""
    count = 0
    while address < end:
        if address + 2 > end:
            return -1
        key_len = load_u16(address)
        if address + 6 + key_len > end or not is_utf8(address + 2, key_len):
            return -1
        value_len = load_u32(address + 2 + key_len)
        address += 6 + key_len + (0 if value_len == NULL else value_len)
        count += 1
    return count if address == end else -1


@kernel
def measure_headers(items: Int64Rows, keys: Spans, values: Int64s, lengths: Int64s) -> Any:
    """Fill `lengths` with the encoded size of each row's headers; return (fault, row), fault 0 if there is none.

    items: int64 (start, stop) of each row's headers; keys: (addresses, lengths); values: lengths (-1: null). Faults:
    KEY_NULL, KEY_LONG (over 65,535 bytes), KEY_NOT_UTF8.
    """
    key_addresses, key_lengths = keys
    for row in range(lengths.size):
        total = 0
        for item in range(items[row, 0], items[row, 1]):
            if key_lengths[item] < 0:
                return KEY_NULL, row
            if key_lengths[item] > MAX_HEADER_KEY_BYTES:
                return KEY_LONG, row
            if not is_utf8(key_addresses[item], key_lengths[item]):
                return KEY_NOT_UTF8, row
            total += 6 + key_lengths[item] + max(values[item], 0)
        lengths[row] = total
    return 0, 0


@kernel
def write_headers(items: Int64Rows, keys: Spans, values: Spans, out: Uint8s, addresses: Int64s) -> None:
    """Write the headers of all rows in sequence into `out` (uint8), and the address of each row's into `addresses`.

    items, keys: as in measure_headers; values: (addresses, lengths).
    """
    target = address_of(out)
    for row in range(addresses.size):
        addresses[row] = target
        for item in range(items[row, 0], items[row, 1]):
            key_len, value_len = keys[1][item], values[1][item]
            store_u16(target, key_len)
            copy_short(target + 2, keys[0][item], key_len)
            target += 2 + key_len
            store_u32(target, NULL if value_len < 0 else value_len)
            value_len = max(value_len, 0)
            copy_short(target + 4, values[0][item], value_len)
            target += 4 + value_len


@kernel
def locate_headers(source: Input, positions: Int64s, offsets: Int32s, keys: Spans, values: Spans) -> None:
    """Find the headers of validated records at `positions` of `source`.

    offsets: int32, rows + 1 long, filled as Arrow's list offsets; keys, values: (addresses, lengths), one per header.
    """
    base = address_of(source)
    item = 0
    for row in range(positions.size):
        offsets[row] = item
        record = base + positions[row]
        key_len = load_u32(record + 20)
        at = record + 32 + (0 if key_len == NULL else key_len)
        end = record + 12 + load_u32(record + 8)
        while at < end:
            keys[0][item], keys[1][item] = at + 2, load_u16(at)
            at += 2 + keys[1][item]
            value_len = load_u32(at)
            values[0][item], values[1][item] = at + 4, -1 if value_len == NULL else value_len
            at += 4 + max(values[1][item], 0)
            item += 1
    offsets[positions.size] = item
