"""A producer's record batch: its head is checked, its records are found, and decompressed if need be."""

from __future__ import annotations

from crc32c import crc32c

from seglog.kafka.records.compression import decompressed
from seglog.kafka.records.faults import BadBatch, DamagedBatch, OldFormat
from seglog.kafka.records.layout import (
    CHECKED_FROM,
    CODEC_BITS,
    CONTROL,
    HEAD,
    HEAD_BYTES,
    LENGTH_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    MAGIC_AT,
    Head,
)
from seglog.kafka.records.records import Records


def head_of(data: memoryview) -> Head:
    """Return the head of the only batch in `data`, whose checksum is verified; without a producer's LOG_APPEND_TIME.

    Raises:
        DamagedBatch: The bytes are not those of a complete batch.
        OldFormat: The records have an older format.
        BadBatch: There is more than one batch, or it is not a producer's.
    """
    if len(data) <= MAGIC_AT:
        raise DamagedBatch(f"{len(data)} bytes are no record batch")
    if data[MAGIC_AT] < MAGIC:
        raise OldFormat(f"records of format {data[MAGIC_AT]} are not accepted; use a client for Kafka 0.11 or later")
    if len(data) < HEAD_BYTES:
        raise DamagedBatch(f"{len(data)} bytes are no record batch")
    head = Head(*HEAD.unpack_from(data))
    if head.magic != MAGIC:
        raise BadBatch(f"a record batch has format {head.magic}; this server knows format {MAGIC}")
    if LENGTH_FROM + head.length != len(data):
        if HEAD_BYTES <= LENGTH_FROM + head.length < len(data):
            raise BadBatch("a request may have one record batch for each partition, and this one has more")
        raise DamagedBatch(f"a record batch has {len(data)} bytes, its length field is {head.length}")
    if crc32c(data[CHECKED_FROM:]) != head.checksum:
        raise DamagedBatch("the checksum of a record batch does not match")
    if head.attributes & CONTROL:
        raise BadBatch("only a broker writes control batches")
    if head.records < 1 or head.last_delta != head.records - 1:
        raise BadBatch(f"a record batch of {head.records} records ends with offset delta {head.last_delta}")
    if head.attributes & LOG_APPEND_TIME:  # only this server gives its time
        return head._replace(attributes=head.attributes & ~LOG_APPEND_TIME)
    return head


def decode(data: memoryview, head: Head, *, now: int, most: int) -> Records:
    """Return the records of a batch.

    Args:
        data: The batch.
        head: Its head, from `head_of`.
        now: Microseconds since the epoch, for records without a timestamp.
        most: The most bytes that its records may take.

    Raises:
        BadBatch: The records are not valid.
        TooLarge: They are larger.
    """
    codec = head.attributes & CODEC_BITS
    if codec:
        return Records(decompressed(codec, data[HEAD_BYTES:], most), 0, head, now)
    return Records(data, HEAD_BYTES, head, now)
