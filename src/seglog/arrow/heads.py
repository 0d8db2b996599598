"""How many headers the records of a batch have, and how long their keys and headers are."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from seglog.arrow.columns import chunk_rows


def most_headers(headers: pa.Array) -> int:
    """Return the most headers that a record has. headers: a list or map per record; null: none."""
    if types.is_null(headers.type) or not len(headers):
        return 0
    return pc.max(pc.list_value_length(headers.cast(_as_list(headers.type)))).as_py() or 0


def head_bytes(batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """Return the bytes of key and headers, row by row. batch: its columns "key" and "headers" count, if it has them."""
    sizes = np.zeros(batch.num_rows, np.int64)
    if "key" in batch.schema.names:
        sizes += np.maximum(chunk_rows(batch.column("key"), "key").lengths, 0)
    if "headers" in batch.schema.names and not types.is_null(batch.schema.field("headers").type):
        headers = batch.column("headers")
        headers = headers.cast(_as_list(headers.type))
        lengths = pc.fill_null(pc.list_value_length(headers), 0).to_numpy(zero_copy_only=False)
        pairs = headers.flatten()  # only of the rows that are there, null ones left out
        each = sum(np.maximum(chunk_rows(column, "headers").lengths, 0) for column in pairs.flatten())
        ends = np.concatenate([[0], np.cumsum(each)])
        stops = np.cumsum(lengths)
        sizes += ends[stops] - ends[stops - lengths]
    return sizes


def _as_list(kind: Any) -> Any:
    return pa.list_(kind.field(0)) if types.is_map(kind) else kind
