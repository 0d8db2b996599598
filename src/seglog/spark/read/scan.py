"""Read one range of one log in a task: check that it is still what was planned, then yield its records.

`site` provides the records, `batches` converts them.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from seglog.errors import LogNotFound, LogTruncated, OffsetOutOfRange, SnapshotExpired
from seglog.spark.read.batches import SparkColumns
from seglog.spark.read.data_loss import Loss, lost_below, report
from seglog.spark.read.extents import LogSnapshot
from seglog.spark.read.local_logs import LocalSite
from seglog.spark.worker_process import keep_loaded
from seglog.topic.layout.places import Place

if TYPE_CHECKING:
    from seglog.spark.read.log_access import Held, Site
    from seglog.spark.read.plan import OffsetRange

_LOG = logging.getLogger("seglog.spark")
LOOKS = 10  # without a record in between; more would mean that looks and reads contradict each other


class RangeScan:
    """Reads one range as Arrow batches for Spark. bytes_read: of stores or answers, so far."""

    def __init__(
        self,
        part: OffsetRange,
        columns: Sequence[str],
        *,
        fail_on_data_loss: bool,
        site: Site | None = None,
    ) -> None:
        """site: the log's site, closed after reading; None: a file system, at the range's path."""
        self._part = part
        self._site = LocalSite(part.path) if site is None else site
        self._place = Place(part.topic, part.partition, part.path)
        self._columns = SparkColumns(part.topic, part.partition, columns)
        self._fail = fail_on_data_loss
        self._next = part.start
        self.bytes_read = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records in offset order.

        Of a planned read: as they were when it was planned. Raises SnapshotExpired if that is no longer possible.
        Raises LogTruncated or OffsetOutOfRange if the log has lost some since planning, LogNotFound if it is gone,
        CorruptRecord for a damaged one. With fail_on_data_loss=False loss is only logged.
        """
        try:
            with self._site:
                yield from self._read() if self._part.snapshot is None else self._read_planned()
        except LogNotFound:
            if self._fail:
                raise
            _LOG.warning("%s: the log is gone; continuing without it", self._place.path)
        keep_loaded()

    def _read_planned(self) -> Iterator[pa.RecordBatch]:
        """Read as it was planned what no truncate and no retention has removed since."""
        try:
            held = self._site.hold_planned(self._part)
            yield from self._batches(held, *self._still_there(held.snapshot))
        except SnapshotExpired as error:
            self._still_there(self._site.hold(self._place).snapshot)
            if self._fail:
                raise
            _LOG.warning("%s; continuing with what exists", error)
            yield from self._read()

    def _read(self) -> Iterator[pa.RecordBatch]:
        """Read from one look at the log, and from the next if the log has changed meanwhile."""
        looks = 0
        while True:
            held = self._site.hold(self._place)
            start, stop = self._still_there(held.snapshot)
            try:
                yield from self._batches(held, start, stop)
            except (LogTruncated, OffsetOutOfRange, SnapshotExpired):
                looks = looks + 1 if self._next <= start else 0
                if looks == LOOKS:
                    raise
                continue  # the next look shows what is lost
            return

    def _still_there(self, snapshot: LogSnapshot) -> tuple[int, int]:
        """Return what is left of the rest of the range; report what is gone."""
        part, start, stop = self._part, self._next, self._part.stop
        loss = lost_below(snapshot, part.position)
        if loss is not None:
            report(snapshot, loss, fail=self._fail)
            stop = min(stop, loss.resume) if snapshot.log == part.position.log else start
        if start < min(snapshot.lowest_offset, stop):
            lowest = snapshot.lowest_offset
            reason = f"offsets {start} up to {min(lowest, stop)} expired before they were read"
            report(snapshot, Loss(start, reason, lowest, expired=True), fail=self._fail)
            start = lowest
        return start, min(stop, snapshot.next_offset)

    def _batches(self, held: Held, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        if start >= stop:
            return
        before = self.bytes_read
        for batch, following in held.batches(start, stop):
            yield self._columns.convert(batch)
            self._next = max(self._next, following)
            self.bytes_read = before + held.bytes_read
        self.bytes_read = before + held.bytes_read
