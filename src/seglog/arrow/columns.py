"""Arrow columns of any layout -> address and length of each row's bytes.

Copies no data. Rejects rows that point outside of their buffers. Knows the layouts of Arrow (offsets, views, fixed
size, dictionary), not records.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from seglog.errors import InvalidArgument, InvalidType
from seglog.kernels.columns import fault_of_offsets, rows_from_offsets, rows_from_views
from seglog.kernels.murmur2 import partition_keys

FEW_ROWS = 4096  # whose memory the C library reuses as well
Array = np.ndarray[Any, Any]


class ByteRows(NamedTuple):
    """Rows of byte strings: int64 address and length (-1: null) of each; owners: keep the addresses valid."""

    addresses: Array
    lengths: Array
    owners: tuple[Any, ...]


class OffsetRows(NamedTuple):
    """Rows of byte strings without nulls, as Arrow's offsets describe them.

    width: bytes per offset, 4 or 8; starts: address of the first offset; data: address that the offsets count from;
    owners: objects that keep the addresses valid.
    """

    width: int
    starts: int
    data: int
    owners: tuple[Any, ...]


def byte_rows(column: pa.ChunkedArray, name: str) -> ByteRows:
    """Find the rows of a column. InvalidType unless it is binary or string, InvalidArgument if it is damaged."""
    _check_type(column, name)
    return joined([chunk_rows(chunk, name) for chunk in column.chunks])


def offset_rows(column: pa.ChunkedArray, name: str) -> OffsetRows | None:
    """Find the rows of a column that is one array of offsets without nulls, else None. Errors as `byte_rows`."""
    _check_type(column, name)
    width = _offset_width(column.type)
    if not width or column.num_chunks != 1 or column.null_count or not len(column):
        return None
    refuse_damaged(column.chunk(0), name)
    return _offsets(column.chunk(0), width, name)


def _check_type(column: pa.ChunkedArray, name: str) -> None:
    if not (is_text(column.type) or is_bytes(column.type)):
        raise InvalidType(f"column {name!r} must be binary or string, not {column.type}")


def joined(parts: list[ByteRows]) -> ByteRows:
    """Return the rows of all parts, in order."""
    if len(parts) == 1:
        return parts[0]
    owners = tuple(owner for part in parts for owner in part.owners)
    empty = null_rows(0)
    addresses = np.concatenate([empty.addresses, *(part.addresses for part in parts)])
    return ByteRows(addresses, np.concatenate([empty.lengths, *(part.lengths for part in parts)]), owners)


def null_rows(rows: int) -> ByteRows:
    """Return `rows` nulls."""
    return ByteRows(np.zeros(rows, np.int64), np.full(rows, -1, np.int64), ())


def same_for_all(value: int, rows: int) -> Array:
    """Return an int64 array of `rows` equal values in the memory of one value; read only."""
    return np.broadcast_to(np.array(value, np.int64), rows)


def int64_room(rows: int) -> Array:
    """Allocate int64 for `rows` rows; many from Arrow's pool, which reuses pages that were touched before."""
    if rows <= FEW_ROWS:
        return np.empty(rows, np.int64)
    return np.frombuffer(pa.allocate_buffer(8 * rows), np.int64)


def is_text(kind: Any) -> bool:
    """Whether this is a string type, or a dictionary of strings."""
    kind, types = _plain(kind), pa.types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def is_bytes(kind: Any) -> bool:
    """Whether this is a binary type, a dictionary of binary, or null."""
    kind, types = _plain(kind), pa.types
    fixed = types.is_fixed_size_binary(kind) or types.is_null(kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind) or types.is_binary_view(kind) or fixed)


def _plain(kind: Any) -> Any:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def valid_rows(array: pa.Array) -> Array:
    """Return uint8 per row: 1 if it is not null; empty if no row is null."""
    bits = array.buffers()[0]
    if array.null_count == 0 or bits is None:
        return np.empty(0, np.uint8)
    unpacked = np.unpackbits(np.frombuffer(bits, np.uint8), bitorder="little", count=array.offset + len(array))
    return unpacked[array.offset :]


