"""Keys and values of a log's batches, which are views into the store, as independent plain Arrow arrays.

Needs pyarrow and numba, so callers import it when they read. Knows no log.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.columns import chunk_rows
from seglog.kernels.columns import gather

Array = np.ndarray[Any, Any]


def plain_binary(column: pa.Array, name: str, rows: Array | None = None) -> pa.Array:
    """Return a column as plain binary, copied once: the rows selected by `rows` (bools), or all. name: for errors."""
    found = chunk_rows(column, name)
    addresses, lengths = found.addresses, found.lengths
    if rows is not None:
        addresses, lengths = addresses[rows], lengths[rows]
    valid = lengths >= 0
    nulls = len(valid) - int(np.count_nonzero(valid))
    bits = None if nulls == 0 else pa.py_buffer(np.packbits(valid, bitorder="little"))
    offsets = np.empty(len(lengths) + 1, np.int32)
    data = pa.allocate_buffer(int(lengths.sum()) + nulls)  # a null's length is -1
    gather(addresses, lengths, offsets, data.address)
    return pa.Array.from_buffers(pa.binary(), len(lengths), [bits, pa.py_buffer(offsets), data], nulls)
