"""Headers: UTF-8 as Python has it, and a walk that accepts exactly what fills its range."""

import struct

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from seglog.kernels.headers import count_headers, is_utf8

NULL = 0xFFFFFFFF


def python_says_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def kernel_says_utf8(data: bytes) -> bool:
    array = np.frombuffer(data + b"\xbf\xbf\xbf", np.uint8)  # what follows must not be taken for a part of it
    return bool(is_utf8(array.ctypes.data, len(data)))


def plain_count(data: bytes) -> int:
    start, count = 0, 0
    while start < len(data):
        if start + 2 > len(data):
            return -1
        (name_len,) = struct.unpack_from("<H", data, start)
        name = data[start + 2 : start + 2 + name_len]
        start += 2 + name_len
        if start + 4 > len(data) or not python_says_utf8(name):
            return -1
        (value_len,) = struct.unpack_from("<I", data, start)
        start += 4 + (0 if value_len == NULL else value_len)
        if start > len(data):
            return -1
        count += 1
    return count


def kernel_count(data: bytes) -> int:
    array = np.frombuffer(data + b"\0" * 8, np.uint8)
    return int(count_headers(array.ctypes.data, array.ctypes.data + len(data)))


header = st.builds(
    lambda name, value: (
        struct.pack("<H", len(name)) + name + struct.pack("<I", NULL if value is None else len(value)) + (value or b"")
    ),
    st.text(max_size=5).map(str.encode) | st.binary(max_size=4),
    st.none() | st.binary(max_size=9),
)


def test_every_two_byte_start_of_a_character_is_judged_as_python_does():
    for lead in range(0x80, 0x100):
        for second in range(0x100):
            for tail in (b"", b"\x80", b"\xbf\x80", b"a"):
                data = bytes([lead, second]) + tail
                assert kernel_says_utf8(data) == python_says_utf8(data), data


@given(st.binary(max_size=12) | st.text(max_size=6).map(str.encode))
def test_any_bytes_are_utf8_when_python_says_so(data):
    assert kernel_says_utf8(data) == python_says_utf8(data)


@given(st.lists(header, max_size=4).map(b"".join), st.integers(0, 3), st.binary(max_size=3))
@example(b"", 0, b"")
@example(struct.pack("<HI", 0, 2**32 - 2), 0, b"")
def test_headers_count_only_when_they_fill_their_range(data, cut, more):
    data = data[: max(len(data) - cut, 0)] + more
    assert kernel_count(data) == plain_count(data)
