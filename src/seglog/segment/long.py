"""Reading one long record: verified as every other, without holding more of its value than was asked for.

Knows where it stands and how long it is; finding it is the business of others.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from xxhash import xxh64

from seglog.format.codec import HEAD_BYTES, Framed, Head, InvalidRecord, decode_head
from seglog.record import Cut

if TYPE_CHECKING:
    from seglog.segment.scan import Rules
    from seglog.storage import File

LONG_BYTES = 1024 * 1024
"""A record up to here is read in one go."""
PIECE = 1024 * 1024

_METADATA_LENGTH = struct.Struct("<I")


def read_long(store: File, rules: Rules, *, position: int, length: int, keep: int | None) -> Framed:
    """Return the record of `length` bytes at `position`, as a codec's `decode`; InvalidRecord likewise.

    keep: bytes of the value to return, as a `Cut` where it has more; None: all of it. All of it is read and hashed.
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
    for piece in pieces:  # others run between two of them
        hashed.update(piece)
    return hashed.intdigest()
