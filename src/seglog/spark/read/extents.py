"""What a log held at one moment, as far as planning needs it. Values only; `place` collects them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from functools import cached_property

from seglog.format.cuts import Cuts
from seglog.format.segment_entry import SegmentEntry
from seglog.log.history import KNOWN, Snapshot, Trace, files_in
from seglog.topic.layout.places import Partition, Place


@dataclass(frozen=True, slots=True)
class Extent:
    """One segment that holds offsets start .. stop (exclusive), and the bytes of its store.

    file: the number of its file, which only grows and is never reused. records: None if not counted; stop - start
    without gaps. entry: of a log in a directory, by which a task opens the file even if the log has replaced it since.
    """

    start: int
    stop: int
    bytes: int
    file: int = 0
    records: int | None = None
    dense: bool = True
    entry: SegmentEntry | None = None


@dataclass(frozen=True)
class LogSnapshot:
    """What one partition's log held. next_offset is exclusive; extents are in order. path: a directory, or a URL.

    log: the log's identity, hex; epoch: grows with every truncate; initial_offset: the first offset ever assigned.
    cuts: where it was truncated. version: of its manifest; it grows with each change of the segments except appends.
    """

    topic: str
    partition: int
    path: str
    lowest_offset: int
    next_offset: int
    extents: tuple[Extent, ...]
    log: str = ""
    epoch: int = 0
    initial_offset: int = 0
    cuts: Cuts = field(default_factory=Cuts)
    version: int = 0

    @property
    def key(self) -> Partition:
        """Topic and partition."""
        return self.topic, self.partition

    @property
    def place(self) -> Place:
        """The location of the log."""
        return Place(self.topic, self.partition, self.path)

    @cached_property
    def _starts(self) -> list[int]:
        return [extent.start for extent in self.extents]

    def trace_of(self, offset: int) -> Trace:
        """Return what is before an offset; see `seglog.log.view.View.trace_of`."""
        file = KNOWN if self.cuts.is_known_at(offset) else self.file_of(offset - 1)
        return Trace(self.log, self.cuts.epoch_at(offset), file)

    def between(self, start: int, stop: int) -> tuple[Extent, ...]:
        """Return the extents that hold offsets start .. stop (exclusive)."""
        first = max(bisect_right(self._starts, start) - 1, 0)
        near = self.extents[first : bisect_left(self._starts, stop)]
        return tuple(extent for extent in near if extent.stop > start)

    def snapshot_of(self, start: int, stop: int) -> Snapshot:
        """Return what the offsets start .. stop hold; see `seglog.log.view.View._snapshot_of`."""
        ours = (extent for extent in self.between(start, stop) if extent.file != KNOWN)
        stores = ((extent.start, extent.stop, extent.file) for extent in ours)
        return Snapshot(stop, self.trace_of(stop), self.version, files_in(stores, start, stop))

    def file_of(self, offset: int) -> int | None:
        """Return the number of the file whose range contains an offset, None if the log does not reach it.

        In a gap: that of the file before it, negated, as in `View.file_of`.
        """
        number = bisect_right(self._starts, offset) - 1
        if number < 0 or not self.lowest_offset <= offset < self.next_offset:
            return None
        extent = self.extents[number]
        return extent.file if offset < extent.stop else -extent.file

    def __str__(self) -> str:
        return f"partition {self.partition} of topic {self.topic!r}"
