"""A view: one manifest and the segments it names. Reading by a view is consistent; as long as somebody holds it, the
files it names are not unlinked.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Iterator
from weakref import WeakSet

from seglog.format.manifest import Manifest
from seglog.log.cache import SegmentCache
from seglog.record import Record
from seglog.segment.reader import OnCorrupt, SegmentReader


class View:
    """The segments of one manifest. `active` grows while it is the log's present view."""

    __slots__ = ("__weakref__", "active", "bases", "cache", "manifest")

    def __init__(self, manifest: Manifest, active: SegmentReader, cache: SegmentCache) -> None:
        self.manifest = manifest
        self.bases = manifest.bases
        self.active = active
        self.cache = cache

    @property
    def lowest_offset(self) -> int:
        """The first offset."""
        return self.manifest.start

    @property
    def next_offset(self) -> int:
        """One behind the last visible offset."""
        return self.active.next_offset

    def reader_of(self, offset: int) -> SegmentReader:
        """Return the segment in whose range the offset falls."""
        if offset >= self.bases[-1]:
            return self.active
        return self.cache.get(self.manifest.segments[max(bisect_right(self.bases, offset) - 1, 0)])

    def readers(self, start: int, stop: int) -> Iterator[SegmentReader]:
        """Yield the segments that hold offsets of start..stop, in order, each opened when reached."""
        for number in range(max(bisect_right(self.bases, start) - 1, 0), len(self.bases)):
            if self.bases[number] >= stop:
                return
            if number == len(self.bases) - 1:
                yield self.active
            elif (self.manifest.segments[number].next_offset or 0) > start:
                yield self.cache.get(self.manifest.segments[number])

    def scan(self, start: int, stop: int, on_corrupt: OnCorrupt | None = None) -> Iterator[Record]:
        """Yield the records start <= offset < stop."""
        for reader in self.readers(start, stop):
            yield from reader.scan(max(start, reader.base_offset), min(stop, reader.next_offset), on_corrupt)

    def file_of(self, offset: int) -> int:
        """Return the number of the file in which the offset stands."""
        return self.manifest.segments[max(bisect_right(self.bases, offset) - 1, 0)].file


class Views:
    """The views that are still in use in this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: WeakSet[View] = WeakSet()

    def add(self, view: View) -> View:
        """Take note of a view; it counts as long as somebody holds it."""
        with self._guard:
            self._held.add(view)
        return view

    def oldest_version(self) -> int | None:
        """Return the oldest manifest version still read by, None where none is."""
        with self._guard:
            return min((view.manifest.version for view in self._held), default=None)
