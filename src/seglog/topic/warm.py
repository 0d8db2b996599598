"""Run batches through the kernels in advance, so that a user's first batch does not wait for the compiler.

An installation with compiled kernels loads them in milliseconds. If numba compiles them, this takes up to half a minute
the first time; later processes use the cached code (`seglog.kernels.jit`).
"""

from __future__ import annotations

from typing import NamedTuple

import pyarrow as pa

from seglog.config import LogConfig, Retention
from seglog.log.opening import open_log
from seglog.storage import MemoryStorage
from seglog.topic.fetch import fetch_batches
from seglog.topic.partition_split import split_by_partition

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Warmed(NamedTuple):
    """Where the compiled code is: a library of this installation, or numba's cache.

    path: None if no cache directory is writable, so that every process compiles.
    """

    kind: str
    path: str | None


def _sample() -> pa.Table:
    headers = pa.array([[{"key": "k", "value": b"v"}]] * 2, HEADERS)
    return pa.table({"key": [b"a", b"b"], "value": [b"1", None], "headers": headers})


def warm_batches() -> None:
    """Write a batch with keys and headers to a log in memory, split over partitions, and read it back."""
    parts, _ = split_by_partition(_sample(), 2, 0)
    with open_log(MemoryStorage()) as log:
        for part in parts.values():
            log.append_batch(part)
        fetch_batches(log, 0, max_records=10, max_bytes=1024, values="binary")


def warm() -> Warmed:
    """Write, read, verify and compact batches of each layout; return where the compiled code is."""
    from seglog.kernels.memory import LIBRARY  # noqa: PLC0415 - imports the compiler if there is no library

    warm_batches()
    table = _sample()
    views = table.set_column(1, "value", table["value"].cast(pa.binary_view()))
    with open_log(MemoryStorage(), LogConfig(retention=Retention(compact=True))) as log:
        for batch in (table, views, table.select(["key", "value"])):
            log.append_batch(batch)
        log.verify()
        log.compact(roll=True)
        for values in ("view", "binary"):
            log.to_arrow(values=values)
    if LIBRARY is not None:
        return Warmed("compiled ahead of time", str(LIBRARY.path))
    from seglog.kernels.jit import cache_directory  # noqa: PLC0415 - numba is imported by now

    where = cache_directory()
    return Warmed("compiled by numba", None if where is None else str(where))
