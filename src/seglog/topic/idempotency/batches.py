"""Arrow batches with an idempotency key: their digest, their mark, and how much of one a crash left in a log.

Needs pyarrow and numba, so callers import it with the first such batch. `once` explains the key.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from seglog.arrow.columns import byte_rows
from seglog.arrow.from_store import HEADERS_TYPE
from seglog.arrow.headers import drop_header
from seglog.arrow.to_rows import ArrowBatch, timestamps_of
from seglog.kernels.checksum import xxh64_rows
from seglog.log.log import Log
from seglog.topic.idempotency.marks import HEADER, Share

Array = np.ndarray[Any, Any]
Spans = tuple[Array, Array]


def digest_of_rows(table: pa.Table) -> int:
    """Return the digest of a batch. Raises InvalidType or InvalidArgument for a key or value that no log accepts."""
    return _digest_of(_hashes(table, "key"), _hashes(table, "value"))


def digest_of_spans(keys: Spans, values: Spans) -> int:
    """Return the digest of rows whose keys and values are at these addresses, with these lengths (-1: null)."""
    hashes = np.zeros((2, len(keys[0])), np.uint64)
    xxh64_rows(*keys, hashes[0])
    xxh64_rows(*values, hashes[1])
    return _digest_of(*hashes)


def _digest_of(keys: Array, values: Array) -> int:
    digest: int = xxh64_intdigest(keys.tobytes() + values.tobytes())
    return digest


def digest_at(log: Log, first: int, stop: int) -> int | None:
    """Return the digest of the records first..stop of a log, None if one is missing."""
    keys, values, rows = [], [], 0
    for batch in log.batches(first, stop):
        table = pa.Table.from_batches([batch])
        keys.append(_hashes(table, "key").tobytes())
        values.append(_hashes(table, "value").tobytes())
        rows += table.num_rows
    return xxh64_intdigest(b"".join(keys + values)) if rows == stop - first else None


def without_marks(table: pa.Table) -> pa.Table:
    """Return a batch whose rows have no mark, as copied records may; the table itself if none has one."""
    return drop_header(table, HEADER)


def rows_there(table: pa.Table, log: Log, share: Share) -> int:
    """Return how many rows of a share, all of which are `table`, are in the log, from share.row on.

    A crash may have left only the first ones, with other records after them. Rows removed by compaction or retention
    count as stored. Equal rows of another append are recognised by their time, unless the retry has other times.
    """
    stop: int = min(share.stop, log.next_offset)
    stored = log.to_arrow(share.first, stop)
    at = stored["offset"].to_numpy() - share.first + share.row
    same = _same_times(stored, table, at)
    for name in ("key", "value"):
        same &= _hashes(stored, name) == _hashes(table, name)[at]
    return stop - share.first if same.all() else int(at[np.argmin(same)]) - share.row


def _same_times(stored: pa.Table, table: pa.Table, at: Array) -> Array:
    """Whether each stored row has the time of row `at`; rows without a time all got the same moment."""
    column = _column(table, "timestamp")
    found, wanted = timestamps_of(stored["timestamp"], stored.num_rows, 0), timestamps_of(column, table.num_rows, 0)[at]
    named = np.zeros(len(at), bool) if column is None else column.is_valid().to_numpy()[at]
    if not len(at) or (named[0] and found[0] != wanted[0]):
        return np.ones(len(at), bool)
    if not named.all():
        wanted[~named] = found[np.argmin(named)]
    same: Array = found == wanted
    return same


def _column(table: pa.Table, name: str) -> pa.ChunkedArray | None:
    """Return a column, the first of its name; the log rejects a batch that has it twice."""
    positions = table.schema.get_all_field_indices(name)
    return table.column(positions[0]) if positions else None


def _hashes(table: pa.Table, name: str) -> Array:
    """uint64 per row: XXH64 of the bytes in a column, 0 for a null."""
    column, out = _column(table, name), np.zeros(table.num_rows, np.uint64)
    if column is not None:
        rows = byte_rows(column, name)
        xxh64_rows(rows.addresses, rows.lengths, out)
    return out


def marked(share: pa.Table, mark: bytes) -> pa.Table:
    """Return a batch, of at least one row without marks, whose first row has this mark.

    Raises InvalidType or InvalidArgument if a log would reject that row.
    """
    position = share.schema.get_field_index("headers")
    if position < 0:
        return share.append_column("headers", _only_mark(share.num_rows, mark))
    ArrowBatch.prepare(share.slice(0, 1), now=0)
    if pa.types.is_null(share.schema.field(position).type):
        column = pa.chunked_array([pa.nulls(share.num_rows, HEADERS_TYPE)])
    else:
        column = share.column(position)
    if _is_fixed(column.type):
        column = column.cast(HEADERS_TYPE)
    first = pa.array([_with_mark(column[0].as_py(), mark, column.type)], column.type)
    headers = pa.chunked_array([first, *column.slice(1).chunks], column.type)
    return share.set_column(position, "headers", headers)


def _only_mark(rows: int, mark: bytes) -> pa.Array:
    """Return headers of which only the first row has any: the mark."""
    offsets = np.ones(rows + 1, np.int32)
    offsets[0] = 0
    pair = pa.array([{"key": HEADER, "value": mark}], HEADERS_TYPE.value_type)
    return pa.Array.from_buffers(HEADERS_TYPE, rows, [None, pa.py_buffer(offsets)], 0, children=[pair])


def _value_type(kind: Any) -> Any:
    found = kind.item_type if pa.types.is_map(kind) else kind.value_type.field("value").type
    return found.value_type if pa.types.is_dictionary(found) else found


def _is_fixed(kind: Any) -> bool:
    """Whether the values of such headers have a fixed length, which a mark does not have."""
    return bool(pa.types.is_fixed_size_binary(_value_type(kind)))


def _with_mark(headers: Any, mark: bytes, kind: Any) -> list[Any]:
    """Return a row's headers with the mark first, in the input form of `kind`: pairs for a map, dicts for a list."""
    values = _value_type(kind)
    text = pa.types.is_string(values) or pa.types.is_large_string(values) or pa.types.is_string_view(values)
    own: str | bytes = mark.decode() if text else mark
    if pa.types.is_map(kind):
        return [(HEADER, own), *(headers or ())]
    return [{"key": HEADER, "value": own}, *(headers or ())]
