"""A bounded cache of objects' bytes on the local disk: one sparse file for each archived file, filled in blocks.

The files have no names, so none remains after a process dies. What is read repeatedly, and every memory map,
comes from here.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from seglog.storage.mapping import map_file
from seglog.storage.system_calls import close_descriptor, errors_naming, pwrite_rest
from seglog.uncopied import Uncopied

BLOCK_BYTES = 256 * 1024
AHEAD_BYTES = 8 * 1024 * 1024
"""Maximum bytes of one request, and how far a sequential reader reads ahead."""
CACHE_BYTES = 1024**3
FETCHES_AT_ONCE = 4


class Fetch(Protocol):
    """Returns the bytes start..stop of an archived file from the object store."""

    def __call__(self, start: int, stop: int) -> bytes:
        """Return all of them; StorageError if that is not possible."""
        ...


class CachedFile(Uncopied):
    """The cached blocks of one archived file. Blocks are fetched once, also by several threads."""

    def __init__(self, directory: str | None) -> None:
        with errors_naming(directory or tempfile.gettempdir()):
            self._descriptor, path = tempfile.mkstemp(prefix="seglog-archive-", dir=directory)
            os.unlink(path)  # noqa: PTH108 - from here on the file has no name
        self._path = path
        self._blocks: set[int] = set()
        self._short = (-1, 0)  # an incomplete block, which may grow, and its end
        self._guard = threading.RLock()
        self._last = -1
        self._ahead = BLOCK_BYTES
        self.bytes = 0

    def read(self, start: int, stop: int, size: int, fetch: Fetch) -> bytes:
        """Return the bytes start..stop of a file of `size` bytes."""
        with self._guard:
            self.fill(start, self._reach(start, stop, size), size, fetch)
            with errors_naming(self._path):
                return os.pread(self._descriptor, stop - start, start)

    def _reach(self, start: int, stop: int, size: int) -> int:
        """Return the end of what to fetch: a sequential reader doubles its requests."""
        sequential = start // BLOCK_BYTES in (self._last, self._last + 1)
        last = (stop - 1) // BLOCK_BYTES
        if last in self._blocks or last == self._short[0] or not sequential:
            self._ahead = self._ahead if sequential else BLOCK_BYTES
        else:
            self._ahead = min(2 * self._ahead, AHEAD_BYTES)
            stop = max(stop, min(start + self._ahead, size))
        self._last = (min(stop, size) - 1) // BLOCK_BYTES
        return stop

    def fill(self, start: int, stop: int, size: int, fetch: Fetch) -> None:
        """Fetch the missing blocks of start..stop."""
        with self._guard:
            missing = list(self._missing(start, min(stop, size), size))
            if len(missing) <= 1:
                for first, last in missing:
                    self._store(first, last, size, fetch)
                return
            with ThreadPoolExecutor(FETCHES_AT_ONCE, "seglog-fetch") as pool:
                list(pool.map(lambda run: self._store(run[0], run[1], size, fetch), missing))

    def _store(self, first: int, last: int, size: int, fetch: Fetch) -> None:
        """Fetch blocks first..last."""
        begin, end = first * BLOCK_BYTES, min(last * BLOCK_BYTES, size)
        data = fetch(begin, end)
        with errors_naming(self._path):
            pwrite_rest(self._descriptor, data, 0, begin)
        whole = last if end == last * BLOCK_BYTES else last - 1
        self._blocks.update(range(first, whole))
        self._short = self._short if whole == last else (whole, end)
        self.bytes += len(data)

    def _missing(self, start: int, stop: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield runs of missing blocks, each of up to AHEAD_BYTES."""
        first = None
        most = AHEAD_BYTES // BLOCK_BYTES
        short = self._short[0] if self._short[1] == size else -1
        for block in range(start // BLOCK_BYTES, -(-stop // BLOCK_BYTES)):
            there = block in self._blocks or block == short
            if there or (first is not None and block - first == most):
                if first is not None:
                    yield first, block
                first = None if there else block
            elif first is None:
                first = block
        if first is not None:
            yield first, -(-stop // BLOCK_BYTES)

    def map(self, size: int) -> memoryview:
        """Map the first `size` bytes; what is not filled reads as zeros until it is."""
        if size == 0:
            return memoryview(b"")
        with self._guard, errors_naming(self._path):
            if os.fstat(self._descriptor).st_size < size:
                os.ftruncate(self._descriptor, size)
            return map_file(self._descriptor, size)

    def close(self) -> None:
        """Close the file; its bytes stay on the disk while they are mapped."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            close_descriptor(descriptor)

    __del__ = close


class Cache(Uncopied):
    """Cached files, least recently used evicted first. The one in use stays, also if it is larger than the limit."""

    def __init__(self, limit: int = CACHE_BYTES, directory: str | None = None) -> None:
        """limit: bytes of all files; directory: an existing one, default: the system's temporary directory."""
        self._limit = limit
        self._directory = directory
        self._files: OrderedDict[object, CachedFile] = OrderedDict()
        self._guard = threading.Lock()

    def get(self, key: object) -> CachedFile:
        """Return the cached file of a key, which must name the same bytes forever, though they may grow."""
        with self._guard:
            found = self._files.get(key)
            if found is None:
                found = self._files[key] = CachedFile(self._directory)
            self._files.move_to_end(key)
            total = sum(file.bytes for file in self._files.values())
            while total > self._limit and len(self._files) > 1:
                total -= self._files.popitem(last=False)[1].bytes
            return found

    @property
    def bytes(self) -> int:
        """Bytes in the cache."""
        with self._guard:
            return sum(file.bytes for file in self._files.values())
