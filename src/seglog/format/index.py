"""The lookup files: dense `.index`, sparse `.offsets` and `.times`, `.blocks`. All are derived from a store. No I/O.

Dense:   0 base_offset u64 | 8 durable_records u32 | 12 check u32, then 16-byte entries, entry i = base_offset + i:
         checksum u64 | length u32 | position u32 (as in laminarmq, whose second word is padding).
         For an active segment with gaps only the header: durable_records counts offsets, gaps included.
Sparse: 16-byte header (magic 4 B, version u16, reserved u16, interval u32, entries u32), entries, XXH64 of it all,
         seeded with the store's salt, so that no other store's file is accepted (older files: seed 0):
         .offsets: relative offset u32 | position u32
         .times:   max timestamp before this record i64 | relative offset u32 | position u32
         .blocks:  of every block of a compressed store: check u64 | bytes after its head u32 | position in the file u32
                   (the interval is the block size)
An entry of the first two is for the first record that starts at or after each k * interval, k >= 1 (Kafka's proposal,
"Offset Change": an index need not contain an entry for every message).
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import NamedTuple

from xxhash import xxh64_intdigest

from seglog.config import MAX_STORE_BYTES
from seglog.format.codec import HEAD_BYTES
from seglog.format.store import HEADER_BYTES

DENSE_HEADER_BYTES = 16
DURABLE_MAX = 2**32 - 1
MAX_RECORDS = (MAX_STORE_BYTES - HEADER_BYTES) // HEAD_BYTES  # in one store
DENSE_ENTRY = struct.Struct("<QII")
ENTRY_BYTES = DENSE_ENTRY.size
MARK = struct.Struct("<qII")
OFFSETS_MAGIC = b"SLOF"
TIMES_MAGIC = b"SLTM"
BLOCKS_MAGIC = b"SLBK"
NO_TIMESTAMP = -(2**63)

_DENSE_HEADER = struct.Struct("<QII")
_DURABLE = struct.Struct("<QIQ")
_SPARSE_HEADER = struct.Struct("<4sHHII")
_OFFSET_ENTRY = struct.Struct("<II")
_CHECK = struct.Struct("<Q")
_VERSION = 1


class Mark(NamedTuple):
    """One entry of a sparse lookup: the maximum timestamp before a record, its relative offset, its position."""

    max_timestamp_before: int
    relative: int
    position: int


class BlockPlace(NamedTuple):
    """One entry of `.blocks`: the block's check, the bytes after its head, the position of its head in the file."""

    check: int
    stored_len: int
    position: int


def _durable_check(base_offset: int, records: int, salt: int) -> int:
    return xxh64_intdigest(_DURABLE.pack(base_offset, records, salt)) & 0xFFFF_FFFF


def encode_dense_header(base_offset: int, durable_records: int, salt: int) -> bytes:
    """Return the 16-byte header with the number of offsets, up to DURABLE_MAX, known to be on the disk."""
    return _DENSE_HEADER.pack(base_offset, durable_records, _durable_check(base_offset, durable_records, salt))


def decode_durable_records(data: bytes, base_offset: int, salt: int, *, dense: bool = False) -> int | None:
    """Return the durable record count of a dense header; None if the header does not verify.

    dense: whether the offsets have no gaps; then a count beyond the capacity of a store is also invalid.
    """
    if len(data) < DENSE_HEADER_BYTES:
        return None
    base, records, check = _DENSE_HEADER.unpack_from(data)
    if base != base_offset or check != _durable_check(base, records, salt) or (dense and records > MAX_RECORDS):
        return None
    return int(records)


def entry_position(number: int) -> int:
    """Return the position in a dense index of entry `number`."""
    return DENSE_HEADER_BYTES + ENTRY_BYTES * number


