"""The audit of segments in a task: checks every byte as `verify` does, and summarises the readable records.

A task yields rows of one wide schema (`keys.SCHEMA`): a report for each segment, a summary of each key in each stretch
of records, and the identities of records that have one. Summaries of neighbouring stretches can be joined, so nothing
grows with a segment. Knows no Spark session.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.convert import decode_batches
from seglog.errors import SeglogError
from seglog.format.manifest import SegmentEntry
from seglog.log.opening import storage_at
from seglog.log.repair.verify import SegmentCheck
from seglog.segment.follower import ActiveFollower
from seglog.segment.reader import SegmentReader
from seglog.segment.resync import find_record
from seglog.segment.sealed import open_sealed
from seglog.spark.audit.keys import Stretch, identities, key_summaries, report_row
from seglog.spark.read.batches import SparkColumns

STRETCH_ROWS = 131_072
INTERVAL = 4096  # bytes between entries of lookups that must be rebuilt in memory


@dataclass(frozen=True, slots=True)
class SegmentShare:
    """Neighbouring segments of one log for one task.

    entries: their manifest lines; start, stop: the log's offsets at planning; delivered: for each group, offsets before
    it were delivered; identity: the header that identifies an append, "content", or None.
    """

    topic: str
    partition: int
    path: str
    entries: tuple[bytes, ...]
    start: int
    stop: int
    delivered: tuple[int, ...]
    identity: str | None


@dataclass
class SegmentReport:
    """What one segment holds of the audited offsets, base to end (exclusive); times in us.

    lost: runs of offsets that should hold a record and do not: (first, end, records). corrupt: records that fail their
    checks; problems: all damage, as `verify` names it. backwards: records older than the one before them; first_... and
    last_...: of the readable records, None if there are none. undelivered: for each group, records after the delivered
    offset.
    """

    base: int
    end: int
    bytes: int = 0
    records: int = 0
    tombstones: int = 0
    backwards: int = 0
    corrupt: int = 0
    first_offset: int | None = None
    last_offset: int | None = None
    first_time: int | None = None
    last_time: int | None = None
    lost: list[tuple[int, int, int]] = field(default_factory=list)
    problems: list[dict[str, Any]] = field(default_factory=list)
    undelivered: list[int] = field(default_factory=list)


def audit_segments(share: SegmentShare) -> Iterator[pa.RecordBatch]:
    """Yield the rows for the segments of a share."""
    for line in share.entries:
        yield from _SegmentAudit(share, SegmentEntry.from_values(json.loads(line))).rows()


class _SegmentAudit:
    """The audit of one segment."""

    def __init__(self, share: SegmentShare, entry: SegmentEntry) -> None:
        self.share = share
        self.entry = entry
        self.start = max(share.start, entry.base_offset)
        self.stop = max(min(share.stop, entry.next_offset or share.stop), self.start)
        self.report = SegmentReport(entry.base_offset, self.stop, undelivered=[0] * len(share.delivered))
        self._expected = self.start
        columns = ["key", "offset", "timestamp"]
        if share.identity is not None:
            columns += ["headers", "value"] if share.identity == "content" else ["headers"]
        self._columns = SparkColumns(share.topic, share.partition, columns)

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Check the segment, read all of it, and yield its rows, the report last."""
        self._check()
        for batch in self._readable():
            yield from self._pass_by(batch)
        self._end()
        report = json.dumps(dataclasses.asdict(self.report))
        yield report_row(self.share.topic, self.share.partition, report)

    def _check(self) -> None:
        check = SegmentCheck(storage_at(self.share.path), self.entry)
        for position in check.run():
            self.report.bytes = position
        self.report.problems = [dataclasses.asdict(problem) for problem in check.problems]
        self.report.corrupt = sum(problem.records for problem in check.problems if problem.kind == "record")

    def _readable(self) -> Iterator[pa.RecordBatch]:
        """Yield the readable records; the check has reported those skipped here."""
        try:
            reader = self._reader()
        except SeglogError:
            if not self.report.problems:
                raise
            return
        base, end, data = self.entry.base_offset, reader.size, reader.store.map()
        position, expected = reader.rules.codec.header_bytes, base
        while position < end and expected < self.stop:
            decoder = decode_batches(
                data,
                path=reader.store.path,
                salt=reader.rules.salt,
                base_offset=base,
                relative=expected - base,
                position=position,
                end=end,
                dense=self.entry.dense,
                max_records=STRETCH_ROWS,
                tail=True,
                first=self.start - base,
                stop=self.stop - base,
            )
            yield from decoder
            if decoder.reason is None:
                return
            least = base + decoder.next_relative
            found = find_record(reader.store, reader.rules, position=decoder.position + 1, end=end, least=least)
            if found is None:
                return
            position, expected = found

    def _reader(self) -> SegmentReader:
        storage = storage_at(self.share.path)
        if self.entry.sealed:
            return open_sealed(storage, self.entry, interval=INTERVAL, heal=False)
        active = ActiveFollower(storage, self.entry, interval=INTERVAL, durable=False)
        active.refresh()
        return active.reader

    def _pass_by(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Add a stretch of readable records to the report and yield its keys and identities."""
        share, table = self.share, self._columns.convert(batch)
        stretch = Stretch(
            table.column("key"),
            table.column("offset").to_numpy(),
            table.column("timestamp").cast(pa.int64()).to_numpy(),
            batch.column("value").is_null().to_numpy(zero_copy_only=False),
        )
        self._count(stretch)
        yield from key_summaries(share.topic, share.partition, stretch, share.delivered)
        if share.identity is not None:
            yield from identities(share.topic, share.partition, table, share.identity)

    def _count(self, stretch: Stretch) -> None:
        report, offsets, times = self.report, stretch.offsets, stretch.times
        if self.entry.dense:
            steps = np.diff(offsets, prepend=self._expected - 1)
            for row in np.flatnonzero(steps > 1):
                self._lose(int(offsets[row] - steps[row]) + 1, int(offsets[row]))
        before = times[0] if report.last_time is None else report.last_time
        report.backwards += int(np.count_nonzero(np.diff(times, prepend=before) < 0))
        report.records += len(offsets)
        report.tombstones += int(np.count_nonzero(stretch.tombstones))
        for group, cut in enumerate(self.share.delivered):
            report.undelivered[group] += int(np.count_nonzero(offsets >= cut))
        if report.first_offset is None:
            report.first_offset, report.first_time = int(offsets[0]), int(times[0])
        report.last_offset, report.last_time = int(offsets[-1]), int(times[-1])
        self._expected = report.last_offset + 1

    def _lose(self, start: int, stop: int) -> None:
        self.report.lost.append((start, stop, stop - start))

    def _end(self) -> None:
        """Note what is lost at the end; with gaps in the offsets only how many records a sealed segment lacks."""
        if self.entry.dense:
            if self._expected < self.stop:
                self._lose(self._expected, self.stop)
            return
        whole = (self.start, self.stop) == (self.entry.base_offset, self.entry.next_offset)
        lacking = (self.entry.records or 0) - self.report.records
        if whole and lacking > 0:
            self.report.lost.append((self.start, self.stop, lacking))
