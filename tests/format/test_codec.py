"""One record, byte for byte; and whatever is not exactly what the encoder made is refused."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from seglog.errors import InvalidArgument
from seglog.format.codec import (
    HEAD_BYTES,
    NATIVE,
    NULL,
    InvalidRecord,
    decode_headers,
    encode_headers,
    record_length,
    seal_head,
)
from seglog.record import Headers, Record

SALT = 0x0123456789ABCDEF
U32 = st.integers(0, 2**32 - 1)
KEYS = st.none() | st.binary(max_size=40)
HEADERS = st.lists(st.tuples(st.text(max_size=8), st.none() | st.binary(max_size=8)), max_size=4).map(tuple)
TIMESTAMPS = st.integers(-(2**63), 2**63 - 1)


def encoded(
    key: bytes | None, value: bytes | None, headers: Headers = (), *, relative: int = 3, time: int = -9
) -> bytes:
    parts, _, _ = NATIVE.encode(relative, time, key, value, encode_headers(headers), SALT)
    return b"".join(parts)


def written(key_len: int, key: bytes, headers: bytes, value_len: int, value: bytes) -> bytes:
    checked = struct.pack("<I", 20 + len(key) + len(headers))  # metadata_len
    checked += struct.pack("<I", value_len)
    checked += struct.pack("<I", 3)  # relative offset
    checked += struct.pack("<I", key_len)
    checked += struct.pack("<q", -9)  # timestamp
    checked += key + headers
    checksum = xxh64_intdigest(checked, seed=SALT ^ xxh64_intdigest(value, seed=0))
    return struct.pack("<Q", checksum) + checked + value


def decoded(data: bytes, *, base: int = 0, salt: int = SALT) -> Record:
    return NATIVE.decode(data, 0, len(data), base, salt)[0]


# --- golden bytes -------------------------------------------------------------------------------------------------


def test_a_record_is_laid_out_field_by_field() -> None:
    headers = struct.pack("<H", 3) + "né".encode() + struct.pack("<I", 2) + b"hv"
    headers += struct.pack("<H", 0) + struct.pack("<I", 0xFFFFFFFF)
    data = written(3, b"key", headers, 5, b"value")
    assert encoded(b"key", b"value", (("né", b"hv"), ("", None))) == data
    assert decoded(data, base=100) == Record(103, -9, b"key", b"value", (("né", b"hv"), ("", None)))


def test_no_key_is_not_an_empty_key() -> None:
    assert encoded(None, b"v") == written(0xFFFFFFFF, b"", b"", 1, b"v")
    assert encoded(b"", b"v") == written(0, b"", b"", 1, b"v")
    assert decoded(encoded(None, b"v")).key is None
    assert decoded(encoded(b"", b"v")).key == b""


def test_a_tombstone_is_not_an_empty_value() -> None:
    assert encoded(b"k", None) == written(1, b"k", b"", 0xFFFFFFFF, b"")
    assert encoded(b"k", b"") == written(1, b"k", b"", 0, b"")
    assert decoded(encoded(b"k", None)).value is None
    assert decoded(encoded(b"k", b"")).value == b""


def test_the_least_record_is_its_head() -> None:
    assert len(encoded(None, None)) == HEAD_BYTES == 32


# --- round trips --------------------------------------------------------------------------------------------------


@given(U32, TIMESTAMPS, KEYS, st.none() | st.binary(max_size=80), HEADERS, st.integers(0, 2**64 - 1))
def test_what_was_encoded_is_decoded(
    relative: int, time: int, key: bytes | None, value: bytes | None, headers: Headers, salt: int
) -> None:
    packed = encode_headers(headers)
    parts, checksum, length = NATIVE.encode(relative, time, key, value, packed, salt)
    data = b"before" + b"".join(parts) + b"after"
    record, found, size = NATIVE.decode(data, 6, len(data), 1000, salt)
    assert record == Record(1000 + relative, time, key, value, headers)
    assert (found, size) == (checksum, length)
    assert size == record_length(key, packed, value) == NATIVE.length_at(data, 6)


@given(KEYS, st.binary(max_size=80), HEADERS)
def test_a_streamed_record_has_the_same_bytes(key: bytes | None, value: bytes, headers: Headers) -> None:
    head, checksum = seal_head(3, -9, key, encode_headers(headers), len(value), xxh64_intdigest(value), SALT)
    assert head + value == encoded(key, value, headers)
    assert checksum == struct.unpack_from("<Q", head)[0]


# --- refusals -----------------------------------------------------------------------------------------------------

SAMPLES = [
    encoded(b"key", b"value", (("name", b"v"), ("null", None))),
    encoded(None, None),
    encoded(b"", b""),
    encoded(b"k", None, (("h", b""),)),
]


@pytest.mark.parametrize("data", SAMPLES)
def test_every_flipped_bit_is_refused(data: bytes) -> None:
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with pytest.raises(InvalidRecord):
            decoded(bytes(damaged) + bytes(64))


@pytest.mark.parametrize("data", SAMPLES)
def test_every_cut_is_refused(data: bytes) -> None:
    for length in range(len(data)):
        with pytest.raises(InvalidRecord):
            decoded(data[:length])
        with pytest.raises(InvalidRecord):  # bytes after `end` are not read, even if they exist
            NATIVE.decode(data, 0, length, 0, SALT)


@pytest.mark.parametrize("length", [0, 1, 31, 32, 64, 4096])
def test_zeros_are_never_a_record(length: int) -> None:
    for salt in (0, SALT):
        with pytest.raises(InvalidRecord):
            decoded(bytes(length), salt=salt)


def test_a_record_of_another_file_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="checksum"):
        decoded(encoded(b"key", b"value"), salt=SALT + 1)


@pytest.mark.parametrize("value_len", [NULL - 1, 2**31, 6])
def test_a_length_beyond_the_data_is_refused_without_reading_there(value_len: int) -> None:
    with pytest.raises(InvalidRecord, match="lengths"):
        decoded(written(3, b"key", b"", value_len, b"value"))


@pytest.mark.parametrize("key_len", [4, 2**31, NULL - 1])
def test_a_key_that_passes_its_metadata_is_refused(key_len: int) -> None:
    with pytest.raises(InvalidRecord, match="lengths"):
        decoded(written(key_len, b"key", b"", 5, b"value"))


@given(st.just(NULL) | st.integers(0, 40), st.binary(max_size=40), st.binary(max_size=10))
def test_with_a_true_checksum_only_the_form_can_tell(key_len: int, metadata: bytes, value: bytes) -> None:
    """Key and headers are arbitrary bytes: a record that encodes to the same bytes, or the one error."""
    data = written(key_len, b"", metadata, len(value), value)
    try:
        record = decoded(data)
    except InvalidRecord:
        return
    assert encoded(record.key, record.value, record.headers) == data


@given(st.binary(max_size=40))
def test_a_length_is_claimed_or_refused(data: bytes) -> None:
    try:
        claimed = NATIVE.length_at(data, 0)
    except InvalidRecord:
        return
    assert claimed >= HEAD_BYTES


def test_headers_must_fill_their_place_exactly() -> None:
    packed = encode_headers((("a", b"b"), ("c", None)))
    assert decode_headers(packed, 0, len(packed)) == (("a", b"b"), ("c", None))
    for end in range(1, len(packed)):
        if end == len(encode_headers((("a", b"b"),))):
            continue
        with pytest.raises(InvalidRecord):
            decode_headers(packed[:end], 0, end)


def test_a_header_name_of_65535_bytes_is_the_longest() -> None:
    name = "n" * 65535
    packed = encode_headers(((name, b""),))
    assert decode_headers(packed, 0, len(packed)) == ((name, b""),)
    with pytest.raises(InvalidArgument, match="65535"):
        encode_headers(((name + "n", b""),))
    with pytest.raises(InvalidArgument, match="65535"):
        encode_headers((("é" * 32768, b""),))


def test_a_header_name_that_is_no_unicode_is_refused_with_our_error() -> None:
    with pytest.raises(InvalidArgument, match="UTF-8"):
        encode_headers((("\ud800", b""),))
