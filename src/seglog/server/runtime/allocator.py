"""Return memory that was used briefly to the system; glibc and Arrow would keep it for reuse.

Operators measure a server's resident memory, and a batch or a large answer takes hundreds of times the memory of a
small request. Without glibc this module does nothing.
"""

from __future__ import annotations

import ctypes
import gc
from contextlib import contextmanager
from time import monotonic
from typing import TYPE_CHECKING

import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Iterator

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # malloc.h
ARENAS = 2  # for threads, beside the main one: each keeps freed memory
LARGE_BYTES = 256 * 1024  # allocations from this size on are mapped, and unmapped when freed
EVERY_SECONDS = 1.0
SHARE = 0.01  # of the time may go into full garbage collections: all other threads wait for them
NEVER = 1_000_000_000


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
        self._libc.mallopt(M_TRIM_THRESHOLD, LARGE_BYTES)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """Exclude existing objects from garbage collections, and leave full ones to `release`.

        A full collection takes about a millisecond then, and 50 with thousands of requests under way.
        """
        thresholds, frozen = gc.get_threshold(), gc.get_freeze_count()
        gc.collect()
        gc.freeze()
        gc.set_threshold(*thresholds[:2], NEVER)
        try:
            yield
        finally:
            gc.set_threshold(*thresholds)
            if not frozen:
                gc.unfreeze()

    def is_due(self) -> bool:
        """Whether a second has passed since the last `release`."""
        return monotonic() >= self._next_at

    def release(self) -> None:
        """Return unused memory to the system; takes milliseconds, so call it on a thread.

        Collects garbage first, if that is due: a failed answer may be part of an error's reference cycle.
        """
        begun = monotonic()
        self._next_at = begun + EVERY_SECONDS
        if begun >= self._collect_at:
            gc.collect()
            ended = monotonic()
            self._collect_at = ended + (ended - begun) / SHARE
        pa.default_memory_pool().release_unused()
        if self._trim is not None:
            self._trim(0)
