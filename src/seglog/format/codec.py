"""The record codec: the layout of one record's metadata, value and checksum in a store. No I/O.

     0 checksum     u64   XXH64(bytes 8 .. 12+metadata_len, seed = salt XOR XXH64(value, 0))
     8 metadata_len u32   20 + key + headers
    12 value_len    u32   0xFFFFFFFF: null value (a tombstone)
    16 offset       u32   relative to the segment's base offset
    20 key_len      u32   0xFFFFFFFF: no key
    24 timestamp    i64   us since the epoch, UTC
    32 key | headers | value              length of a record = 12 + metadata_len + value_len

Headers: repeated `key_len u16 | key (UTF-8) | value_len u32 (0xFFFFFFFF: null) | value`, filling metadata_len.
The layout `metadata_len | metadata | value` comes from laminarmq (its blog, "Store"). docs/format.md explains why the
checksum comes first and covers everything.
"""

from __future__ import annotations

import struct
from typing import NamedTuple, Protocol

from xxhash import xxh64_intdigest

from seglog.errors import InvalidArgument
from seglog.record import Headers, Record

HEAD_BYTES = 32
METADATA_FIXED = 20
NULL = 0xFFFF_FFFF
ZERO_HEAD = bytes(HEAD_BYTES)

_HEAD = struct.Struct("<QIIIIq")
_BODY = struct.Struct("<IIIIq")
_CHECKSUM = struct.Struct("<Q")
_LENGTHS = struct.Struct("<II")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")


class InvalidRecord(Exception):
    """The bytes at a position are not a valid record; the message gives the reason."""


Framed = tuple[Record, int, int]
"""A record, its checksum and its length in bytes. Plain tuples here and below, because one is made for every record."""

Encoded = tuple[tuple[bytes, bytes], int, int]
"""The bytes before the value, and the value; the checksum; the length of both in bytes."""


class RecordCodec(Protocol):
    """One record layout. An implementation is stateless; `salt` is the store's identity (0 if it has none).

    Obligations: `decode` accepts exactly the bytes that `encode` made with the same salt, and raises InvalidRecord for
    anything else. It reads nothing outside of `data[start:end]`, and raises no other error for invalid bytes.
    """

    header_bytes: int  # bytes in a store before its first record
    head_bytes: int  # minimum that `length_at` needs

    def encode(
        self, relative: int, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes, salt: int
    ) -> Encoded:
        """Encode one record."""
        ...

    def length_at(self, data: bytes, start: int) -> int:
        """Return the length in bytes in the head of the record at `start`; InvalidRecord if it is impossible."""
        ...

    def decode(self, data: bytes, start: int, end: int, base_offset: int, salt: int) -> Framed:
        """Return the valid record that starts at `start` and ends at or before `end`."""
        ...


def encode_headers(headers: Headers) -> bytes:
    """Return the headers' bytes. InvalidArgument for a key that cannot be UTF-8 or exceeds 65,535 bytes."""
    pieces = []
    for name, value in headers:
        try:
            encoded = name.encode()
        except UnicodeEncodeError as error:
            raise InvalidArgument(f"a header's key cannot be encoded as UTF-8: {name!r}") from error
        if len(encoded) > 0xFFFF:
            raise InvalidArgument(f"a header's key has {len(encoded)} bytes; the maximum is 65535")
        pieces += [
            _U16.pack(len(encoded)),
            encoded,
            _U32.pack(NULL if value is None else len(value)),
            value or b"",
        ]
    return b"".join(pieces)


def decode_headers(data: bytes, start: int, end: int) -> Headers:
    """Return the headers in `data[start:end]`; InvalidRecord unless they fill it exactly."""
    headers: list[tuple[str, bytes | None]] = []
    try:
        while start < end:
            (name_len,) = _U16.unpack_from(data, start)
            name = data[start + 2 : start + 2 + name_len].decode()
            start += 2 + name_len
            (value_len,) = _U32.unpack_from(data, start)
            start += 4
            value = None if value_len == NULL else data[start : start + value_len]
            start += 0 if value is None else value_len
            headers.append((name, value))
    except (struct.error, UnicodeDecodeError) as error:
        raise InvalidRecord("its headers are malformed") from error
    if start != end:
        raise InvalidRecord("its headers do not fill the metadata")
    return tuple(headers)


