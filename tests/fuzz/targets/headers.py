"""The headers of a record: Python and the kernel must take and refuse the same, and what is taken encodes alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.format.codec import InvalidRecord, decode_headers, encode_headers
from seglog.kernels.headers import count_headers, is_utf8
from seglog.kernels.scan import as_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator


def seeds() -> Iterator[bytes]:
    yield b""
    yield encode_headers((("name", b"value"), ("", None), ("größe", b"")))
    yield encode_headers((("x", b"\0" * 300),))[:-1]
    yield b"\x03\0\xed\xa0\x80\xff\xff\xff\xff"


def target(data: bytes) -> None:
    behind = b"\x05\0after\0\0\0\0"  # bytes that follow in a store are not part of the headers
    bytes_of = as_bytes(data + behind)
    address = bytes_of.ctypes.data
    try:
        headers = decode_headers(data + behind, 0, len(data))
    except InvalidRecord:
        headers = None
    count = count_headers(address, address + len(data))
    assert count == (-1 if headers is None else len(headers))
    if headers is not None:
        assert encode_headers(headers) == data
    assert is_utf8(address, len(data)) == _decodes(data)


def _decodes(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True
