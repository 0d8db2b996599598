"""A producer's record batch -> Arrow, with the columns that a topic accepts, without copying the data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from seglog.arrow.heads import head_bytes, most_headers
from seglog.kafka.records.compression import decompressed
from seglog.kafka.records.faults import BadBatch, DamagedBatch, OldFormat
from seglog.kafka.records.layout import (
    CHECKED_FROM,
    CODEC_BITS,
    CONTROL,
    HEAD,
    HEAD_BYTES,
    LENGTH_FROM,
    MAGIC,
    MAGIC_AT,
    Head,
)
from seglog.kernels.record_batches import FAULTS, LEAST_BYTES, locate_record_headers, locate_records
from seglog.kernels.scan import as_bytes

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string_view()), pa.field("value", pa.binary_view())]))
Array = np.ndarray[Any, Any]


def head_of(data: memoryview) -> Head:
    """Return the head of the only batch in `data`, whose checksum is verified.

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
    return head


def decode(data: memoryview, head: Head, *, now: int, most: int) -> pa.RecordBatch:
    """Return the records of a batch: columns timestamp (us), key, value and, if there are any, headers.

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
        return _records(decompressed(codec, data[HEAD_BYTES:], most), 0, head, now)
    return _records(data, HEAD_BYTES, head, now)


def check_heads(records: pa.RecordBatch, headers: int, size: int) -> None:
    """Check decoded records as HTTP does: answers in JSON show keys and headers whole.

    Args:
        records: The records.
        headers: How many a record may have.
        size: Bytes that a record's key and headers may have together.

    Raises:
        BadBatch: A record has more.
    """
    has_headers = "headers" in records.schema.names
    if not has_headers and records.column("key").null_count == len(records):
        return
    count = most_headers(records.column("headers")) if has_headers else 0
    if count > headers:
        raise BadBatch(f"a record has {count} headers; it may have {headers}")
    longest = int(head_bytes(records).max(initial=0))
    if longest > size:
        raise BadBatch(f"a record's key and headers have {longest} bytes; they may have {size}")


def _records(buffer: Any, position: int, head: Head, now: int) -> pa.RecordBatch:
    source, rows = as_bytes(buffer), head.records
    if rows > (source.size - position) // LEAST_BYTES:
        raise BadBatch(f"{rows} records cannot fit in {source.size - position} bytes")
    timestamps, items = np.empty(rows, np.int64), np.empty((rows, 2), np.int64)
    keys, values = _views(rows), _views(rows)
    times = (head.first_timestamp, now)
    fault, row, headers = locate_records(source, position, times, timestamps, keys, values, items)
    if fault:
        raise BadBatch(f"record {row} of a batch: {FAULTS[fault]}")
    data = pa.py_buffer(buffer)
    columns = {
        "timestamp": pa.array(timestamps),
        "key": _column(pa.binary_view(), *keys, data),
        "value": _column(pa.binary_view(), *values, data),
    }
    if headers:
        columns["headers"] = _headers(source, items, headers, data)
    return pa.RecordBatch.from_pydict(columns)


def _views(rows: int) -> tuple[Array, Array]:
    return np.empty((rows, 2), np.uint64), np.empty(rows, np.uint8)


def _column(kind: pa.DataType, views: Array, valid: Array, data: pa.Buffer) -> pa.Array:
    rows = len(views)
    nulls = rows - int(np.count_nonzero(valid))
    bits = None if nulls == 0 else pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(views), data], nulls)


def _headers(source: Array, items: Array, count: int, data: pa.Buffer) -> pa.Array:
    offsets, keys, values = np.empty(len(items) + 1, np.int32), _views(count), _views(count)
    locate_record_headers(source, items, offsets, keys[0], values)
    keys[1][:] = 1
    pairs = [_column(pa.string_view(), *keys, data), _column(pa.binary_view(), *values, data)]
    children = pa.StructArray.from_arrays(pairs, fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, len(items), [None, pa.py_buffer(offsets)], 0, children=[children])
