"""Compiles what batches need before the server listens: the first of a fresh install would stop everybody for seconds.

Later starts find the compiled code in numba's cache, and take 0.3 s.
"""

from __future__ import annotations

import pyarrow as pa

from seglog.log.opening import open_log
from seglog.storage import MemoryStorage
from seglog.topic.fetch import fetch_batches
from seglog.topic.split import split_by_partition


def compile_kernels() -> None:
    """Write a batch with keys and headers into a log in memory, split over partitions, and read it back."""
    headers = pa.array(
        [[{"key": "k", "value": b"v"}]] * 2, pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    )
    table = pa.table({"key": [b"a", b"b"], "value": [b"1", None], "headers": headers})
    parts, _ = split_by_partition(table, 2, 0)
    with open_log(MemoryStorage()) as log:
        for part in parts.values():
            log.append_batch(part)
        fetch_batches(log, 0, max_records=10, max_bytes=1024, values="binary")
