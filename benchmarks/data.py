"""The data for measurements: tables of random keys and values of fixed sizes, the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

KEY_BYTES = 16
HEAD_BYTES = 32
SEED = 20_240_229


def record_bytes(value_bytes: int) -> int:
    """Return the size of a record of these tables in a store."""
    return HEAD_BYTES + KEY_BYTES + value_bytes


def keyed_table(value_bytes: int, total_bytes: int) -> pa.Table:
    """Return a table (key of 16 B, value) whose records take about `total_bytes` in a store."""
    rows, random = total_bytes // record_bytes(value_bytes), np.random.default_rng(SEED)
    return pa.table(
        {"key": _column(random.bytes(rows * KEY_BYTES), rows), "value": _column(random.bytes(rows * value_bytes), rows)}
    )


def _column(data: bytes, rows: int) -> Any:
    offsets = np.arange(rows + 1, dtype=np.int32) * (len(data) // rows)
    return pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])
