"""Arrow out: the bytes of a store -> validated record batches, without copying the data. Knows no log."""

from __future__ import annotations

import functools
from typing import Any, Literal

import numpy as np
import pyarrow as pa

from seglog.arrow.store_decoder import NO_STOP, Ended, StoreDecoder
from seglog.errors import InvalidArgument
from seglog.kernels.columns import gather, rows_from_views
from seglog.kernels.decode import MAX_VIEW, WIDE, Batch, Columns, Wanted, decode
from seglog.kernels.headers import locate_headers
from seglog.kernels.layout import HEAD_BYTES
from seglog.kernels.validate import Cursor

Values = Literal["view", "binary"]
OFFSET_TYPE, TIMESTAMP_TYPE = pa.int64(), pa.timestamp("us", "UTC")
NO_NULLS = np.empty(0, np.uint8)
DEFAULT_MAX_BYTES = 64 * 1024 * 1024

Array = np.ndarray[Any, Any]

PAIR = [pa.field("key", pa.string()), pa.field("value", pa.binary())]
HEADERS_TYPE = pa.list_(pa.struct(PAIR))
NO_PAIRS = pa.nulls(0, HEADERS_TYPE.value_type)
NO_PAIRS_EACH = pa.py_buffer(np.zeros(65536 + 1, np.int32))  # the offsets of 65,536 empty lists; all batches share it


def record_schema(values: Values = "view") -> pa.Schema:
    """Return the schema of a log: offset, timestamp, key, value, headers; keys and values as binary_view or binary."""
    if values not in ("view", "binary"):
        raise InvalidArgument(f'values is {values!r}; it must be "view" or "binary"')
    return _schema(values)


@functools.cache
def _schema(values: Values) -> pa.Schema:
    data = pa.binary_view() if values == "view" else pa.binary()
    return pa.schema(
        [
            pa.field("offset", OFFSET_TYPE),
            pa.field("timestamp", TIMESTAMP_TYPE),
            pa.field("key", data),
            pa.field("value", data),
            pa.field("headers", HEADERS_TYPE),
        ]
    )


