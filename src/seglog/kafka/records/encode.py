"""A log's Arrow record batch -> Kafka's record batches, uncompressed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from seglog.arrow.columns import chunk_rows
from seglog.arrow.to_rows import header_items, header_pairs
from seglog.kafka.records.layout import (
    CHECKED_FROM,
    HEAD,
    HEAD_BYTES,
    LENGTH_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    MICROSECONDS,
    NO_PRODUCER,
    Head,
)
from seglog.kernels.record_batches import measure_records, write_records

MOST_DELTA = 2**31 - 1
NO_SPANS = (np.empty(0, np.int64), np.empty(0, np.int64))
NO_ITEMS = np.empty((0, 2), np.int64)
Array = np.ndarray[Any, Any]


def encode(records: pa.RecordBatch, leader_epoch: int, *, stamped: bool = False) -> Iterator[memoryview]:
    """Yield record batches that hold the records, in order: one, unless gaps make their offsets too far apart.

    Args:
        records: With the columns of `Log.batches`, not empty.
        leader_epoch: The epoch of the records.
        stamped: Whether timestamps are those of the server. Such a batch has one for all of its records, so that
            another batch begins where it changes.
    """
    offsets = records.column("offset").to_numpy()
    milliseconds = records.column("timestamp").cast(pa.int64()).to_numpy() // MICROSECONDS
    bounds = [*(np.flatnonzero(np.diff(milliseconds)) + 1).tolist(), len(offsets)] if stamped else [len(offsets)]
    start = 0
    for bound in bounds:
        while start < bound:
            stop = min(bound, int(np.searchsorted(offsets, offsets[start] + MOST_DELTA, side="right")))
            part = records.slice(start, stop - start)
            yield _encode(part, offsets[start:stop], milliseconds[start:stop], leader_epoch, stamped=stamped)
            start = stop


def next_offset_of(batch: memoryview) -> int:
    """Return the offset after the last record of a batch that `encode` made."""
    head = Head(*HEAD.unpack_from(batch))
    return head.base_offset + head.last_delta + 1


def _encode(
    records: pa.RecordBatch, offsets: Array, milliseconds: Array, leader_epoch: int, *, stamped: bool
) -> memoryview:
    keys, values = (chunk_rows(records.column(name), name)[:2] for name in ("key", "value"))
    items, header_keys, header_values = _header_spans(records.column("headers"))
    sizes = np.empty(len(offsets), np.int64)
    start = offsets.ctypes.data
    lengths = (header_keys[1], header_values[1])
    total = measure_records(start, milliseconds, keys, values, items, lengths, sizes)
    out = np.empty(HEAD_BYTES + total, np.uint8)
    write_records(start, milliseconds, keys, values, items, header_keys, header_values, sizes, out[HEAD_BYTES:])
    first, last, count = int(offsets[0]), int(offsets[-1]), len(offsets)
    times = int(milliseconds[0]), int(milliseconds.max())
    attributes = LOG_APPEND_TIME if stamped else 0
    head = [first, len(out) - LENGTH_FROM, leader_epoch, MAGIC, 0, attributes, last - first, *times]
    head += [NO_PRODUCER, NO_PRODUCER, NO_PRODUCER, count]
    data = memoryview(out)  # type: ignore[arg-type] # numpy's arrays have buffers
    HEAD.pack_into(data, 0, *head)
    head[4] = crc32c(data[CHECKED_FROM:])
    HEAD.pack_into(data, 0, *head)
    return data


def _header_spans(headers: pa.Array) -> tuple[Array, Any, Any]:
    """Return which headers each row has, and all keys and values; nothing at all if no row has any."""
    if not len(headers.values):
        return NO_ITEMS, NO_SPANS, NO_SPANS
    keys, values = header_pairs(headers)
    return header_items(headers, len(keys.lengths)), keys[:2], values[:2]
