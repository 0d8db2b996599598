"""Lines of JSON -> columns of records, without creating objects and without the GIL.

Accepts the lines that programs usually write: an object with the fields value, key, timestamp, headers and offset, each
once and without escapes in its name; text, {"base64": "..."} or null for bytes; integers of up to 18 digits. It stops
at any other line: slower code then decides whether that is a less common form of JSON, or invalid.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.headers import _utf8_width
from seglog.kernels.memory import address_of, copy_bytes, kernel, load_u8, store_u8
from seglog.kernels.parameters import Input, Int64Rows, Int64s

POSITION, ROWS, LINES, HEADERS, VALUES, KEYS, NAMES, HEADER_VALUES, FAULT = range(9)
"""Fields of `state`: where to continue; rows, lines and headers so far; bytes in each output; why it stopped."""
STATES = 9
DONE, ODD_LINE, MANY_HEADERS, MANY_ROWS = 0, 1, 2, 3

MISSING = -2  # as the end of a value: there is none; NULL: it is null
NULL = -1
DIGITS = 18


@kernel
def _skip_space(at: int, end: int) -> int:
    while at < end:
        byte = load_u8(at)
        if byte not in (0x20, 0x09, 0x0D):
            break
        at += 1
    return at


@kernel
def _hex4(at: int, end: int) -> int:
    """Return the number that four hexadecimal digits represent; -1 if they are invalid."""
    if at + 4 > end:
        return -1
    number = 0
    for position in range(at, at + 4):
        byte = load_u8(position)
        if 0x30 <= byte <= 0x39:
            digit = byte - 0x30
        elif 0x41 <= (byte & 0xDF) <= 0x46:
            digit = (byte & 0xDF) - 0x37
        else:
            return -1
        number = 16 * number + digit
    return number


@kernel
def _write_utf8(code: int, out: int) -> int:
    """Write a character; return the address after it."""
    if code < 0x80:
        store_u8(out, code)
        return out + 1
    if code < 0x800:
        store_u8(out, 0xC0 | code >> 6)
        store_u8(out + 1, 0x80 | code & 0x3F)
        return out + 2
    if code < 0x10000:
        store_u8(out, 0xE0 | code >> 12)
        store_u8(out + 1, 0x80 | code >> 6 & 0x3F)
        store_u8(out + 2, 0x80 | code & 0x3F)
        return out + 3
    store_u8(out, 0xF0 | code >> 18)
    store_u8(out + 1, 0x80 | code >> 12 & 0x3F)
    store_u8(out + 2, 0x80 | code >> 6 & 0x3F)
    store_u8(out + 3, 0x80 | code & 0x3F)
    return out + 4


@kernel
def _simple_escape(byte: int) -> int:
    """Return the character that a backslash and this byte represent; -1 if none."""
    if byte in (0x22, 0x5C, 0x2F):
        return byte
    if byte == 0x6E:
        return 0x0A
    if byte == 0x74:
        return 0x09
    if byte == 0x72:
        return 0x0D
    if byte == 0x62:
        return 0x08
    if byte == 0x66:
        return 0x0C
    return -1


@kernel
def _escape(at: int, end: int, out: int) -> tuple[int, int]:
    """Write the character of an escape after its backslash; return (address after, after the output), -1 if invalid."""
    if at >= end:
        return -1, out
    byte = load_u8(at)
    if byte != 0x75:
        code = _simple_escape(byte)
        if code < 0:
            return -1, out
        store_u8(out, code)
        return at + 1, out + 1
    code = _hex4(at + 1, end)
    at += 5
    if 0xD800 <= code <= 0xDBFF:  # the first half of a surrogate pair; the second must follow
        if at + 6 > end or load_u8(at) != 0x5C or load_u8(at + 1) != 0x75:
            return -1, out
        low = _hex4(at + 2, end)
        if low < 0xDC00 or low > 0xDFFF:
            return -1, out
        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00)
        at += 6
    elif code < 0 or 0xDC00 <= code <= 0xDFFF:
        return -1, out
    return at, _write_utf8(code, out)


@kernel
def _text(at: int, end: int, out: int) -> tuple[int, int]:
    """Write the text after an opening quote; return (address after it, after the output), -1 if it is invalid."""
    begun = at
    while at < end:
        byte = load_u8(at)
        if byte == 0x22:
            copy_bytes(out, begun, at - begun)
            return at + 1, out + at - begun
        if byte == 0x5C:
            copy_bytes(out, begun, at - begun)
            at, out = _escape(at + 1, end, out + at - begun)
            if at < 0:
                return -1, out
            begun = at
        elif byte < 0x20:
            return -1, out
        elif byte < 0x80:
            at += 1
        else:
            width = _utf8_width(at, end)
            if width == 0:
                return -1, out
            at += width
    return -1, out


@kernel
def _sextet(byte: int) -> int:
    if 0x41 <= byte <= 0x5A:
        return byte - 0x41
    if 0x61 <= byte <= 0x7A:
        return byte - 0x47
    if 0x30 <= byte <= 0x39:
        return byte + 4
    if byte == 0x2B:
        return 62
    return 63 if byte == 0x2F else -1


@kernel
def _from_base64(start: int, stop: int) -> int:
    """Decode base64 in place; return the address after the bytes, -1 if it is invalid."""
    length = stop - start
    if length % 4:
        return -1
    padding = 0
    while padding < 2 and padding < length and load_u8(stop - 1 - padding) == 0x3D:
        padding += 1
    out, word, bits = start, 0, 0
    for at in range(start, stop - padding):
        sextet = _sextet(load_u8(at))
        if sextet < 0:
            return -1
        word, bits = (word << 6 | sextet) & 0xFFFF, bits + 6
        if bits >= 8:
            bits -= 8
            store_u8(out, word >> bits & 0xFF)
            out += 1
    return out


@kernel
def _is_word(at: int, end: int, first: int, second: int, third: int, fourth: int) -> bool:
    if at + 4 > end:
        return False
    one, two = load_u8(at) == first, load_u8(at + 1) == second
    return bool(one and two and load_u8(at + 2) == third and load_u8(at + 3) == fourth)


@kernel
def _is_null(at: int, end: int) -> bool:
    return _is_word(at, end, 0x6E, 0x75, 0x6C, 0x6C)


@kernel
def _is_base64_name(at: int, end: int) -> bool:
    """Whether `"base64"` is at this address."""
    if at + 8 > end or load_u8(at) != 0x22 or load_u8(at + 7) != 0x22:
        return False
    return _is_word(at + 1, end, 0x62, 0x61, 0x73, 0x65) and load_u8(at + 5) == 0x36 and load_u8(at + 6) == 0x34


@kernel
def _bytes(at: int, end: int, out: int) -> tuple[int, int, bool]:  # noqa: PLR0911 # -1 at each step that may fail
    """Write the bytes that a JSON value represents; return (address after it, after the output, whether it is null)."""
    if at >= end:
        return -1, out, False
    byte = load_u8(at)
    if byte == 0x22:
        at, after = _text(at + 1, end, out)
        return at, after, False
    if byte == 0x6E:
        return (at + 4 if _is_null(at, end) else -1), out, True
    if byte != 0x7B:
        return -1, out, False
    at = _skip_space(at + 1, end)
    if not _is_base64_name(at, end):
        return -1, out, False
    at = _skip_space(at + 8, end)
    if at >= end or load_u8(at) != 0x3A:
        return -1, out, False
    at = _skip_space(at + 1, end)
    if at >= end or load_u8(at) != 0x22:
        return -1, out, False
    at, after = _text(at + 1, end, out)
    if at < 0:
        return -1, out, False
    after = _from_base64(out, after)
    at = _skip_space(at, end)
    if after < 0 or at >= end or load_u8(at) != 0x7D:
        return -1, out, False
    return at + 1, after, False


@kernel
def _whole(at: int, end: int) -> tuple[int, int]:
    """Read an integer of up to 18 digits; return (address after it, the number), -1 if it is invalid."""
    sign = 1
    if at < end and load_u8(at) == 0x2D:
        sign, at = -1, at + 1
    begun, number = at, 0
    while at < end and 0x30 <= load_u8(at) <= 0x39 and at - begun < DIGITS:
        number, at = 10 * number + load_u8(at) - 0x30, at + 1
    if at == begun or (load_u8(begun) == 0x30 and at - begun > 1):
        return -1, 0
    return at, sign * number


@kernel
def _header(at: int, end: int, names: int, values: int) -> tuple[int, int, int, bool]:
    """Read {"key": text, "value": bytes}; return (address after it, after both outputs, whether the value is null)."""
    seen, null = 0, False
    if at >= end or load_u8(at) != 0x7B:
        return -1, names, values, False
    at = _skip_space(at + 1, end)
    while True:
        field, at = _field(at, end)
        if field == 1 and not seen & 1:
            if at >= end or load_u8(at) != 0x22:
                return -1, names, values, False
            at, names = _text(at + 1, end, names)
            seen |= 1
        elif field == 0 and not seen & 2:
            at, values, null = _bytes(at, end, values)
            seen |= 2
        else:
            return -1, names, values, False
        if at < 0:
            return -1, names, values, False
        at = _skip_space(at, end)
        if at >= end:
            return -1, names, values, False
        byte = load_u8(at)
        at += 1
        if byte == 0x7D:
            return (at if seen == 3 else -1), names, values, null
        if byte != 0x2C:
            return -1, names, values, False
        at = _skip_space(at, end)


@kernel
def _field(at: int, end: int) -> tuple[int, int]:
    """Read a field name and colon: (0 value, 1 key, 2 headers, 3 timestamp, 4 offset, -1 other; address after it)."""
    if at + 6 > end or load_u8(at) != 0x22:
        return -1, at
    first = load_u8(at + 1)
    field, length = -1, 0
    if first == 0x76 and _is_word(at + 2, end, 0x61, 0x6C, 0x75, 0x65):
        field, length = 0, 5
    elif first == 0x6B and load_u8(at + 2) == 0x65 and load_u8(at + 3) == 0x79:
        field, length = 1, 3
    elif first == 0x68 and _is_word(at + 2, end, 0x65, 0x61, 0x64, 0x65) and at + 8 < end:
        if load_u8(at + 6) == 0x72 and load_u8(at + 7) == 0x73:
            field, length = 2, 7
    elif first == 0x74 and _is_word(at + 2, end, 0x69, 0x6D, 0x65, 0x73) and at + 10 < end:
        if _is_word(at + 6, end, 0x74, 0x61, 0x6D, 0x70):
            field, length = 3, 9
    elif first == 0x6F and _is_word(at + 2, end, 0x66, 0x66, 0x73, 0x65) and at + 7 < end and load_u8(at + 6) == 0x74:
        field, length = 4, 6
    if field < 0:
        return -1, at
    at += length + 1
    if at >= end or load_u8(at) != 0x22:
        return -1, at
    at = _skip_space(at + 1, end)
    if at >= end or load_u8(at) != 0x3A:
        return -1, at
    return field, _skip_space(at + 1, end)


@kernel
def _headers(
    at: int, end: int, state: Int64s, outputs: Int64s, ends: Int64Rows, most: int
) -> tuple[int, int, int, int]:
    """Read a list of headers, or null; return (address after, headers, sizes of names, values); -1 odd, -2 too many."""
    count, names, values = state[HEADERS], state[NAMES], state[HEADER_VALUES]
    begun = count
    if _is_null(at, end):
        return at + 4, count, names, values
    if at >= end or load_u8(at) != 0x5B:
        return -1, count, names, values
    at = _skip_space(at + 1, end)
    if at < end and load_u8(at) == 0x5D:
        return at + 1, count, names, values
    while True:
        if count - begun >= most:
            return -2, count, names, values
        at, name, value, null = _header(at, end, outputs[2] + names, outputs[3] + values)
        if at < 0:
            return -1, count, names, values
        names, values = name - outputs[2], value - outputs[3]
        ends[count, 0], ends[count, 1], ends[count, 2] = names, values, 0 if null else 1
        count += 1
        at = _skip_space(at, end)
        if at >= end:
            return -1, count, names, values
        byte = load_u8(at)
        at = _skip_space(at + 1, end)
        if byte == 0x5D:
            return at, count, names, values
        if byte != 0x2C:
            return -1, count, names, values


@kernel
def _record(  # noqa: C901, PLR0912 # a branch for each field
    at: int, end: int, state: Int64s, outputs: Int64s, rows: Int64Rows, ends: Int64Rows, most: int
) -> int:
    """Read one object into a row and advance `state`; return its end, -1 if odd, -2 if it has too many headers."""
    if at >= end or load_u8(at) != 0x7B:
        return -1
    seen, known = 0, 0
    count, names, header_values = state[HEADERS], state[NAMES], state[HEADER_VALUES]
    value, key, timestamp = state[VALUES], state[KEYS], 0
    at = _skip_space(at + 1, end)
    while True:
        field, at = _field(at, end)
        if field < 0 or seen & 1 << field:
            return -1
        seen |= 1 << field
        if field == 0:
            at, after, null = _bytes(at, end, outputs[0] + value)
            value, known = after - outputs[0], known | (0 if null else 1)
        elif field == 1:
            at, after, null = _bytes(at, end, outputs[1] + key)
            key, known = after - outputs[1], known | (0 if null else 2)
        elif field == 2:
            at, count, names, header_values = _headers(at, end, state, outputs, ends, most)
        elif _is_null(at, end):
            at += 4
        else:
            at, number = _whole(at, end)
            if field == 3:
                timestamp, known = number, known | 4
        if at < 0:
            return at
        at = _skip_space(at, end)
        if at >= end:
            return -1
        byte = load_u8(at)
        at = _skip_space(at + 1, end)
        if byte == 0x7D:
            break
        if byte != 0x2C:
            return -1
    if not seen & 1:
        return -1
    state[HEADERS], state[NAMES], state[HEADER_VALUES] = count, names, header_values
    state[VALUES], state[KEYS] = value, key
    row = state[ROWS]
    rows[row, 0], rows[row, 1], rows[row, 2], rows[row, 3], rows[row, 4] = value, key, timestamp, known, count
    return at


@kernel
def read_lines(data: Input, state: Int64s, outputs: Int64s, rows: Int64Rows, ends: Int64Rows, most: int) -> None:
    """Read lines from data[state[POSITION]:] until one is odd or has more than `most` headers, or `rows` is full.

    data: the lines; state: int64[STATES], advanced by whole lines; outputs: addresses of memory for values, keys, and
    names and values of headers, each as long as the data; rows: int64[n, 5], filled with the ends of value and key, the
    timestamp, which of the three are known (1, 2, 4), and the end of the headers; ends: int64[m, 3], filled with the
    ends of a header's name and value, and whether it has a value.
    """
    base, length = address_of(data), data.size
    position = state[POSITION]
    while position < length:
        stop = position
        while stop < length and load_u8(base + stop) != 0x0A:
            stop += 1
        at = _skip_space(base + position, base + stop)
        if at < base + stop:
            if state[ROWS] >= rows.shape[0]:
                state[FAULT] = MANY_ROWS
                return
            found = _record(at, base + stop, state, outputs, rows, ends, most)
            if found != base + stop:
                state[FAULT] = MANY_HEADERS if found == -2 else ODD_LINE
                return
            state[ROWS] += 1
        position = stop + 1
        state[LINES] += 1
        state[POSITION] = position
    state[FAULT] = DONE


def new_state() -> Any:
    """Return the initial state."""
    return np.zeros(STATES, np.int64)
