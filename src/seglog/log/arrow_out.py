"""Arrow out: the bytes of a store -> validated record batches, the data left where it is. Knows no log and no segment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from seglog.errors import CorruptRecord, InvalidArgument
from seglog.kernels.columns import gather, rows_from_views
from seglog.kernels.decode import MAX_VIEW, WIDE, Batch, Columns, Wanted, decode
from seglog.kernels.headers import locate_headers
from seglog.kernels.layout import OK, REASONS
from seglog.kernels.scan import as_bytes
from seglog.kernels.validate import Cursor

Values = Literal["view", "binary"]
DEFAULT_MAX_BYTES = 64 * 1024 * 1024

Array = np.ndarray[Any, Any]

HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def record_schema(values: Values = "view") -> pa.Schema:
    """The columns of a log: offset, timestamp, key, value, headers; keys and values as binary_view or binary."""
    if values not in ("view", "binary"):
        raise InvalidArgument(f'values is {values!r}; it must be "view" or "binary"')
    data = pa.binary_view() if values == "view" else pa.binary()
    return pa.schema(
        [
            pa.field("offset", pa.int64()),
            pa.field("timestamp", pa.timestamp("us", "UTC")),
            pa.field("key", data),
            pa.field("value", data),
            pa.field("headers", HEADERS_TYPE),
        ]
    )


class BatchDecoder(Iterator[pa.RecordBatch]):
    """Iterates over the validated record batches of a range of a store.

    position, next_relative: where the next record would start, and its least relative offset; they move on with every
    batch, so that a follower knows where to go on. reason: why no valid record is there, None at the end of the range.
    """

    def __init__(
        self,
        buffer: Any,
        *,
        path: str,
        salt: int,
        base_offset: int,
        relative: int,
        position: int,
        end: int,
        dense: bool,
        max_records: int,
        max_bytes: int,
        values: Values,
        tail: bool,
        first: int,
        stop: int,
    ) -> None:
        self._schema = record_schema(values)
        self._source = as_bytes(buffer)
        self._buffer = pa.py_buffer(buffer)
        self._path, self._tail, self._views = path, tail, values == "view"
        self._end, self._dense, self._salt = min(end, self._source.size), dense, np.uint64(salt)
        self._rows = max_records
        self._wanted = Wanted(first, stop, base_offset, min(max_bytes, MAX_VIEW))
        self._done = False
        self.position, self.next_relative = position, relative
        self.reason: str | None = None

    def __next__(self) -> pa.RecordBatch:
        """Return the next batch; CorruptRecord in place of a record that is not valid, once all before it are out."""
        if self._done:
            self._refuse()
            raise StopIteration
        room = _Room(max(min(self._rows, (self._end - self.position) // 32), 1))
        cursor = Cursor(self.position, self._end, self.next_relative, self._dense, self._salt)
        batch = Batch(*decode(self._source, cursor, self._wanted, room.columns))
        self.position, self.next_relative = batch.position, batch.expected
        self._done = batch.reason != OK or batch.stopped or self.position >= self._end
        if batch.reason == WIDE:
            raise InvalidArgument(
                f"{self._path}: offset {self._wanted.base_offset + batch.expected} is too long for Arrow (2 GiB); read() it"
            )
        self.reason = REASONS[batch.reason] or None
        return self._assemble(room, batch) if batch.rows else next(self)

    def _refuse(self) -> None:
        if self.reason is not None and not self._tail:
            offset = self._wanted.base_offset + self.next_relative if self._dense else None
            raise CorruptRecord(self._path, offset, self.position, self.reason)

    def _assemble(self, room: _Room, batch: Batch) -> pa.RecordBatch:
        rows = batch.rows
        headers = _headers(self._source, room.positions[:rows], batch)
        key_bits = _bitmap(room.key_valid[:rows], batch.null_keys)
        value_bits = _bitmap(room.value_valid[:rows], batch.null_values)
        data = self._buffer.slice(batch.start, self.position - batch.start)
        if self._views:
            key = _view_array(room.keys, rows, key_bits, batch.null_keys, data)
            value = _view_array(room.values, rows, value_bits, batch.null_values, data)
        else:
            key = _binary_array(room.keys[:rows], key_bits, batch.null_keys, batch.key_bytes, data)
            value = _binary_array(room.values[:rows], value_bits, batch.null_values, batch.value_bytes, data)
        offset = pa.Array.from_buffers(pa.int64(), rows, [None, pa.py_buffer(room.offsets)], 0)
        timestamp = pa.Array.from_buffers(self._schema.field(1).type, rows, [None, pa.py_buffer(room.timestamps)], 0)
        return pa.RecordBatch.from_arrays([offset, timestamp, key, value, headers], schema=self._schema)


def decode_batches(
    buffer: Any,
    *,
    path: str,
    salt: int,
    base_offset: int,
    relative: int,
    position: int,
    end: int,
    dense: bool,
    max_records: int = 65536,
    max_bytes: int = DEFAULT_MAX_BYTES,
    values: Values = "view",
    tail: bool = False,
    first: int = 0,
    stop: int = 2**32,
) -> BatchDecoder:
    """Validate the records from `position` on and give them out as Arrow record batches.

    buffer: the store from position 0 (bytes, memoryview, mmap); with values="view" batches keep it alive and share its
    memory. relative: the relative offset of the record at `position`, in a sparse segment the lowest it may have.
    first, stop: relative offsets; records before `first` are validated and left out, the first at or behind `stop` ends it.
    max_records, max_bytes: of one batch; a single longer record is a batch of its own.

    Raises CorruptRecord at a record that is not valid, after the valid ones before it; with tail=True it ends there.
    InvalidArgument for a record of 2 GiB or more, which Arrow's views do not reach.
    """
    return BatchDecoder(
        buffer,
        path=path,
        salt=salt,
        base_offset=base_offset,
        relative=relative,
        position=position,
        end=end,
        dense=dense,
        max_records=max_records,
        max_bytes=max_bytes,
        values=values,
        tail=tail,
        first=first,
        stop=stop,
    )


class _Room:
    """Memory for one batch, one row each; `columns` is where the kernel finds it."""

    def __init__(self, rows: int) -> None:
        self.offsets, self.timestamps, self.positions = (np.empty(rows, np.int64) for _ in range(3))
        self.keys, self.values = (np.empty((rows, 2), np.uint64) for _ in range(2))
        self.key_valid, self.value_valid = (np.empty(rows, np.uint8) for _ in range(2))
        words, views = (self.offsets, self.timestamps, self.positions), (self.keys, self.values)
        arrays = (*words, *views, self.key_valid, self.value_valid)
        self.columns = Columns(rows, *(array.ctypes.data for array in arrays))


def _bitmap(valid: Array, nulls: int) -> pa.Buffer | None:
    return None if nulls == 0 else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _view_array(views: Array, rows: int, bits: pa.Buffer | None, nulls: int, data: pa.Buffer) -> pa.Array:
    return pa.Array.from_buffers(pa.binary_view(), rows, [bits, pa.py_buffer(views), data], nulls)


def _binary_array(views: Array, bits: pa.Buffer | None, nulls: int, size: int, data: pa.Buffer) -> pa.Array:
    addresses, lengths = np.empty(len(views), np.int64), np.empty(len(views), np.int64)
    buffers, sizes = np.array([data.address], np.int64), np.array([data.size], np.int64)
    rows_from_views(views.ctypes.data, np.empty(0, np.uint8), buffers, sizes, addresses, lengths)
    return _gathered(pa.binary(), addresses, lengths, bits, nulls, size)


def _gathered(
    kind: Any, addresses: Array, lengths: Array, bits: pa.Buffer | None, nulls: int, size: int
) -> pa.Array:
    offsets, copied = np.empty(len(lengths) + 1, np.int32), np.empty(size, np.uint8)
    gather(addresses, lengths, offsets, copied)
    return pa.Array.from_buffers(kind, len(lengths), [bits, pa.py_buffer(offsets), pa.py_buffer(copied)], nulls)


def _headers(source: Array, positions: Array, batch: Batch) -> pa.Array:
    rows, items = len(positions), batch.headers
    if items == 0:
        offsets, keys, values = np.zeros(rows + 1, np.int32), pa.array([], pa.string()), pa.array([], pa.binary())
    else:
        offsets = np.empty(rows + 1, np.int32)
        key, value = (tuple(np.empty(items, np.int64) for _ in range(2)) for _ in range(2))
        locate_headers(source, positions, offsets, key, value)
        keys = _gathered(pa.string(), *key, None, 0, batch.header_key_bytes)
        nulls = int((value[1] < 0).sum())
        values = _gathered(pa.binary(), *value, _bitmap(value[1] >= 0, nulls), nulls, batch.header_value_bytes)
    pairs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(offsets)], 0, children=[pairs])