class BatchDecoder(StoreDecoder[pa.RecordBatch]):
    """Iterate over the validated record batches of a range of a store."""

    def __init__(
        self, buffer: Any, *, max_records: int, max_bytes: int, values: Values, first: int, **span: Any
    ) -> None:
        """span: as StoreDecoder takes it."""
        super().__init__(buffer, **span)
        self._schema = record_schema(values)
        self._buffer = pa.py_buffer(buffer)
        self._views = values == "view"
        self._max_records = max_records
        self._scratch = np.empty(0, np.uint8)
        self._wanted = Wanted(first, self._stop, self._base_offset, min(max_bytes, MAX_VIEW))

    def _decode(self, cursor: Cursor) -> tuple[pa.RecordBatch | None, Ended]:
        room = self._room()
        batch = Batch(*decode(self._source, cursor, self._wanted, room.columns))
        ended = Ended(batch.position, batch.expected, batch.reason, batch.stopped)
        return self._assemble(room, batch) if batch.rows else None, ended

    def _room(self) -> _Room:
        rows = min(self._max_records, (self._end - self.position) // HEAD_BYTES, self._stop - self.next_relative)
        rows = max(rows, 1)
        if self._scratch.size < 10 * rows:
            self._scratch = np.frombuffer(pa.allocate_buffer(10 * rows), np.uint8)
        return _Room(rows, self._scratch)

    def _refuse(self) -> None:
        if self._reason == WIDE:
            raise InvalidArgument(
                f"{self._path}: the record at position {self.position} exceeds Arrow's limit (2 GiB); use read() for it"
            )
        super()._refuse()

    def _assemble(self, room: _Room, batch: Batch) -> pa.RecordBatch:
        rows = batch.rows
        data = self._buffer.slice(batch.start, batch.position - batch.start)
        columns = [
            pa.Array.from_buffers(OFFSET_TYPE, rows, [None, room.words(0, rows)], 0),
            pa.Array.from_buffers(TIMESTAMP_TYPE, rows, [None, room.words(1, rows)], 0),
            self._data_column(room, 0, rows, data),
            self._data_column(room, 1, rows, data),
            _headers(self._source, room.positions(rows), batch.headers),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._schema)

    def _data_column(self, room: _Room, column: int, rows: int, data: pa.Buffer) -> pa.Array:
        nulls, bits = _bitmap(room.valid(column, rows))
        views = room.views(column, rows)
        if self._views:
            return pa.Array.from_buffers(pa.binary_view(), rows, [bits, views, data], nulls)
        addresses, lengths = np.empty(rows, np.int64), np.empty(rows, np.int64)
        buffers, sizes = np.array([data.address], np.int64), np.array([data.size], np.int64)
        rows_from_views(views.address, NO_NULLS, buffers, sizes, addresses, lengths)
        return _gathered(pa.binary(), addresses, lengths, bits, nulls)


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
    stop: int = NO_STOP,
    origin: int = 0,
) -> BatchDecoder:
    """Validate the records from `position` on and return them as Arrow record batches.

    Args:
        buffer: The store from position `origin` on (bytes, memoryview, mmap). With values="view" batches keep it alive
            and share its memory.
        path: Path of the store, for errors.
        salt: Salt of the store.
        base_offset: Offset that relative offsets count from.
        relative: Relative offset of the record at `position`; in a sparse segment the lowest that it may have.
        position: Position of the first record.
        end: Position after the last record.
        dense: Whether the offsets have no gaps.
        first: Relative offset; records before it are validated and omitted.
        stop: Relative offset; the first record at or after it ends the iteration.
        max_records: Maximum records per batch.
        max_bytes: Maximum bytes per batch; a single longer record is a batch of its own.
        values: Type of keys and values, see `record_schema`.
        tail: End at the first invalid record instead of raising.
        origin: Position of the buffer's first byte; other positions count from the start of the store.

    Raises:
        CorruptRecord: At an invalid record, after the valid ones before it.
        InvalidArgument: At a record of 2 GiB or more, which exceeds Arrow's views.
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
        origin=origin,
    )


class _Room:
    """Memory for one batch, one element per row; `columns` holds the addresses for the kernel.

    What becomes part of the batch is in one block of Arrow's memory pool, which reuses pages. `scratch` lives as long
    as the decoder: position (8 bytes), key_valid, value_valid of each row.
    """

    def __init__(self, rows: int, scratch: Array) -> None:
        self.rows = rows
        self._block = pa.allocate_buffer(48 * rows)
        self._scratch = scratch
        block, lost = self._block.address, scratch.ctypes.data
        self.columns = Columns(
            rows, block, block + 8 * rows, lost, block + 16 * rows, block + 32 * rows, lost + 8 * rows, lost + 9 * rows
        )

    def words(self, column: int, rows: int) -> pa.Buffer:
        """Return the offsets (0) or timestamps (1)."""
        return self._block.slice(8 * self.rows * column, 8 * rows)

    def views(self, column: int, rows: int) -> pa.Buffer:
        """Return the views of the keys (0) or the values (1)."""
        return self._block.slice(16 * self.rows * (column + 1), 16 * rows)

    def positions(self, rows: int) -> Array:
        """Return the positions of the rows in the store."""
        return self._scratch[: 8 * rows].view(np.int64)

    def valid(self, column: int, rows: int) -> Array:
        """Return uint8 per row: whether the key (0) or the value (1) is not null."""
        start = (8 + column) * self.rows
        return self._scratch[start : start + rows]


def _bitmap(valid: Array) -> tuple[int, pa.Buffer | None]:
    """Return (nulls, Arrow's validity bitmap); the bitmap is None if nothing is null."""
    nulls = valid.size - int(np.count_nonzero(valid.view(np.bool_)))
    return nulls, None if nulls == 0 else pa.py_buffer(np.packbits(valid, bitorder="little"))


def _gathered(kind: Any, addresses: Array, lengths: Array, bits: pa.Buffer | None, nulls: int) -> pa.Array:
    size = int(lengths.sum()) + int(np.count_nonzero(lengths < 0))  # a null's length is -1
    offsets, data = np.empty(len(lengths) + 1, np.int32), pa.allocate_buffer(size)
    gather(addresses, lengths, offsets, data.address)
    return pa.Array.from_buffers(kind, len(lengths), [bits, pa.py_buffer(offsets), data], nulls)


def _headers(source: Array, positions: Array, count: int) -> pa.Array:
    rows = len(positions)
    if not count:
        size = 4 * (rows + 1)
        zeros = NO_PAIRS_EACH if size <= NO_PAIRS_EACH.size else pa.py_buffer(bytes(size))
        return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, zeros.slice(0, size)], 0, children=[NO_PAIRS])
    offsets = np.empty(rows + 1, np.int32)
    key, value = [(np.empty(count, np.int64), np.empty(count, np.int64)) for _ in range(2)]
    locate_headers(source, positions, offsets, key, value)
    nulls, bits = _bitmap((value[1] >= 0).view(np.uint8))
    keys, values = _gathered(pa.string(), *key, None, 0), _gathered(pa.binary(), *value, bits, nulls)
    pairs = pa.StructArray.from_arrays([keys, values], fields=PAIR)
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(offsets)], 0, children=[pairs])
