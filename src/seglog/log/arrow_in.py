"""Arrow in: any table a user may hold -> rows the encoder takes, checked once. Knows no log, no segment, no file.

Nothing of the data is copied: the encoder reads keys and values where Arrow holds them. Only headers are written out
first, since Arrow keeps their keys and values apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from seglog.errors import InvalidArgument, InvalidType
from seglog.kernels.columns import rows_from_offsets, rows_from_views
from seglog.kernels.encode import Place, Rows, encode, measure
from seglog.kernels.headers import KEY_LONG, KEY_NULL, measure_headers, write_headers
from seglog.kernels.layout import ENTRY, MARK, MarksState, Summary
from seglog.kernels.murmur2 import partition_keys

COLUMNS = ("value", "key", "timestamp", "headers")
IGNORED = ("offset",)  # so that what to_arrow() gave can be appended to another log
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}

Array = np.ndarray[Any, Any]


class Column(NamedTuple):
    """A column of byte strings: int64 address and length (-1: null) per row, and what keeps the addresses valid."""

    addresses: Array
    lengths: Array
    owners: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Encoded:
    """Rows as they stand in a store.

    length: bytes written to `out`; entries: structured array layout.ENTRY, one per row; marks: layout.MARK;
    marks_state: for the next call; tombstones; min_timestamp, max_timestamp: None when no row was encoded.
    """

    length: int
    entries: Array
    marks: Array
    marks_state: MarksState
    tombstones: int
    min_timestamp: int | None
    max_timestamp: int | None


class ArrowBatch:
    """A table made ready to be encoded.

    rows: how many; sizes: int64, encoded bytes of each row; ends: int64, running sums, rows + 1 long, from 0.
    """

    def __init__(self, timestamps: Array, key: Column, headers: Column, value: Column) -> None:
        self._owners = (timestamps, key, headers, value)  # the encoder is given their addresses
        arrays = (timestamps, *key[:2], *headers[:2], *value[:2])
        self._rows = Rows(*(array.ctypes.data for array in arrays))
        self.rows = timestamps.size
        self.sizes = np.empty(self.rows, np.int64)
        self.ends = np.empty(self.rows + 1, np.int64)
        measure(self._rows, self.sizes, self.ends)

    @classmethod
    def prepare(cls, data: Any, *, now: int) -> ArrowBatch:
        """Check a pyarrow Table or RecordBatch and make it ready.

        Columns: `value` (required), `key`: binary or string of any layout, or dictionaries of them; `timestamp`: int64
        microseconds or timestamp[any unit] (without a zone: UTC; nanoseconds are cut down to whole microseconds), null or
        absent: `now`; `headers`: list or map of (key: string, value: binary or string), null: none. `offset` is ignored.
        InvalidType for another type, InvalidArgument for another column or a value that does not fit.
        """
        columns = _named_columns(data)
        rows = data.num_rows
        value, key = byte_rows(columns["value"], "value"), _optional_rows(columns.get("key"), "key", rows)
        headers = _header_rows(columns.get("headers"), rows)
        timestamps = _timestamps(columns.get("timestamp"), rows, now)
        return cls(timestamps, key, headers, value)

    def rows_within(self, start: int, room: int) -> int:
        """Return the greatest `stop` such that rows start..stop take at most `room` bytes; `start` if none fits."""
        return max(int(np.searchsorted(self.ends, self.ends[start] + room, side="right")) - 1, start)

    def encode(
        self, start: int, stop: int, *, out: Any, relative: int, position: int, salt: int, marks_state: MarksState
    ) -> Encoded:
        """Encode rows start..stop to the front of `out` (a writable buffer), as a store holds them from `position` on.

        relative: the first row's offset in the segment. InvalidArgument if they do not fit `out` or the format's 32 bits.
        """
        target = np.frombuffer(out, np.uint8)
        if not 0 <= start <= stop <= self.rows:
            raise InvalidArgument(f"rows {start}..{stop} of a batch of {self.rows}")
        length = int(self.ends[stop] - self.ends[start])
        if length > target.size or position + length > 2**32 - 1 or relative + stop - start > 2**32:
            raise InvalidArgument(
                f"{length} bytes from position {position} and offset {relative} on do not fit {target.size} bytes, or 32 bits"
            )
        entries, found = np.empty((stop - start, 2), np.uint64), np.empty((stop - start, 2), np.int64)
        place = Place(relative, position, np.uint64(salt))
        count, state, summary = encode(self._rows, start, stop, place, marks_state, target, entries, found)
        summary = Summary(*summary)
        return Encoded(
            length,
            entries.view(ENTRY).reshape(-1),
            found[:count].view(MARK).reshape(-1),
            MarksState(*state),
            summary.tombstones,
            summary.min_timestamp if stop > start else None,
            summary.max_timestamp if stop > start else None,
        )


def _named_columns(data: Any) -> dict[str, pa.ChunkedArray]:
    if not isinstance(data, (pa.Table, pa.RecordBatch)):
        raise InvalidType(f"a batch must be a pyarrow Table or RecordBatch, not {type(data).__name__}")
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(data.schema.names, data.columns, strict=True):
        if name in IGNORED:
            continue
        if name not in COLUMNS:
            raise InvalidArgument(f"a batch has no column {name!r}; it may have {', '.join(COLUMNS)}")
        if name in columns:
            raise InvalidArgument(f"the batch has the column {name!r} twice")
        columns[name] = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if "value" not in columns:
        raise InvalidArgument("the batch has no column 'value'; a batch of tombstones has one that is null")
    return columns


def _valid(array: pa.Array) -> Array:
    """uint8 per row: 1 where not null; empty when no row is null."""
    bits = array.buffers()[0]
    if array.null_count == 0 or bits is None:
        return np.empty(0, np.uint8)
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little", count=array.offset + len(array))
    return unpacked[array.offset :]


def _buffer(buffer: pa.Buffer | None, dtype: Any, start: int, count: int) -> Array:
    if buffer is None:
        return np.zeros(count, dtype)  # Arrow lets an empty array do without its buffers
    return np.frombuffer(buffer, dtype)[start : start + count]


def _rows_of_offsets(array: pa.Array, dtype: Any, name: str) -> Column:
    _, offset_bytes, data = array.buffers()
    rows = len(array)
    addresses, lengths = np.empty(rows, np.int64), np.empty(rows, np.int64)
    offsets = _buffer(offset_bytes, dtype, array.offset, rows + 1) if rows else np.zeros(1, dtype)
    address, size = (data.address, data.size) if data is not None else (0, 0)
    _refuse_damaged(rows_from_offsets(_read_only(offsets), address, size, addresses, lengths), name)
    valid = _valid(array)
    if valid.size:
        lengths[valid == 0] = -1
    return Column(addresses, lengths, (array,))


def _rows_of_views(array: pa.Array, name: str) -> Column:
    _, views, *data = array.buffers()
    rows = len(array)
    addresses, lengths = np.empty(rows, np.int64), np.empty(rows, np.int64)
    buffers = np.array([buffer.address for buffer in data], np.int64)
    sizes = np.array([buffer.size for buffer in data], np.int64)
    start = views.address + 16 * array.offset if rows else 0
    _refuse_damaged(rows_from_views(start, _valid(array), buffers, sizes, addresses, lengths), name)
    return Column(addresses, lengths, (array,))


def _rows_of_fixed(array: pa.Array) -> Column:
    width, data = array.type.byte_width, array.buffers()[1]
    start = 0 if data is None else data.address + width * array.offset
    addresses = start + width * np.arange(len(array), dtype=np.int64)
    lengths = np.full(len(array), width, np.int64)
    valid = _valid(array)
    if valid.size:
        lengths[valid == 0] = -1
    return Column(addresses, lengths, (array,))


def _rows_of_dictionary(array: pa.Array, name: str) -> Column:
    words = _chunk_rows(array.dictionary, name)
    known = np.asarray(array.indices.is_valid())
    indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)
    addresses, lengths = np.zeros(len(array), np.int64), np.full(len(array), -1, np.int64)
    if known.any() and not 0 <= indices[known].min() <= indices[known].max() < len(array.dictionary):
        raise InvalidArgument(f"column {name!r} is damaged: an index leaves its dictionary")
    addresses[known], lengths[known] = words.addresses[indices[known]], words.lengths[indices[known]]
    return Column(addresses, lengths, words.owners)


def _chunk_rows(array: pa.Array, name: str) -> Column:
    kind, types = array.type, pa.types
    if types.is_binary(kind) or types.is_string(kind):
        return _rows_of_offsets(array, np.int32, name)
    if types.is_large_binary(kind) or types.is_large_string(kind):
        return _rows_of_offsets(array, np.int64, name)
    if types.is_binary_view(kind) or types.is_string_view(kind):
        return _rows_of_views(array, name)
    if types.is_fixed_size_binary(kind):
        return _rows_of_fixed(array)
    if types.is_dictionary(kind):
        return _rows_of_dictionary(array, name)
    if types.is_null(kind):
        return _nulls(len(array))
    raise InvalidType(f"column {name!r} must be binary or string, not {kind}")


def _refuse_damaged(row: int, name: str) -> None:
    if row >= 0:
        raise InvalidArgument(f"column {name!r} is damaged: row {row} of a chunk points outside its data")


def _read_only(array: Array) -> Array:
    array.flags.writeable = False  # one type for all kernels, whoever owns the memory
    return array


def _nulls(rows: int) -> Column:
    return Column(np.zeros(rows, np.int64), np.full(rows, -1, np.int64), ())


def byte_rows(column: pa.ChunkedArray, name: str) -> Column:
    """Look at a column of byte strings without copying its data; InvalidType naming `name` for another type."""
    chunks = [_chunk_rows(chunk, name) for chunk in column.chunks if len(chunk)]
    if len(chunks) == 1:
        return chunks[0]
    if not chunks:
        _chunk_rows(pa.array([], column.type) if not pa.types.is_dictionary(column.type) else pa.array([], column.type), name)
        return _nulls(0)
    owners = tuple(owner for chunk in chunks for owner in chunk.owners)
    return Column(np.concatenate([c.addresses for c in chunks]), np.concatenate([c.lengths for c in chunks]), owners)


def _optional_rows(column: pa.ChunkedArray | None, name: str, rows: int) -> Column:
    return _nulls(rows) if column is None else byte_rows(column, name)


def _timestamps(column: pa.ChunkedArray | None, rows: int, now: int) -> Array:
    if column is None or pa.types.is_null(column.type):
        return np.full(rows, now, np.int64)
    kind = column.type
    if not (pa.types.is_int64(kind) or pa.types.is_timestamp(kind)):
        raise InvalidType(f"column 'timestamp' must be int64 (microseconds) or timestamp, not {kind}")
    known = None if column.null_count == 0 else column.is_valid().to_numpy()
    times: Array = np.array(column.cast(pa.int64()).fill_null(0).to_numpy(), np.int64)
    if pa.types.is_timestamp(kind):
        times = _to_microseconds(times, kind)
    if known is not None:
        times[~known] = now
    return times


def _to_microseconds(times: Array, kind: Any) -> Array:
    if kind.unit == "ns":
        return times // 1000
    factor = MICROSECONDS[kind.unit]
    limit = (2**63 - 1) // factor
    if factor > 1 and times.size and not -limit <= times.min() <= times.max() <= limit:
        raise InvalidArgument(f"column 'timestamp' ({kind}) holds a time that does not fit 64 bits of microseconds")
    return times * factor


def _header_rows(column: pa.ChunkedArray | None, rows: int) -> Column:
    if column is None or pa.types.is_null(column.type):
        return Column(np.zeros(rows, np.int64), np.zeros(rows, np.int64), ())
    _check_header_type(column.type)
    chunks = [_header_chunk(chunk) for chunk in column.chunks]
    owners = tuple(owner for chunk in chunks for owner in chunk.owners)
    if not chunks:
        return Column(np.zeros(0, np.int64), np.zeros(0, np.int64), ())
    return Column(np.concatenate([c.addresses for c in chunks]), np.concatenate([c.lengths for c in chunks]), owners)


def _check_header_type(kind: Any) -> None:
    types = pa.types
    if types.is_map(kind):
        key, value = kind.key_type, kind.item_type
    elif (types.is_list(kind) or types.is_large_list(kind)) and types.is_struct(kind.value_type):
        fields = {field.name: field.type for field in kind.value_type}
        key, value = fields.pop("key", None), fields.pop("value", None)
        key = None if fields else key
    else:
        key, value = None, None
    if key is None or value is None or not (_is_text(key) and (_is_text(value) or _is_bytes(value))):
        raise InvalidType(f"column 'headers' must be list<struct<key: string, value: binary>> or a map of them, not {kind}")


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _is_text(kind: Any) -> bool:
    kind, types = _plain(kind), pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _is_bytes(kind: Any) -> bool:
    kind, types = _plain(kind), pa.types
    fixed = types.is_fixed_size_binary(kind) or types.is_null(kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind) or fixed)


def _header_items(chunk: pa.Array) -> Array:
    """int64[rows, 2]: start and stop of each row's headers among the chunk's children; a null list has none."""
    offsets = chunk.offsets.to_numpy().astype(np.int64)
    items = np.stack([offsets[:-1], offsets[1:]], axis=1)
    valid = _valid(chunk)
    if valid.size:
        items[valid == 0, 1] = items[valid == 0, 0]
    return items


def _header_children(chunk: pa.Array) -> tuple[pa.Array, pa.Array]:
    if pa.types.is_map(chunk.type):
        return chunk.keys, chunk.items
    pairs = chunk.values
    return pairs.field("key"), pairs.field("value")


def _header_chunk(chunk: pa.Array) -> Column:
    chunk.validate()  # the list's own offsets; those of its children are checked where they are read
    items = _header_items(chunk)
    if not pa.types.is_map(chunk.type):
        _refuse_null_pairs(chunk, items)
    keys, values = (_chunk_rows(child, "headers") for child in _header_children(chunk))
    lengths, addresses = np.empty(len(chunk), np.int64), np.empty(len(chunk), np.int64)
    fault, row = measure_headers(items, keys[:2], values.lengths, lengths)
    if fault:
        what = "is null" if fault == KEY_NULL else ("passes 65535 bytes" if fault == KEY_LONG else "is not UTF-8")
        raise InvalidArgument(f"column 'headers': a key {what} (row {row} of a chunk)")
    data = np.empty(int(lengths.sum()), np.uint8)
    write_headers(items, keys[:2], values[:2], data, addresses)
    return Column(addresses, lengths, (data,))


def _refuse_null_pairs(chunk: pa.Array, items: Array) -> None:
    absent = np.flatnonzero(_valid(chunk.values) == 0)
    for item in absent:
        if ((items[:, 0] <= item) & (item < items[:, 1])).any():
            raise InvalidArgument("column 'headers': a header is null; a header has at least a key")


def partitions_of(keys: pa.ChunkedArray | pa.Array, partitions: int) -> Array:
    """int32 per key: the partition Kafka's murmur2 gives it, -1 for a null key. keys: any layout `prepare` takes."""
    column = byte_rows(keys if isinstance(keys, pa.ChunkedArray) else pa.chunked_array([keys]), "key")
    out = np.empty(column.lengths.size, np.int32)
    partition_keys(column.addresses, column.lengths, partitions, out)
    return out
