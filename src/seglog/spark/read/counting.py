"""Count the records between two offsets, and find the offset where a number of them ends.

In a segment without gaps this is arithmetic; for a whole segment with gaps the manifest has the count. Only for a part
of a segment with gaps is the log read, and the counts are cached.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.spark.read.extents import Extent, LogSnapshot
    from seglog.spark.read.log_access import Site

REMEMBERED = 1000


class Counter:
    """Counts records in the logs of a site."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._known: dict[tuple[str, int, int, int], int] = {}

    def count(self, snapshot: LogSnapshot, start: int, stop: int) -> int:
        """Return how many records have offsets start .. stop (exclusive)."""
        return sum(self._of_part(snapshot, extent, low, high) for extent, low, high in _parts(snapshot, start, stop))

    def end_of(self, snapshot: LogSnapshot, start: int, stop: int, records: int) -> int:
        """Return the offset after the first `records` records of start .. stop; `stop` if there are no more."""
        for extent, low, high in _parts(snapshot, start, stop):
            if records == 0:
                return low
            there = self._of_part(snapshot, extent, low, high)
            if records < there:
                if _is_dense(extent):
                    return low + records
                return _nth(self._batches(snapshot, low, high), high, records)
            records -= there
        return stop

    def _of_part(self, snapshot: LogSnapshot, extent: Extent, low: int, high: int) -> int:
        if _is_dense(extent):
            return high - low
        if (low, high) == (extent.start, extent.stop) and extent.records is not None:
            return extent.records
        part = (snapshot.log, extent.file, low, high)
        if part not in self._known:
            if len(self._known) >= REMEMBERED:
                self._known.clear()
            self._known[part] = sum(batch.num_rows for batch in self._batches(snapshot, low, high))
        return self._known[part]

    def _batches(self, snapshot: LogSnapshot, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Yield what the log still holds of a range; loss is reported elsewhere."""
        held = self._site.hold(snapshot.place)
        start, stop = max(start, held.snapshot.lowest_offset), min(stop, held.snapshot.next_offset)
        for batch, _ in held.batches(start, stop):
            yield batch


def _parts(snapshot: LogSnapshot, start: int, stop: int) -> Iterator[tuple[Extent, int, int]]:
    """Yield the segments that hold offsets of start .. stop, with the offsets."""
    for extent in snapshot.extents:
        low, high = max(extent.start, start), min(extent.stop, stop)
        if low < high:
            yield extent, low, high


def _is_dense(extent: Extent) -> bool:
    return extent.records == extent.stop - extent.start


def _nth(batches: Iterator[pa.RecordBatch], stop: int, records: int) -> int:
    """Return the offset after the first `records` records of some batches, `stop` if there are fewer."""
    for batch in batches:
        if records <= batch.num_rows:
            return int(np.asarray(batch.column("offset"))[records - 1]) + 1
        records -= batch.num_rows
    return stop
