"""Decode a produced batch within the limits of the server, and the memory that this takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.clock import system_clock
from seglog.kafka.records.decode import decode
from seglog.kafka.records.faults import NoKeys
from seglog.kafka.records.layout import CODEC_BITS, Head

if TYPE_CHECKING:
    from seglog.kafka.records.records import Records
    from seglog.log.log import Log
    from seglog.server.settings import Limits

LEAST_HEADER_BYTES = 2
ROW_BYTES = 96  # of columns beside the data, also as Arrow
GROWTH = 4  # by which compressed data is assumed to grow


def decoded_bytes(data: memoryview, head: Head) -> int:
    """Return about how many bytes a decoded batch takes beside its data."""
    return head.records * ROW_BYTES + (len(data) * GROWTH if head.attributes & CODEC_BITS else 0)


def decoded(data: memoryview, head: Head, log: Log, most: int, limits: Limits) -> Records:
    """Return the records of a batch. most: bytes that they may take. Raises NoKeys for those that the log refuses."""
    records = decode(data, head, now=system_clock(), most=most)
    if head.attributes & CODEC_BITS or len(data) > min(limits.head_bytes, LEAST_HEADER_BYTES * limits.record_headers):
        records.check_heads(limits.record_headers, limits.head_bytes)
    if log.config.retention.needs_keys and len(keyless := records.keyless):
        raise NoKeys(keyless.tolist())
    return records
