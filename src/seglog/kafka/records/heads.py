"""Keys and headers of produced records: bounded as over HTTP, because answers in JSON show them whole."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from seglog.kafka.records.faults import BadBatch

Lengths: TypeAlias = np.ndarray[Any, np.dtype[np.int64]]
VIEW_WORDS = 4  # of 32 bits in an element of a view column; the first one is the length


def check_heads(records: pa.RecordBatch, most_headers: int, most_bytes: int) -> None:
    """Check decoded records.

    Args:
        records: As `decode` returns them.
        most_headers: Headers that a record may have.
        most_bytes: Bytes that a record's key and headers may have together.

    Raises:
        BadBatch: A record has more.
    """
    sizes = _lengths(records.column("key"))
    if "headers" in records.schema.names:
        column = records.column("headers")
        offsets = column.offsets.to_numpy()
        count = int(np.diff(offsets).max(initial=0))
        if count > most_headers:
            raise BadBatch(f"a record has {count} headers; it may have {most_headers}")
        pairs = column.values
        ends = np.concatenate([[0], np.cumsum(_lengths(pairs.field(0)) + _lengths(pairs.field(1)))])
        sizes = sizes + ends[offsets[1:]] - ends[offsets[:-1]]
    longest = int(sizes.max(initial=0))
    if longest > most_bytes:
        raise BadBatch(f"a record's key and headers have {longest} bytes; they may have {most_bytes}")


def _lengths(column: pa.Array) -> Lengths:
    """Return the bytes of each element of a view column, 0 for a null."""
    views = np.frombuffer(column.buffers()[1], np.uint32).reshape(-1, VIEW_WORDS)
    lengths = views[column.offset : column.offset + len(column), 0].astype(np.int64)
    if column.null_count:
        lengths[column.is_null().to_numpy(zero_copy_only=False)] = 0
    return lengths
