"""The streaming reader: decides where each micro-batch ends, and what of each log belongs to it.

Spark keeps one instance on the driver while a query runs, and creates others for the tasks. The offsets (`offsets`
defines their form) contain everything a query must remember, so a restart, or a kill at any moment, continues from the
checkpoint: nothing is lost and nothing read twice.

A partition or topic that appears while the query runs, or while it was down, is read from its first record. One that
disappears is loss. `loss` defines what counts as loss; with failOnDataLoss=false it is only logged, and records that
were read before may be read again.

With startingOffsets latest (the default) "latest" is the moment when Spark plans the query's first micro-batch, which
it does immediately, with or without records. Trigger.AvailableNow reads up to the logs' ends at its start, and respects
maxOffsetsPerTrigger but not minOffsetsPerTrigger; Trigger.Once ignores both. The wait of maxTriggerDelay starts with
the last micro-batch, or with the query: a restart neither ends the wait at once nor forgets the minimum.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from seglog.errors import LogTruncated
from seglog.spark.read import bounds
from seglog.spark.read.admission import shares
from seglog.spark.read.counting import Counter
from seglog.spark.read.data_loss import ADVICE, Loss, lost_below, position_at, report
from seglog.spark.read.extents import LogSnapshot
from seglog.spark.read.offsets import Json, Progress, decode, encode
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.plan import Share, plan_read
from seglog.spark.read.reader import RangePartition, read_range
from seglog.spark.read.sites import site_of
from seglog.topic.layout.places import Partition

if TYPE_CHECKING:
    import pyarrow as pa

_LOG = logging.getLogger("seglog.spark")
# A task costs more than reading this: a micro-batch of a few records is one task per partition.
LEAST_TASK_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class _Pending:
    """Unread records of one partition: offsets begin .. end (exclusive)."""

    snapshot: LogSnapshot
    begin: int
    end: int


class SeglogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans micro-batches on the driver, reads them on executors. The path or URL must mean the same on both."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options
        self._site = site_of(options)
        self._counter = Counter(self._site)
        self._targets: dict[Partition, int] | None = None
        self._seen: dict[Partition, LogSnapshot] = {}
        self._triggered = time.monotonic()

    def __getstate__(self) -> dict[str, Any]:
        """Return what a task needs: the options. The rest belongs to the driver."""
        return {"options": self.options}

    # --- how far ----------------------------------------------------------------------------------------------------

    def initialOffset(self) -> Json:  # noqa: N802 - Spark's names, here and below
        """Return where a new query starts."""
        if self.options.positions is not None:
            return encode(decode(self.options.positions))
        snapshots = self._site.look_at_all(self._site.places(self.options.selection))
        starts = bounds.starts(snapshots, self.options, self._site.offset_at)
        return encode(
            {
                snapshot.key: Progress(position_at(snapshot, start), start)
                for snapshot, start in zip(snapshots, starts, strict=True)
            }
        )

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the options' limit; of two limits the upper one, since Spark takes one."""
        if self.options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self.options.max_offsets_per_trigger)
        if self.options.min_offsets_per_trigger is not None:
            return ReadMinRows(self.options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Fix the end of every log: this query reads no further."""
        self._targets = {snapshot.key: snapshot.next_offset for snapshot in self._look()}

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return where the next micro-batch ends: `start` itself if none is due."""
        known = decode(start)
        if any(part.wait for part in known.values()):
            return encode({key: _waited(part) for key, part in known.items()})
        pending = self._pending(known)
        waiting = [self._counter.count(part.snapshot, part.begin, part.end) for part in pending]
        if not self._is_due(sum(waiting), limit):
            return start
        ends = self._ends(pending, waiting, limit)
        after = {part.snapshot.key: _moved(part, end) for part, end in zip(pending, ends, strict=True)}
        if {key: part.position for key, part in after.items()} == {key: part.position for key, part in known.items()}:
            return start
        self._triggered = time.monotonic()
        return encode(after)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Return the ends of the logs at the last look, for the query's progress report."""
        topics: dict[str, dict[str, int]] = {}
        for (topic, partition), snapshot in sorted(self._seen.items()):
            topics.setdefault(topic, {})[str(partition)] = snapshot.next_offset
        return topics or None

    def _look(self) -> list[LogSnapshot]:
        found = self._site.look_at_those_left(self._site.places(self.options.selection))
        self._seen = {snapshot.key: snapshot for snapshot in found}
        return found

    def _pending(self, known: dict[Partition, Progress]) -> list[_Pending]:
        snapshots = self._look()
        self._report_gone(known)
        pending = []
        for snapshot in snapshots:
            if self._targets is not None and snapshot.key not in {*self._targets, *known}:
                continue  # it appeared after the query started
            begin, end = self._begin(snapshot, known.get(snapshot.key)), snapshot.next_offset
            if self._targets is not None:
                end = min(end, self._targets.get(snapshot.key, begin))
            pending.append(_Pending(snapshot, begin, max(begin, end)))
        return pending

    def _report_gone(self, known: dict[Partition, Progress]) -> None:
        for topic, partition in sorted(known.keys() - self._seen.keys()):
            text = f"partition {partition} of topic {topic!r} is gone"
            if self.options.fail_on_data_loss:
                raise LogTruncated(f"{text}; {ADVICE}")
            _LOG.warning("%s; continuing without it", text)

    def _begin(self, snapshot: LogSnapshot, progress: Progress | None) -> int:
        """Return where to continue in a log; report what was lost."""
        loss = _lost_of_new(snapshot) if progress is None else lost_below(snapshot, progress.position)
        if loss is None:
            return snapshot.initial_offset if progress is None else progress.position.offset
        report(snapshot, loss, fail=self.options.fail_on_data_loss)
        return loss.resume

    def _is_due(self, waiting: int, limit: ReadLimit) -> bool:
        """Whether there are enough records, or the wait for them was long enough."""
        least = self.options.min_offsets_per_trigger
        if least is None or self._targets is not None or isinstance(limit, ReadAllAvailable) or waiting >= least:
            return True
        return time.monotonic() - self._triggered >= self.options.max_trigger_delay

    def _ends(self, pending: list[_Pending], waiting: list[int], limit: ReadLimit) -> list[int]:
        if not isinstance(limit, ReadMaxRows):
            return [part.end for part in pending]
        taken = shares(waiting, limit.max_rows, turn=sum(part.begin for part in pending))
        return [
            self._counter.end_of(part.snapshot, part.begin, part.end, records) if records < there else part.end
            for part, records, there in zip(pending, taken, waiting, strict=True)
        ]

    # --- what belongs to a micro-batch ------------------------------------------------------------------------------

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """Return the ranges of a micro-batch; the end contains its start, so they are the same after a restart."""
        if start == end:
            return []
        wanted = decode(end)
        snapshots = {snapshot.key: snapshot for snapshot in self._look()}
        self._report_gone(wanted)
        found = [
            Share(snapshots[key], part.start, part.position.offset, part.position)
            for key, part in wanted.items()
            if key in snapshots and part.start < part.position.offset
        ]
        for share in found:
            self._check(share)
        plan = plan_read(found, self.options, least_bytes=LEAST_TASK_BYTES)
        _LOG.info("planned a micro-batch of %s: %s", self.options.where, plan.figures)
        return [RangePartition(part) for part in plan.ranges]

    def _check(self, share: Share) -> None:
        """Report what a micro-batch wants but the log does not hold: no task would notice."""
        loss = lost_below(share.snapshot, share.position)
        lowest = share.snapshot.lowest_offset
        if loss is None and share.start < lowest:
            loss = Loss(share.start, f"offsets {share.start} up to {lowest} expired", lowest, expired=True)
        if loss is not None:
            report(share.snapshot, loss, fail=self.options.fail_on_data_loss)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range in offset order."""
        return read_range(partition, self.options)

    def commit(self, end: Json) -> None:
        """Do nothing: the checkpoint keeps the offsets, and the log its own retention."""

    def stop(self) -> None:
        """Release the logs."""
        self._site.close()


def _lost_of_new(snapshot: LogSnapshot) -> Loss | None:
    """Return what a partition that is new to the query has already lost."""
    first, lowest = snapshot.initial_offset, snapshot.lowest_offset
    if lowest <= first:
        return None
    return Loss(first, f"it is new here, but offsets {first} up to {lowest} expired", lowest, expired=True)


def _moved(part: _Pending, end: int) -> Progress:
    """Return the progress of a partition.

    Its position is refreshed even if nothing of it is taken: a truncate above it, or a compaction, that was harmless so
    far could not be distinguished from loss after the next one.
    """
    return Progress(position_at(part.snapshot, end), part.begin)


def _waited(part: Progress) -> Progress:
    """Return the progress after a micro-batch that reads no record."""
    return replace(part, start=part.position.offset, wait=max(0, part.wait - 1))