def refuse_damaged(array: pa.Array, name: str) -> None:
    """Raise InvalidArgument if an array's buffers are shorter than its layout requires; ignores their content."""
    try:
        array.validate()
    except pa.ArrowInvalid as error:
        raise InvalidArgument(f"column {name!r} is damaged: {error}") from error


def chunk_rows(array: pa.Array, name: str) -> ByteRows:
    """Find the rows of one array of a type that `is_text` or `is_bytes` accepts; `name` is for errors."""
    kind, types = array.type, pa.types
    if not len(array) or types.is_null(kind):
        return null_rows(len(array))
    refuse_damaged(array, name)
    if types.is_dictionary(kind):
        return _rows_of_dictionary(array, name)
    if types.is_fixed_size_binary(kind):
        return _rows_of_fixed(array)
    if types.is_binary_view(kind) or types.is_string_view(kind):
        return _rows_of_views(array, name)
    rows, addresses, lengths = _offsets(array, _offset_width(kind), name), *(int64_room(len(array)) for _ in range(2))
    rows_from_offsets(rows.starts, rows.width, rows.data, addresses, lengths)
    return _without_nulls(array, addresses, lengths)


def _offset_width(kind: Any) -> int:
    """Return the bytes per offset of this type, 0 if it has no offsets."""
    types = pa.types
    if types.is_large_binary(kind) or types.is_large_string(kind):
        return 8
    return 4 if types.is_binary(kind) or types.is_string(kind) else 0


def _offsets(array: pa.Array, width: int, name: str) -> OffsetRows:
    """Find the rows of an array with offsets, treating nulls as empty strings."""
    _, offsets, data = array.buffers()
    address, size = (data.address, data.size) if data is not None else (0, 0)
    starts = offsets.address + width * array.offset
    _refuse_row(fault_of_offsets(starts, width, len(array), size), name)
    return OffsetRows(width, starts, address, (array,))


def _rows_of_views(array: pa.Array, name: str) -> ByteRows:
    _, views, *data = array.buffers()
    addresses, lengths = int64_room(len(array)), int64_room(len(array))
    buffers = np.array([buffer.address for buffer in data], np.int64)
    sizes = np.array([buffer.size for buffer in data], np.int64)
    start, valid = views.address + 16 * array.offset, valid_rows(array)
    _refuse_row(rows_from_views(start, valid, buffers, sizes, addresses, lengths), name)
    return ByteRows(addresses, lengths, (array,))


def _rows_of_fixed(array: pa.Array) -> ByteRows:
    width, data = array.type.byte_width, array.buffers()[1]
    addresses = data.address + width * np.arange(array.offset, array.offset + len(array), dtype=np.int64)
    return _without_nulls(array, addresses, np.full(len(array), width, np.int64))


def _rows_of_dictionary(array: pa.Array, name: str) -> ByteRows:
    words = chunk_rows(array.dictionary, name)
    known = array.indices.is_valid().to_numpy(zero_copy_only=False)
    indices = array.indices.fill_null(0).to_numpy(zero_copy_only=False)[known]
    rows = null_rows(len(array))
    if indices.size and not 0 <= indices.min() <= indices.max() < len(array.dictionary):
        raise InvalidArgument(f"column {name!r} is damaged: an index points outside of its dictionary")
    rows.addresses[known], rows.lengths[known] = words.addresses[indices], words.lengths[indices]
    return rows._replace(owners=words.owners)


def _without_nulls(array: pa.Array, addresses: Array, lengths: Array) -> ByteRows:
    valid = valid_rows(array)
    if valid.size:
        lengths[valid == 0] = -1
    return ByteRows(addresses, lengths, (array,))


def _refuse_row(row: int, name: str) -> None:
    if row >= 0:
        raise InvalidArgument(f"column {name!r} is damaged: row {row} of a chunk points outside of its data")


def partitions_of(keys: pa.ChunkedArray | pa.Array, partitions: int) -> Array:
    """Return int32 per key: the partition by Kafka's murmur2, -1 for a null key.

    keys: binary or string of any layout; partitions: at least 1.
    """
    rows = byte_rows(keys if isinstance(keys, pa.ChunkedArray) else pa.chunked_array([keys]), "key")
    out = np.empty(rows.lengths.size, np.int32)
    partition_keys(rows.addresses, rows.lengths, partitions, out)
    return out