def seal_head(
    relative: int,
    timestamp: int,
    key: bytes | None,
    headers: bytes,
    value_len: int,
    value_hash: int,
    salt: int,
) -> tuple[bytes, int]:
    """Return the bytes before the value, and the checksum. Ends a streamed append, whose value is written first."""
    if key is None:
        body = _BODY.pack(METADATA_FIXED + len(headers), value_len, relative, NULL, timestamp) + headers
    else:
        key_len = len(key)
        metadata_len = METADATA_FIXED + key_len + len(headers)
        body = _BODY.pack(metadata_len, value_len, relative, key_len, timestamp) + key + headers
    checksum = xxh64_intdigest(body, salt ^ value_hash)
    return _CHECKSUM.pack(checksum) + body, checksum


class Head(NamedTuple):
    """The bytes before a value. record: with an empty value or None; value_bytes: size of the value that follows."""

    record: Record
    value_bytes: int
    checksum: int
    sealed: bytes  # covered by the checksum, together with the value

    def is_sealed(self, value_hash: int, salt: int) -> bool:
        """Whether the checksum matches a value with this hash."""
        return self.checksum == xxh64_intdigest(self.sealed, salt ^ value_hash)


def decode_head(data: bytes, base_offset: int) -> Head:
    """Decode exactly the bytes before a value; InvalidRecord if they cannot be that."""
    checksum, metadata_len, value_len, relative, key_len, timestamp = _HEAD.unpack_from(data)
    headers_start = HEAD_BYTES + (0 if key_len == NULL else key_len)
    if len(data) != 12 + metadata_len or headers_start > len(data):
        raise InvalidRecord("its lengths do not fit")
    headers = decode_headers(data, headers_start, len(data))
    key = None if key_len == NULL else data[HEAD_BYTES:headers_start]
    record = Record(base_offset + relative, timestamp, key, None if value_len == NULL else b"", headers)
    return Head(record, 0 if value_len == NULL else value_len, checksum, data[8:])


def record_length(key: bytes | None, headers: bytes, value: bytes | None) -> int:
    """Return the size of a record in a store."""
    return HEAD_BYTES + len(key or b"") + len(headers) + len(value or b"")


_HASH_OF_NOTHING = xxh64_intdigest(b"")
_made = tuple.__new__  # makes a named tuple from its fields in half the time of its class


class NativeCodec:
    """seglog's own layout, format version 1."""

    header_bytes = 64
    head_bytes = HEAD_BYTES

    def encode(
        self, relative: int, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes, salt: int
    ) -> Encoded:
        """Encode one record."""
        if value is None:
            head, checksum = seal_head(relative, timestamp, key, headers, NULL, _HASH_OF_NOTHING, salt)
            return (head, b""), checksum, len(head)
        length = len(value)
        head, checksum = seal_head(relative, timestamp, key, headers, length, xxh64_intdigest(value), salt)
        return (head, value), checksum, len(head) + length

    def length_at(self, data: bytes, start: int) -> int:
        """Return the length in bytes in the head of the record at `start`; InvalidRecord if it is impossible."""
        if len(data) - start < HEAD_BYTES:
            raise InvalidRecord("its head is cut short")
        metadata_len, value_len = _LENGTHS.unpack_from(data, start + 8)
        if metadata_len < METADATA_FIXED:
            raise InvalidRecord("its metadata length is impossible")
        return 12 + int(metadata_len) + (0 if value_len == NULL else int(value_len))

    def decode(self, data: bytes, start: int, end: int, base_offset: int, salt: int) -> Framed:
        """Return the valid record that starts at `start` and ends at or before `end`."""
        if end - start < HEAD_BYTES:
            raise InvalidRecord("its head is cut short")
        checksum, metadata_len, value_len, relative, key_len, timestamp = _HEAD.unpack_from(data, start)
        value_start = start + 12 + metadata_len
        value_end = value_start if value_len == NULL else value_start + value_len
        headers_start = start + HEAD_BYTES + (0 if key_len == NULL else key_len)
        if value_end > end or headers_start > value_start:
            raise InvalidRecord("its lengths do not fit")
        value = data[value_start:value_end]
        if checksum != xxh64_intdigest(data[start + 8 : value_start], salt ^ xxh64_intdigest(value)):
            raise InvalidRecord("its checksum does not match")
        headers = decode_headers(data, headers_start, value_start) if headers_start < value_start else ()
        key = None if key_len == NULL else data[start + HEAD_BYTES : headers_start]
        fields = (base_offset + relative, timestamp, key, None if value_len == NULL else value, headers)
        return _made(Record, fields), checksum, value_end - start


NATIVE = NativeCodec()


class Rules(NamedTuple):
    """What a record of a store must satisfy besides its own checksum."""

    base_offset: int
    salt: int
    dense: bool
    codec: RecordCodec = NATIVE
