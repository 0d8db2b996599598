"""What a Kafka client sends as a record batch: rows that a log takes and sends again unchanged, or a refusal."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
from crc32c import crc32c

import seglog
from seglog.errors import InvalidArgument
from seglog.kafka.records.decode import decode, head_of
from seglog.kafka.records.faults import BadBatch
from seglog.kafka.records.layout import HEAD_BYTES
from tests.fuzz.choices import Choices, mangled
from tests.kafka.encoding import encoded

if TYPE_CHECKING:
    from collections.abc import Iterator

MOST = 100_000
NOW = 5000  # whole milliseconds, which are all that a batch has
CODECS = ("gzip", "snappy", "lz4", "zstd")


def _batch() -> bytes:
    log = seglog.open(seglog.MemoryStorage())
    for number in range(4):
        headers = [("a", b"1"), ("b", None)] if number % 2 else []
        log.append(None if number == 3 else b"v" * number, key=b"k", timestamp=number * 5000, headers=headers)
    return bytes(encoded(log)[0])


BATCH = _batch()


def seeds() -> Iterator[bytes]:
    yield b""
    for codec in range(5):
        for number in range(8):
            yield bytes([codec, 1, 0, number * 9, number, 1, 2, 3, 4, 5, 6, 7, 8])


def target(data: bytes) -> None:
    choices = Choices(data)
    codec = choices.below(5)
    head, records = bytearray(BATCH[:HEAD_BYTES]), BATCH[HEAD_BYTES:]
    if choices.flag():
        records = mangled(records, choices)
    if codec:
        records = bytes(pa.compress(records, codec=CODECS[codec - 1]))
        head[22] = codec
    batch = bytearray(mangled(bytes(head) + records, choices) if choices.flag() else bytes(head) + records)
    if len(batch) > HEAD_BYTES and choices.below(4):
        batch[8:12] = struct.pack(">i", len(batch) - 12)
        batch[17:21] = struct.pack(">I", crc32c(bytes(batch[21:])))
    try:
        whole = memoryview(batch)
        records = decode(whole, head_of(whole), now=NOW, most=MOST)
        rows = records.arrow
    except BadBatch:
        return
    with seglog.open(seglog.MemoryStorage()) as log:
        try:
            log.append_batch(rows)
        except InvalidArgument:  # the name of a header that is not UTF-8
            return
        again = [decode(part, head_of(part), now=NOW, most=10**9).arrow for part in encoded(log)]
        assert [one.to_pylist() for one in again] == [rows.to_pylist()]
