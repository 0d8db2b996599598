"""The head of a record batch in format 2: 61 bytes, big-endian; the checksum covers what follows it."""

from __future__ import annotations

import struct
from typing import NamedTuple

HEAD = struct.Struct(">qiibIhiqqqhii")
HEAD_BYTES = HEAD.size
LENGTH_FROM = 12  # `length` counts the bytes from here
CHECKED_FROM = 21
CHECKSUM_AT = 17
MAGIC_AT = 16
MAGIC = 2
CODEC_BITS = 0x07
LOG_APPEND_TIME, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
NO_PRODUCER = -1
MICROSECONDS = 1000  # of a millisecond


class Head(NamedTuple):
    """The fields in order. last_delta: of the last record's offset; sequence: of the first record, for its producer."""

    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    checksum: int
    attributes: int
    last_delta: int
    first_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    sequence: int
    records: int
