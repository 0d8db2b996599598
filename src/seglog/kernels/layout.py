"""The constants of the format that the kernels need (docs/format.md: store, dense and sparse index)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seglog.format import codec, index

HEAD_BYTES = codec.HEAD_BYTES
NULL = codec.NULL
CHECKED_FROM = 8  # the checksum covers the record from here to its value
FIXED_METADATA_BYTES = codec.METADATA_FIXED  # offset, key_len, timestamp
VALUE_BASE = 12  # a record is 12 + metadata_len + value_len long

GROUP = 32  # records that are processed together, see validate

# XXH64
P1 = np.uint64(0x9E3779B185EBCA87)
P2 = np.uint64(0xC2B2AE3D27D4EB4F)
P3 = np.uint64(0x165667B19E3779F9)
P4 = np.uint64(0x85EBCA77C2B2AE63)
P5 = np.uint64(0x27D4EB2F165667C5)
STRIPE_BYTES = 32

NO_TIMESTAMP = index.NO_TIMESTAMP
NO_LOW, NO_HIGH = 2**63 - 1, -(2**63)  # the bounds of an empty set of timestamps

ENTRY = np.dtype([("checksum", "<u8"), ("length", "<u4"), ("position", "<u4")])
MARK = np.dtype([("max_timestamp", "<i8"), ("offset", "<u4"), ("position", "<u4")])

# Why a record is not valid.
OK, SHORT, METADATA, BEYOND, CHECKSUM, HEADERS, OFFSET = 0, 1, 2, 3, 4, 5, 6
REASONS = (
    "",
    "fewer than 32 bytes are left",
    "metadata_len cannot hold the fixed fields and the key",
    "its length passes the end",
    "the checksum does not match",
    "the headers do not fill the metadata",
    "the offset does not follow the one before",
)


class MarksState(NamedTuple):
    """The state of a segment's marks, passed from call to call.

    interval: store bytes between marks. next_position: the first record that starts there or later gets the next mark.
    max_timestamp: the maximum timestamp of all records so far; NO_TIMESTAMP before the first.
    """

    interval: int
    next_position: int
    max_timestamp: int

    @classmethod
    def start(cls, interval: int) -> MarksState:
        """Return the state before a segment's first record."""
        return cls(interval, interval, NO_TIMESTAMP)


class Summary(NamedTuple):
    """Figures of a run of records: number of null values, and the bounds of the timestamps.

    Without records min_timestamp is 2^63 - 1 and max_timestamp -2^63.
    """

    tombstones: int
    min_timestamp: int
    max_timestamp: int
