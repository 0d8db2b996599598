"""Read one long record: verified like any other, without keeping more of its value than requested.

The caller provides its position and length.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from xxhash import xxh64

from seglog.format.codec import HEAD_BYTES, Framed, Head, InvalidRecord, Rules, decode_head
from seglog.record import Cut

if TYPE_CHECKING:
    from seglog.storage import File

LONG_BYTES = 1024 * 1024
"""Up to this size a record is read at once."""
PIECE = 1024 * 1024

_METADATA_LENGTH = struct.Struct("<I")


def read_long(store: File, rules: Rules, *, position: int, length: int, keep: int | None) -> Framed:
    """Return the record of `length` bytes at `position`, with the result and errors of a codec's `decode`.

    keep: maximum bytes of the value to return, as a `Cut` if it has more; None: all. All of it is read and hashed.
    """
    head = _head(store, rules, position, length)
    value_start = position + length - head.value_bytes
    if keep is None or keep >= head.value_bytes:
        value = _exactly(store, head.value_bytes, value_start)
        value_hash = _hash(memoryview(value)[at : at + PIECE] for at in range(0, len(value), PIECE))
    else:
        value = Cut(_exactly(store, keep, value_start), head.value_bytes)
        ends = value_start + head.value_bytes
        value_hash = _hash(_exactly(store, min(PIECE, ends - at), at) for at in range(value_start, ends, PIECE))
    if not head.is_sealed(value_hash, rules.salt):
        raise InvalidRecord("its checksum does not match")
    record = head.record if head.record.value is None else head.record._replace(value=value)
    return record, head.checksum, length


def value_pieces(store: File, rules: Rules, *, position: int, length: int, offset: int) -> Iterator[bytes]:
    """Yield the value of the record of `length` bytes at `position` in pieces of up to 1 MiB.

    InvalidRecord, in place of the last piece, where its checksum does not match, or where another record is there.
    """
    head = _head(store, rules, position, length)
    if head.record.offset != offset:
        raise InvalidRecord("it has another offset")
    hashed, end = xxh64(), position + length
    for at in range(end - head.value_bytes, end, PIECE):
        piece = _exactly(store, min(PIECE, end - at), at)
        hashed.update(piece)
        if at + len(piece) == end and not head.is_sealed(hashed.intdigest(), rules.salt):
            raise InvalidRecord("its checksum does not match")
        yield piece


def _head(store: File, rules: Rules, position: int, length: int) -> Head:
    start = _exactly(store, min(HEAD_BYTES, length), position)
    if rules.codec.length_at(start, 0) != length:
        raise InvalidRecord("its lengths do not fit")
    before_value = 12 + _METADATA_LENGTH.unpack_from(start, 8)[0]
    return decode_head(_exactly(store, before_value, position), rules.base_offset)


def _exactly(store: File, length: int, position: int) -> bytes:
    data = store.pread(length, position)
    if len(data) < length:
        raise InvalidRecord("it is cut short")
    return data


def _hash(pieces: Iterable[bytes | memoryview]) -> int:
    hashed = xxh64()
    for piece in pieces:  # other threads run between two pieces
        hashed.update(piece)
    return hashed.intdigest()
