"""Open sealed segments, the most recently used ones: file descriptors and lookups stay bounded however long the log is.

An evicted segment is only forgotten; its files close when the last reader that still uses it lets go.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from seglog.format.manifest import SegmentEntry
from seglog.segment.reader import SegmentReader
from seglog.segment.sealed import open_sealed
from seglog.storage import Storage


class SegmentCache:
    """Readers of sealed segments by file number."""

    def __init__(self, storage: Storage, *, limit: int, interval: int, heal: bool) -> None:
        self._storage = storage
        self._limit = limit
        self._interval = interval
        self._heal = heal
        self._guard = threading.Lock()
        self._open: OrderedDict[int, SegmentReader] = OrderedDict()

    def get(self, entry: SegmentEntry) -> SegmentReader:
        """Return the reader of a sealed segment, opening it where needed."""
        with self._guard:
            reader = self._open.get(entry.file)
            if reader is None or reader.size != entry.bytes:
                reader = open_sealed(self._storage, entry, interval=self._interval, heal=self._heal)
                self._open[entry.file] = reader
                if len(self._open) > self._limit:
                    self._open.popitem(last=False)
            self._open.move_to_end(entry.file)
            return reader

    def renew_guard(self) -> None:
        """In a forked child: another thread of the parent may have held the guard."""
        self._guard = threading.Lock()

    def __len__(self) -> int:
        return len(self._open)

    def drop(self, entries: Iterable[SegmentEntry]) -> None:
        """Forget segments that left the log."""
        with self._guard:
            for entry in entries:
                self._open.pop(entry.file, None)

    def clear(self) -> None:
        """Forget all."""
        with self._guard:
            self._open.clear()
