"""Arrow in: a table of any supported layout -> validated rows for the encoder. Knows no log, segment or file.

The data is not copied: the encoder reads keys and values from Arrow's buffers. Only headers are serialized first,
because Arrow stores their keys and values separately.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.columns import (
    Array,
    ByteRows,
    OffsetRows,
    byte_rows,
    chunk_rows,
    is_bytes,
    is_text,
    joined,
    offset_rows,
    refuse_damaged,
    same_for_all,
    valid_rows,
)
from seglog.arrow.encodable import EncodableRows, column_of
from seglog.errors import InvalidArgument, InvalidType
from seglog.kernels.headers import KEY_LONG, KEY_NOT_UTF8, KEY_NULL, measure_headers, write_headers
from seglog.kernels.rows import Cells, Column, Rows

COLUMNS = ("value", "key", "timestamp", "headers")
IGNORED = re.compile("offset|__index_level_[0-9]+__")
"""The offset, so that the result of to_arrow() can be appended to another log; and the index of a filtered or sorted
pandas frame, which has no name of its own.
"""
FAULTS = {KEY_NULL: "is null", KEY_LONG: "is longer than 65535 bytes", KEY_NOT_UTF8: "is not UTF-8"}
MICROSECONDS = {"s": 1_000_000, "ms": 1_000, "us": 1}


class ArrowBatch(EncodableRows):
    """A table prepared for encoding."""

    @classmethod
    def prepare(cls, data: Any, *, now: int) -> ArrowBatch:
        """Validate a pyarrow Table or RecordBatch and prepare it for encoding, without copying the data.

        The data must not change before it is encoded. Columns:
          value (required), key: binary or string of any layout, or dictionaries of them.
          timestamp: int64 microseconds or timestamp of any unit (without a zone: UTC; nanoseconds are truncated to
            microseconds). Null or absent means `now`.
          headers: list or map of (key: string, value: binary or string). Null means none.
          offset, and the unnamed index of a pandas frame: ignored.

        Raises:
            InvalidType: If a column has another type.
            InvalidArgument: If there is another column, or a value is out of range.
        """
        columns = _named_columns(data)
        rows = data.num_rows
        key = _byte_rows(columns["key"], "key") if "key" in columns else _all_of_length(-1, rows)
        headers = _header_rows(columns["headers"]) if "headers" in columns else _all_of_length(0, rows)
        timestamps = timestamps_of(columns.get("timestamp"), rows, now)
        value = _byte_rows(columns["value"], "value")
        cells = Rows(column_of(timestamps), _cells(key), _cells(headers), _cells(value))
        owners = (timestamps, key, headers, value)
        return cls(cells, rows, key.lengths if isinstance(key, ByteRows) else None, owners)


def _named_columns(data: Any) -> dict[str, pa.ChunkedArray]:
    if not isinstance(data, (pa.Table, pa.RecordBatch)):
        raise InvalidType(f"a batch must be a pyarrow Table or RecordBatch, not {type(data).__name__}")
    columns: dict[str, pa.ChunkedArray] = {}
    for name, column in zip(data.schema.names, data.columns, strict=True):
        if IGNORED.fullmatch(name):
            continue
        if name not in COLUMNS:
            raise InvalidArgument(f"a batch cannot have a column {name!r}; allowed are {', '.join(COLUMNS)}")
        if name in columns:
            raise InvalidArgument(f"the batch has the column {name!r} twice")
        columns[name] = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    if "value" not in columns:
        raise InvalidArgument("the batch has no column 'value'; for tombstones add one that is null")
    return columns


def timestamps_of(column: pa.ChunkedArray | None, rows: int, now: int) -> Array:
    """Return int64 microseconds per row, `now` for null; InvalidType for a column of another type."""
    if column is None or pa.types.is_null(column.type):
        return same_for_all(now, rows)
    kind = column.type
    if not (pa.types.is_int64(kind) or pa.types.is_timestamp(kind)):
        raise InvalidType(f"column 'timestamp' must be int64 (microseconds) or timestamp, not {kind}")
    known = None if column.null_count == 0 else column.is_valid().to_numpy()
    numbers = column if pa.types.is_int64(kind) else column.cast(pa.int64())
    times: Array = np.array((numbers if known is None else numbers.fill_null(0)).to_numpy(), np.int64)
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
        raise InvalidArgument(f"column 'timestamp' ({kind}) has a value that does not fit 64 bits of microseconds")
    return times * factor


def _byte_rows(column: pa.ChunkedArray, name: str) -> ByteRows | OffsetRows:
    """Find the rows of a column, using Arrow's offsets if possible."""
    return offset_rows(column, name) or byte_rows(column, name)


