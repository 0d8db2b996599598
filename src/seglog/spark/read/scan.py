"""Reading one range of one log, as a task does: first whether it is still what was planned, then its records.

How the bytes of a segment become batches is in `blocks`, what Spark gets of them in `batches`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from seglog.errors import LogNotFound, LogTruncated, OffsetOutOfRange
from seglog.log.opening import open_log
from seglog.spark.read.batches import SparkColumns
from seglog.spark.read.blocks import Blocks
from seglog.spark.read.loss import Loss, lost_below, report
from seglog.spark.read.place import snapshot_of
from seglog.topic.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from seglog.log.log import Log
    from seglog.log.view import View
    from seglog.spark.read.extents import LogSnapshot
    from seglog.spark.read.plan import OffsetRange
    from seglog.spark.read.pushdown import Restriction

_LOG = logging.getLogger("seglog.spark")


class RangeScan:
    """Reads one range as Arrow batches for Spark. bytes_read: of stores, so far."""

    def __init__(
        self, part: OffsetRange, columns: Sequence[str], restriction: Restriction, *, fail_on_data_loss: bool
    ) -> None:
        self._part = part
        self._place = Place(part.topic, part.partition, part.path)
        self._columns = SparkColumns(part.topic, part.partition, columns, restriction)
        self._fail = fail_on_data_loss
        self._next = part.start
        self.bytes_read = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the records in offset order.

        Raises LogTruncated or OffsetOutOfRange where the log has let go of some since the plan was made, LogNotFound
        where it is gone, CorruptRecord for a damaged one. With fail_on_data_loss=False what is gone is only warned of.
        """
        try:
            with open_log(self._place.path, mode="r") as log:
                yield from self._read(log)
        except LogNotFound:
            if self._fail:
                raise
            _LOG.warning("%s: the log is gone; going on without it", self._place.path)

    def _read(self, log: Log) -> Iterator[pa.RecordBatch]:
        """Read by one view of the log, and by the next where the log lets go of files of that one meanwhile."""
        while True:
            view = log.view()
            start, stop = self._still_there(snapshot_of(view, self._place))
            try:
                yield from self._batches(view, start, stop)
            except (LogTruncated, OffsetOutOfRange):
                if self._fail:
                    raise
                continue  # the next look warns of what is lost
            return

    def _still_there(self, snapshot: LogSnapshot) -> tuple[int, int]:
        """Return what there is of the rest of the range; what is not there any more is reported."""
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

    def _batches(self, view: View, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        if start >= stop:
            return
        for reader in view.readers(start, stop):
            blocks = Blocks(reader, start, stop)
            for batch in blocks:
                converted = self._columns.convert(batch)
                if converted is not None:
                    yield converted
                self._next = max(self._next, blocks.next_offset)
            self.bytes_read += blocks.bytes_read
