"""Byte sizes of the rows of a log's batches. Needs pyarrow and numba, so callers import it when they read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.columns import chunk_rows
from seglog.record import HEADER_COST

Array = np.ndarray[Any, Any]


def rows_within(batch: pa.RecordBatch, limit: int, *, least: int) -> tuple[int, int]:
    """Return how many leading rows have at most `limit` bytes, but at least `least` if there are, and their bytes."""
    ends = np.cumsum(row_bytes(batch))
    rows = min(max(int(np.searchsorted(ends, limit, side="right")), least), batch.num_rows)
    return rows, int(ends[rows - 1]) if rows else 0


def row_bytes(batch: pa.RecordBatch) -> Array:
    """Return int64 per row of a batch with a log's columns: bytes of key, value and headers, as limits count them."""
    sizes = _lengths(batch.column("key"), "key") + _lengths(batch.column("value"), "value")
    headers = batch.column("headers")
    offsets = headers.offsets.to_numpy()
    if len(offsets) and offsets[-1] > offsets[0]:
        pairs = headers.values
        each = _lengths(pairs.field("key"), "headers") + _lengths(pairs.field("value"), "headers")
        ends = np.concatenate([[0], np.cumsum(each)])
        sizes += ends[offsets[1:]] - ends[offsets[:-1]] + HEADER_COST * np.diff(offsets)
    return sizes


def _lengths(column: pa.Array, name: str) -> Array:
    lengths: Array = np.maximum(chunk_rows(column, name).lengths, 0)
    return lengths
