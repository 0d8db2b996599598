"""The files of laminarmq 0.0.5: only read, never written.

    <base>.store   records end to end, <base> decimal without leading zeros:
         0 metadata_len u32 | metadata | value
           metadata: the user's own (bincode; often nothing) | 01 | offset u32 or u64, as wide as laminarmq's index type
    <base>.index
         0 base offset u64 | 8 padding u64 (0)                     nothing at all while the segment is empty
        16 entries, entry i = base offset + i:
           0 checksum u64: CRC-32 of the record's bytes, metadata_len first | 8 length u32 | 12 position u32

Integers are little-endian. Framing and checksums are only in the index. The offset is in the record as well, so an
entry that points to another record is detected. A length is never 0.

After a truncate to the base of a segment, laminarmq writes the base a second time, in place of entry 0. The records
after it have offset = base + i - 1 until the segment rolls or the log is opened again; from then on it counts the
second base as a record, skips one offset and continues with base + i.
"""

from __future__ import annotations

import re
import struct
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np

from seglog.config import MAX_OFFSET
from seglog.format.codec import InvalidRecord

STORE, INDEX = "store", "index"
BASE_BYTES = 16
ENTRY = np.dtype([("checksum", "<u8"), ("length", "<u4"), ("position", "<u4")])

Entries = np.ndarray[Any, Any]

_SEGMENT_FILE = re.compile(r"(0|[1-9][0-9]{0,18})\.(store|index)")
_BASE = struct.Struct("<Q")
_METADATA_LEN = struct.Struct("<I")
_OFFSETS = (struct.Struct("<BI"), struct.Struct("<BQ"))
_SOME = 1


class SegmentFile(NamedTuple):
    """The parts of a file's name."""

    base_offset: int
    kind: str


class Index(NamedTuple):
    """The content of an index. entries: array of ENTRY, without a second base; repeated: whether there was one.

    cut_bytes: bytes at its end that are no entry: a part of one, or zeros that were never written.
    """

    entries: Entries
    repeated: bool
    cut_bytes: int


def segment_file(base_offset: int, kind: str) -> str:
    """Return `<base>.<kind>`."""
    return f"{base_offset}.{kind}"


def parse_segment_file(name: str) -> SegmentFile | None:
    """Return the parts of a file's name; None for a name that laminarmq does not use."""
    match = _SEGMENT_FILE.fullmatch(name)
    if match is None or int(match[1]) > MAX_OFFSET:
        return None
    return SegmentFile(int(match[1]), match[2])


def decode_index(data: bytes, base_offset: int) -> Index:
    """Return the content of an index; InvalidRecord if its base differs from that of its name."""
    if len(data) < BASE_BYTES:
        return Index(np.empty(0, ENTRY), False, len(data))
    (base,) = _BASE.unpack_from(data)
    if base != base_offset:
        raise InvalidRecord(f"the index begins with base {base}, which is not that of its name")
    entries = np.frombuffer(data, ENTRY, (len(data) - BASE_BYTES) // ENTRY.itemsize, BASE_BYTES)
    repeated = bool(entries.size) and tuple(entries[0].tolist()) == (base_offset, 0, 0)
    entries = entries[1:] if repeated else entries
    written = entries.size
    while written and entries[written - 1].tobytes() == bytes(ENTRY.itemsize):
        written -= 1
    kept = BASE_BYTES + (written + repeated) * ENTRY.itemsize
    return Index(entries[:written], repeated, len(data) - kept)


def split_record(data: bytes, offset: int) -> tuple[bytes, bytes]:
    """Return the user's metadata and the value of a record, without checking its checksum.

    InvalidRecord if the lengths contradict one another, or the record contains another offset.
    """
    if len(data) < _METADATA_LEN.size:
        raise InvalidRecord("it is too short for a record")
    end = _METADATA_LEN.size + _METADATA_LEN.unpack_from(data)[0]
    if end > len(data):
        raise InvalidRecord("its metadata is longer than the record")
    for layout in _OFFSETS:  # no bytes match both: the offset would be 0 and one of its bytes 1
        start = end - layout.size
        if start >= _METADATA_LEN.size and layout.unpack_from(data, start) == (_SOME, offset):
            return data[_METADATA_LEN.size : start], data[end:]
    raise InvalidRecord("it contains another offset")


def decode_record(data: bytes, checksum: int, offset: int) -> tuple[bytes, bytes]:
    """Return the user's metadata and the value of a record; InvalidRecord if the checksum or the offset differs."""
    if crc32(data) != checksum:
        raise InvalidRecord("its CRC-32 is not the one in the index")
    return split_record(data, offset)
