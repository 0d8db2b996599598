"""Return memory that was used briefly to the system; glibc and Arrow would keep it for reuse.

Operators measure a server's resident memory, and a batch or a large answer takes hundreds of times the memory of a
small request. Without glibc this module does nothing.
"""

from __future__ import annotations

import ctypes
import gc
from time import monotonic

import pyarrow as pa

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
ARENAS = 2  # for threads, beside the main one: each keeps freed memory
LARGE_BYTES = 256 * 1024  # allocations from this size on are mapped, and unmapped when freed
KEPT_BYTES = 1024 * 1024  # of freed memory, until the next `release`: a request takes again what the last one freed
EVERY_SECONDS = 1.0
COLLECT_SECONDS = 20.0  # a collection with a thousand connections holds the interpreter for 50 to 100 ms


class Allocator:
    """The process's allocators."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._trim = getattr(self._libc, "malloc_trim", None)
        self._next_at = 0.0
        self._collect_at = 0.0

    def tune(self) -> None:
        """Map large allocations individually and limit the arenas."""
        if self._trim is None:
            return
        self._libc.mallopt(M_ARENA_MAX, ARENAS)
        self._libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        self._libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)

    @staticmethod
    def settle() -> None:
        """Exclude existing objects from later garbage collections: most of them would be looked at in vain."""
        gc.collect()
        gc.freeze()

    def is_due(self) -> bool:
        """Whether a second has passed since the last `release`."""
        return monotonic() >= self._next_at

    def release(self) -> None:
        """Return unused memory to the system; takes milliseconds, so call it on a thread.

        Collects garbage from time to time. What holds much memory is in no cycle: see `tracebacks`, and the protocol.
        """
        now = monotonic()
        self._next_at = now + EVERY_SECONDS
        if now >= self._collect_at:
            self._collect_at = now + COLLECT_SECONDS
            gc.collect()
        pa.default_memory_pool().release_unused()
        if self._trim is not None:
            self._trim(0)
