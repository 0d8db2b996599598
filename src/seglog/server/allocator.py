"""Memory that was used for a moment goes back to the system: glibc and Arrow would keep it for next time.

A server's memory is measured from outside by what is resident, and a batch or an answer takes hundreds of times what a
small request does. Without glibc nothing is done here.
"""

from __future__ import annotations

import ctypes
import gc
from time import monotonic

import pyarrow as pa

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
ARENAS = 2  # of threads, beside the main one: each keeps what it was given
LARGE_BYTES = 256 * 1024  # from here on memory is mapped, and unmapped when it is freed
EVERY_SECONDS = 1.0


class Allocator:
    """The process's allocators, tuned and trimmed."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None)
        self._trim = getattr(self._libc, "malloc_trim", None)
        self._next_at = 0.0

    def tune(self) -> None:
        """Let large pieces be mapped each on their own, and few arenas grow."""
        if self._trim is None:
            return
        self._libc.mallopt(M_ARENA_MAX, ARENAS)
        self._libc.mallopt(M_MMAP_THRESHOLD, LARGE_BYTES)
        self._libc.mallopt(M_TRIM_THRESHOLD, LARGE_BYTES)

    @staticmethod
    def settle() -> None:
        """Leave out of all later collections what exists by now and stays: they then take a millisecond or so."""
        gc.collect()
        gc.freeze()

    def is_due(self) -> bool:
        """Whether a second has passed since the last `release`."""
        return monotonic() >= self._next_at

    def release(self) -> None:
        """Return unused memory to the system; takes milliseconds, on a thread.

        What an error left in a cycle is collected first: the answer that failed may be part of it.
        """
        self._next_at = monotonic() + EVERY_SECONDS
        gc.collect()
        pa.default_memory_pool().release_unused()
        if self._trim is not None:
            self._trim(0)