def _cells(rows: ByteRows | OffsetRows) -> Cells:
    if isinstance(rows, OffsetRows):
        return Cells(rows.width, rows.starts, rows.data, Column(0, 0), Column(0, 0))
    return Cells(0, 0, 0, column_of(rows.addresses), column_of(rows.lengths))


def _all_of_length(length: int, rows: int) -> ByteRows:
    """Return `rows` empty byte strings (length 0) or nulls (-1)."""
    return ByteRows(same_for_all(0, rows), same_for_all(length, rows), ())


def _header_rows(column: pa.ChunkedArray) -> ByteRows:
    if pa.types.is_null(column.type):
        return _all_of_length(0, len(column))
    if not is_headers(column.type):
        wanted = "list<struct<key: string, value: binary>> or map<string, binary>"
        raise InvalidType(f"column 'headers' must be {wanted}, not {column.type}")
    return joined([_header_chunk(chunk) for chunk in column.chunks])


def is_headers(kind: Any) -> bool:
    """Whether a column of this type can hold headers."""
    key, value = _pair_types(kind)
    return key is not None and value is not None and is_text(key) and (is_text(value) or is_bytes(value))


def _pair_types(kind: Any) -> tuple[Any, Any]:
    """Return the types of a header's key and value; (None, None) if this is no type of headers."""
    if pa.types.is_map(kind):
        return kind.key_type, kind.item_type
    lists = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if not (lists and pa.types.is_struct(kind.value_type)):
        return None, None
    fields = {field.name: field.type for field in kind.value_type}
    return (fields["key"], fields["value"]) if sorted(fields) == ["key", "value"] else (None, None)


def _header_chunk(chunk: pa.Array) -> ByteRows:
    """Serialize the headers of each row as a record stores them; a null list means none."""
    if not len(chunk):
        return _all_of_length(0, 0)
    refuse_damaged(chunk, "headers")
    keys, values = header_pairs(chunk)
    items = header_items(chunk, keys.lengths.size)
    addresses, lengths = np.empty(len(chunk), np.int64), np.empty(len(chunk), np.int64)
    fault, row = measure_headers(items, keys[:2], values.lengths, lengths)
    if fault:
        raise InvalidArgument(f"column 'headers': a key {FAULTS[fault]} (row {row} of a chunk)")
    data = np.empty(int(lengths.sum()), np.uint8)
    write_headers(items, keys[:2], values[:2], data, addresses)
    return ByteRows(addresses, lengths, (data,))


def header_pairs(chunk: pa.Array) -> tuple[ByteRows, ByteRows]:
    """Find all keys and values of a chunk, including those outside of any row."""
    if pa.types.is_map(chunk.type):
        return chunk_rows(chunk.keys, "headers"), chunk_rows(chunk.items, "headers")
    pairs = chunk.values
    keys, values = (chunk_rows(pairs.field(name), "headers") for name in ("key", "value"))
    present = valid_rows(pairs)
    if present.size:
        keys.lengths[present == 0] = -1  # a null pair is rejected in the same way as a null key
    return keys, values


def header_items(chunk: pa.Array, count: int) -> Array:
    """Return int64[rows, 2]: start and stop of each row's headers among the chunk's pairs."""
    offsets = chunk.offsets.to_numpy().astype(np.int64)
    items = np.stack([offsets[:-1], offsets[1:]], axis=1)
    valid = valid_rows(chunk)
    if valid.size:
        items[valid == 0] = 0
    if (items[:, 0] > items[:, 1]).any() or items.min() < 0 or items.max() > count:
        raise InvalidArgument("column 'headers' is damaged: a list points outside of its pairs")
    return items
