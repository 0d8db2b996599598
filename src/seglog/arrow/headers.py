"""Remove one header from the rows of a batch. Knows the types that `arrow_in` accepts, but no log."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from xxhash import xxh64_intdigest

from seglog.arrow.columns import Array, refuse_damaged
from seglog.arrow.to_rows import header_items, header_pairs, is_headers
from seglog.kernels.checksum import xxh64_rows


def drop_header(table: pa.Table, name: str) -> pa.Table:
    """Return a table whose rows have no header of this name; the same table if no row has one.

    Headers that are views become large strings and large binary then. Leaves types unchanged that a log rejects.
    Raises InvalidArgument if the column is damaged.
    """
    position = table.schema.get_field_index("headers")
    if position < 0 or not is_headers(table.column(position).type):
        return table
    chunks = table.column(position).chunks
    found = [_hits(chunk, name.encode()) for chunk in chunks]
    if not any(hits.any() for hits in found):
        return table
    kept = [_without(chunk, hits) for chunk, hits in zip(chunks, found, strict=True)]
    return table.set_column(position, "headers", pa.chunked_array(kept))


def _hits(chunk: pa.Array, name: bytes) -> Array:
    """Return for each header of a chunk, also those outside of any row, whether it has this name."""
    if not len(chunk):
        return np.zeros(0, bool)
    refuse_damaged(chunk, "headers")
    keys, _ = header_pairs(chunk)
    hits: Array = keys.lengths == len(name)
    if hits.any():
        hashes = np.zeros(np.count_nonzero(hits), np.uint64)
        xxh64_rows(keys.addresses[hits], keys.lengths[hits], hashes)
        hits[hits] = hashes == xxh64_intdigest(name)
    return hits


def _without(chunk: pa.Array, hits: Array) -> pa.Array:
    """Return a chunk without these headers; a null list, which means no headers, becomes an empty one."""
    items = header_items(chunk, hits.size) if len(chunk) else np.zeros((0, 2), np.int64)
    counts = items[:, 1] - items[:, 0]
    row = np.repeat(np.arange(len(items)), counts)
    pair = np.arange(row.size) - np.repeat(np.cumsum(counts) - counts, counts) + items[row, 0]
    kept = ~hits[pair]
    ends = np.cumsum(np.bincount(row[kept], minlength=len(items)))
    offsets, taken = np.concatenate([[0], ends]), pa.array(pair[kept])
    if pa.types.is_map(chunk.type):
        keys, items = (_takeable(each).take(taken) for each in (chunk.keys, chunk.items))
        return pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)
    kind = pa.LargeListArray if pa.types.is_large_list(chunk.type) else pa.ListArray
    number = pa.int64() if kind is pa.LargeListArray else pa.int32()
    return kind.from_arrays(pa.array(offsets, number), _takeable(chunk.values).take(taken))


def _takeable(array: pa.Array) -> pa.Array:
    """Return an array without views, of which Arrow cannot take rows."""
    return array.cast(_without_views(array.type))


def _without_views(kind: Any) -> Any:
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_without_views(field.type)) for field in kind])
    if pa.types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if pa.types.is_binary_view(kind) else kind
