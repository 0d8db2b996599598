"""Open sealed segments, least recently used evicted first: descriptors and lookups stay bounded for any log length.

An evicted segment is only dropped from the cache; its files close when the last reader releases them.

There is no lock, because each step on the dictionary is one atomic call: a signal handler that waits for the log's
mutex may have interrupted a reader here. If two threads open the same segment at once, one of the readers is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress

from seglog.errors import CorruptLog, SeglogError, SnapshotExpired
from seglog.format import filename
from seglog.format.manifest import SegmentEntry
from seglog.log.journal import read_file
from seglog.segment.reader import SegmentReader
from seglog.segment.sealed import open_sealed
from seglog.storage import Storage
from seglog.storage.descriptors import OPEN_SEGMENTS


class SegmentCache:
    """Readers of sealed segments by salt, base offset and file number. File numbers alone are not unique in an archive;
    salts are not in a log that has a segment published twice, or compressed.
    """

    def __init__(self, storage: Storage, *, limit: int, interval: int, heal: bool) -> None:
        self._storage = storage
        self._limit = limit
        self._interval = interval
        self._heal = heal
        self._open: OrderedDict[tuple[int, int, int], SegmentReader] = OrderedDict()

    def get(self, entry: SegmentEntry) -> SegmentReader:
        """Return the reader of a sealed segment; open it if needed.

        Raises:
            SnapshotExpired: If its file is gone because the log replaced or deleted it, which can happen to a reader
                without a lease.
            CorruptLog: If its file is gone although the log names it.
        """
        key = entry.salt, entry.base_offset, entry.file
        reader = self._open.get(key)
        if reader is None or reader.size != entry.bytes or reader.next_offset != entry.next_offset:
            reader = self._opened(entry)
            self._open[key] = reader
            if len(self._open) > self._limit:
                self._forget_oldest()
            OPEN_SEGMENTS.add(self._forget_oldest)
        try:  # noqa: SIM105 - `suppress` takes longer than all the rest
            self._open.move_to_end(key)
        except KeyError:  # another thread has removed it meanwhile
            pass
        return reader

    def _opened(self, entry: SegmentEntry) -> SegmentReader:
        try:
            return open_sealed(self._storage, entry, interval=self._interval, heal=self._heal)
        except CorruptLog as error:
            if is_named(self._storage, entry):
                raise
            end = entry.next_offset or entry.base_offset
            raise SnapshotExpired(entry.base_offset, end, self._storage.path) from error

    def _forget_oldest(self) -> bool:
        """Evict the least recently used segment."""
        with suppress(KeyError):
            self._open.popitem(last=False)
        return True

    def __len__(self) -> int:
        return len(self._open)

    def drop(self, entries: Iterable[SegmentEntry]) -> None:
        """Evict segments that are no longer part of the log."""
        for entry in entries:
            self._open.pop((entry.salt, entry.base_offset, entry.file), None)

    def clear(self) -> None:
        """Evict all."""
        self._open.clear()


def is_named(storage: Storage, entry: SegmentEntry) -> bool:
    """Whether the log's present manifest names the file of a segment; True if that cannot be found out."""
    with suppress(SeglogError):
        file = read_file(storage)
        if file is None:  # the log was removed; or its manifest is lost, and was rebuilt for this reader
            return storage.identity(filename.MANIFEST_PREVIOUS) is not None
        segments = file.manifest.segments
        found = segments[segments.find(entry.base_offset)]
        return (found.base_offset, found.file, found.salt) == (entry.base_offset, entry.file, entry.salt)
    return True
