"""The 64 bytes before the first record, byte for byte as docs/format.md has them."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from seglog.errors import FormatVersionError
from seglog.format.store import HEADER_BYTES, StoreHeader, decode_header

U64 = st.integers(0, 2**64 - 1)
HEADERS = st.builds(StoreHeader, U64, U64, st.integers(-(2**63), 2**63 - 1), U64)
HEADER = StoreHeader(0x1122334455667788, 0x99AABBCCDDEEFF00, -5, 7)


def written(*, magic: bytes = b"SEGLOG\r\n", version: int = 1, length: int = 64, flags: int = 0) -> bytes:
    body = magic
    body += struct.pack("<H", version)
    body += struct.pack("<H", length)
    body += struct.pack("<I", flags)
    body += struct.pack("<Q", 0x1122334455667788)  # salt
    body += struct.pack("<Q", 0x99AABBCCDDEEFF00)  # log_id
    body += struct.pack("<q", -5)  # created
    body += struct.pack("<Q", 7)  # span
    body += struct.pack("<Q", 0)  # reserved
    return body + struct.pack("<Q", xxh64_intdigest(body))


def test_the_header_is_laid_out_field_by_field() -> None:
    assert len(written()) == HEADER_BYTES == 64
    assert HEADER.encode() == written()
    assert decode_header(written(), "x.store") == HEADER


@given(HEADERS)
def test_what_was_encoded_is_decoded(header: StoreHeader) -> None:
    assert decode_header(header.encode() + b"records", "x.store") == header


def test_every_flipped_bit_is_damage() -> None:
    for bit in range(HEADER_BYTES * 8):
        data = bytearray(written())
        data[bit // 8] ^= 1 << bit % 8
        assert decode_header(bytes(data), "x.store") is None, f"bit {bit}"


@pytest.mark.parametrize("length", range(HEADER_BYTES))
def test_a_header_cut_short_is_damage(length: int) -> None:
    assert decode_header(written()[:length], "x.store") is None


def test_zeros_are_no_header() -> None:
    assert decode_header(bytes(HEADER_BYTES), "x.store") is None


@pytest.mark.parametrize(
    "newer", [{"version": 2}, {"version": 65535}, {"flags": 2}, {"flags": 1 << 31}, {"length": 72}]
)
def test_a_newer_format_is_told_from_damage(newer: dict[str, int]) -> None:
    with pytest.raises(FormatVersionError, match=r"x\.store.*nothing was changed"):
        decode_header(written(**newer), "x.store")