def encode_times(marks: bytes, interval: int, salt: int = 0) -> bytes:
    """Return a `.times` file of packed marks, bound to the store of this salt."""
    return _encode_sparse(TIMES_MAGIC, interval, len(marks) // MARK.size, marks, salt)


def encode_offsets(marks: bytes, interval: int, salt: int = 0) -> bytes:
    """Return an `.offsets` file of the same packed marks, bound to the store of this salt."""
    entries = memoryview(marks).cast("Q")[1::2].tobytes()  # relative offset and position of each: its second 8 bytes
    return _encode_sparse(OFFSETS_MAGIC, interval, len(marks) // MARK.size, entries, salt)


def _encode_sparse(magic: bytes, interval: int, count: int, entries: bytes, salt: int) -> bytes:
    body = _SPARSE_HEADER.pack(magic, _VERSION, 0, interval, count) + entries
    return body + _CHECK.pack(xxh64_intdigest(body, salt))


def decode_times(data: bytes, salt: int = 0) -> list[Mark] | None:
    """Return the marks of a `.times` file; None if it is damaged or of another store."""
    entries = _decode_sparse(data, TIMES_MAGIC, MARK.size, salt)
    return None if entries is None else unpack_marks(entries)


def decode_offsets(data: bytes, salt: int = 0) -> list[tuple[int, int]] | None:
    """Return the (relative offset, position) pairs of an `.offsets` file; None if it is damaged or of another store."""
    entries = _decode_sparse(data, OFFSETS_MAGIC, _OFFSET_ENTRY.size, salt)
    return None if entries is None else list(_OFFSET_ENTRY.iter_unpack(entries))


def encode_blocks(places: Sequence[BlockPlace], size: int, salt: int) -> bytes:
    """Return a `.blocks` file of all blocks of a compressed store. size: of a block, in bytes."""
    entries = b"".join([DENSE_ENTRY.pack(*place) for place in places])
    return _encode_sparse(BLOCKS_MAGIC, size, len(places), entries, salt)


def decode_blocks(data: bytes, salt: int) -> tuple[int, list[BlockPlace]] | None:
    """Return the block size and the places of a `.blocks` file; None if it is damaged or of another store."""
    entries = _decode_sparse(data, BLOCKS_MAGIC, DENSE_ENTRY.size, salt)
    if entries is None:
        return None
    interval: int = _SPARSE_HEADER.unpack_from(data)[3]
    return interval, list(map(BlockPlace._make, DENSE_ENTRY.iter_unpack(entries)))


def _decode_sparse(data: bytes, magic: bytes, size: int, salt: int) -> bytes | None:
    if len(data) < _SPARSE_HEADER.size + _CHECK.size:
        return None
    found, version, _reserved, _interval, count = _SPARSE_HEADER.unpack_from(data)
    body = data[: -_CHECK.size]
    if found != magic or version != _VERSION or len(body) != _SPARSE_HEADER.size + count * size:
        return None
    if _CHECK.unpack_from(data, len(body))[0] not in (xxh64_intdigest(body, salt), xxh64_intdigest(body)):
        return None
    return body[_SPARSE_HEADER.size :]


def is_bound(data: bytes, salt: int) -> bool:
    """Whether a sparse lookup file is complete and belongs to the store with this salt."""
    body = data[: -_CHECK.size]
    return len(body) >= _SPARSE_HEADER.size and data[-_CHECK.size :] == _CHECK.pack(xxh64_intdigest(body, salt))


def unpack_marks(marks: bytes | bytearray) -> list[Mark]:
    """Return packed marks as values."""
    return [Mark(*fields) for fields in MARK.iter_unpack(bytes(marks))]


class MarkBuilder:
    """Collects marks while records are added in order; the only code that decides which record gets a mark."""

    __slots__ = ("interval", "marks", "max_timestamp", "next_position")

    def __init__(self, interval: int) -> None:
        self.interval = interval
        self.next_position = interval
        self.max_timestamp = NO_TIMESTAMP
        self.marks = bytearray()

    def add(self, timestamp: int, relative: int, position: int) -> bool:
        """Add one record; return whether it got a mark."""
        marked = position >= self.next_position
        if marked:
            self.marks += MARK.pack(self.max_timestamp, relative, position)
            self.next_position = (position // self.interval + 1) * self.interval
        if timestamp > self.max_timestamp:  # noqa: PLR1730 - max() is a call, and this runs for every record
            self.max_timestamp = timestamp
        return marked

    @property
    def state(self) -> tuple[int, int]:
        """The state for a kernel: the next marked position and the maximum timestamp so far."""
        return self.next_position, self.max_timestamp

    def extend(self, marks: bytes, state: tuple[int, int]) -> None:
        """Add marks that a kernel made from `state` on, and set the state in which it ended."""
        self.marks += marks
        self.next_position, self.max_timestamp = state


def floor_mark(marks: Sequence[Mark], timestamp: int) -> Mark | None:
    """Return the last mark before which every record is older than `timestamp`; None for the segment's start."""
    low, high = 0, len(marks)
    while low < high:
        middle = (low + high) // 2
        if marks[middle].max_timestamp_before < timestamp:
            low = middle + 1
        else:
            high = middle
    return marks[low - 1] if low else None
