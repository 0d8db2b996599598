"""The records of a batch, where its bytes are: as Arrow, or as rows for a log, without a copy of the data."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.encodable import EncodableRows, column_of
from seglog.arrow.heads import head_bytes, most_headers
from seglog.kafka.records.faults import BadBatch, BadTimes
from seglog.kafka.records.layout import LOG_APPEND_TIME, MICROSECONDS, Head
from seglog.kernels.record_batches import FAULTS, LEAST_BYTES, fill_views, locate_record_headers, locate_records
from seglog.kernels.rows import Cells, Column, Rows
from seglog.kernels.scan import as_bytes
from seglog.topic.idempotency.batches import digest_of_spans

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string_view()), pa.field("value", pa.binary_view())]))
NONE = np.zeros(1, np.int64)  # the length of the headers of a record without any
NO_HEADERS = Cells(0, 0, 0, Column(NONE.ctypes.data, 0), Column(NONE.ctypes.data, 0))
FIELDS, WORD_BYTES = 5, 8  # timestamp, and address and length of key and value
Array = np.ndarray[Any, Any]
Spans = tuple[Array, Array]


class Records:
    """The records of a batch. count: their number; headers: how many headers all of them have."""

    def __init__(self, buffer: Any, position: int, head: Head, now: int) -> None:
        """Find the records from byte `position` of `buffer` on.

        now: microseconds since the epoch, for records without a timestamp. Raises BadBatch if they are not valid.
        """
        self._source, self.count = as_bytes(buffer), head.records
        left = self._source.size - position
        if self.count > left // LEAST_BYTES:
            raise BadBatch(f"{self.count} records cannot fit in {left} bytes")
        self._fields = fields = np.empty((FIELDS, self.count), np.int64)  # one after another, for `to_rows`
        self._keys, self._values = (fields[1], fields[2]), (fields[3], fields[4])
        self._items, times = np.empty((self.count, 2), np.int64), (head.first_timestamp, now)
        fault, row, self.headers = locate_records(
            self._source, position, times, fields[0], self._keys, self._values, self._items
        )
        if fault:
            raise BadBatch(f"record {row} of a batch: {FAULTS[fault]}")
        if head.attributes & LOG_APPEND_TIME:
            fields[0] = head.max_timestamp * MICROSECONDS

    @property
    def keyless(self) -> Array:
        """The numbers of the records without a key."""
        return np.flatnonzero(self._keys[1] < 0)

    def check_times(self, lowest: int, highest: int) -> None:
        """Raise BadTimes if a record has a timestamp (us) below or above these."""
        times = self._fields[0]
        if times.min() < lowest or times.max() > highest:
            rows = np.flatnonzero((times < lowest) | (times > highest))
            raise BadTimes(rows.tolist(), int(times[rows[0]]), lowest, highest)

    def check_heads(self, headers: int, size: int) -> None:
        """Check the records as HTTP does: answers in JSON show keys and headers whole.

        Args:
            headers: How many a record may have.
            size: Bytes that a record's key and headers may have together.

        Raises:
            BadBatch: A record has more.
        """
        if not self.headers and self._source.size <= size:  # no key is longer than all records
            return
        count = most_headers(self.arrow.column("headers")) if self.headers else 0
        if count > headers:
            raise BadBatch(f"a record has {count} headers; it may have {headers}")
        longest = int((head_bytes(self.arrow) if self.headers else self._keys[1]).max())
        if longest > size:
            raise BadBatch(f"a record's key and headers have {longest} bytes; they may have {size}")

    def first(self) -> tuple[int, bytes | None, bytes | None]:
        """Return timestamp (us), key and value of the first record."""
        return int(self._fields[0, 0]), _bytes_of(self._keys), _bytes_of(self._values)

    @cached_property
    def arrow(self) -> pa.RecordBatch:
        """The records as Arrow: columns timestamp (us), key, value and, if there are any, headers."""
        data = pa.py_buffer(self._source)
        columns = {
            "timestamp": pa.array(self._fields[0]),
            "key": self._column(pa.binary_view(), self._keys, data),
            "value": self._column(pa.binary_view(), self._values, data),
        }
        if self.headers:
            columns["headers"] = self._headers(data)
        return pa.RecordBatch.from_pydict(columns)

    def _column(self, kind: pa.DataType, spans: Spans, data: pa.Buffer) -> pa.Array:
        rows = len(spans[0])
        views, valid = np.empty((rows, 2), np.uint64), np.empty(rows, np.uint8)
        fill_views(self._source, spans, views, valid)
        nulls = rows - int(np.count_nonzero(valid))
        bits = None if nulls == 0 else pa.py_buffer(np.packbits(valid, bitorder="little"))
        return pa.Array.from_buffers(kind, rows, [bits, pa.py_buffer(views), data], nulls)

    def _headers(self, data: pa.Buffer) -> pa.Array:
        offsets, fields = np.empty(self.count + 1, np.int32), np.empty((4, self.headers), np.int64)
        keys, values = (fields[0], fields[1]), (fields[2], fields[3])
        locate_record_headers(self._source, self._items, offsets, keys, values)
        pairs = [self._column(pa.string_view(), keys, data), self._column(pa.binary_view(), values, data)]
        children = pa.StructArray.from_arrays(pairs, fields=list(HEADERS_TYPE.value_type))
        return pa.Array.from_buffers(HEADERS_TYPE, self.count, [None, pa.py_buffer(offsets)], 0, children=[children])

    @property
    def digest(self) -> int:
        """The digest of the keys and values, with which a repeated batch is compared."""
        return digest_of_spans(self._keys, self._values)

    def to_rows(self, first_headers: bytes = b"") -> EncodableRows:
        """Return the records, which have no headers, as rows for a log. first_headers: what the first row gets."""
        start, step = self._fields.__array_interface__["data"][0], WORD_BYTES * self.count
        times, key_from, key_len, value_from, value_len = [
            Column(at, WORD_BYTES) for at in range(start, start + FIELDS * step, step)
        ]
        keys, values = Cells(0, 0, 0, key_from, key_len), Cells(0, 0, 0, value_from, value_len)
        headers, *owned = _only_first(first_headers, self.count) if first_headers else (NO_HEADERS,)
        owners = (self._fields, self._source, *owned)
        return EncodableRows(Rows(times, keys, headers, values), self.count, self._keys[1], owners)


def _only_first(headers: bytes, rows: int) -> tuple[Cells, Array, Array]:
    """Return headers of which only the first row has any, and the arrays that hold them."""
    data, spans = np.frombuffer(headers, np.uint8), np.zeros((2, rows), np.int64)
    spans[:, 0] = data.ctypes.data, data.size
    return Cells(0, 0, 0, column_of(spans[0]), column_of(spans[1])), data, spans


def _bytes_of(spans: Spans) -> bytes | None:
    """Return a copy of what the first row has."""
    address, length = int(spans[0][0]), int(spans[1][0])
    return None if length < 0 else ctypes.string_at(address, length)
