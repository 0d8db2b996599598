"""`Log`, the object that `seglog.open` returns: every change of a log. `reading` and `followed` have the rest.

It is the contract: `writer.LogWriter` implements the changes, and `follower.LogFollower`, a log that was opened for
reading, rejects them with LogReadOnly.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from seglog.config import Compression
from seglog.deprecated import AlteredByName
from seglog.errors import LogPoisoned
from seglog.log.followed import FollowedLog
from seglog.log.info import CompactionReport, CompressionReport
from seglog.log.staging import StagedSegment
from seglog.record import Header, Record, Timestamp, checked_text

if TYPE_CHECKING:
    from seglog.arrow.encodable import EncodableRows
    from seglog.compaction.plan import CompactionPlan
    from seglog.compaction.rewrite import Outcome
    from seglog.compaction.schedule import Standing
    from seglog.log.appends.group import Appended, Draft
    from seglog.log.repair.repair import RepairReport
    from seglog.log.repair.verify import Progress


class Log(AlteredByName, FollowedLog):
    """An ordered, durable sequence of records, addressed by offset. A context manager; safe for threads."""

    @abstractmethod
    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset.

        It survives kill -9 once this returns, and power loss after `sync` or according to the flush policy.

        Args:
            value: Bytes, or None for a tombstone.
            key: Bytes, or None.
            timestamp: Microseconds since the epoch, UTC, or a datetime with a time zone; None for now.
            force_timestamp: Take a number that looks like seconds (1e9 to 1e11) or milliseconds (1e12 to 1e14) as it
                is. Without it such a number is refused, since as microseconds it is a time in 1970.
            headers: Pairs of str and bytes or None.
            expected_offset: Append only if the record gets this offset.

        Raises:
            OffsetConflict: If it would get another offset than expected; nothing is written.
            RecordTooLarge: If it fits no segment; nothing is written.
            KeyRequired: If the log is compacted by key and the record has none.
            StorageError: If the write fails; it is rolled back.
            LogPoisoned: If a sync failed, now or before.
        """

    @abstractmethod
    def append_each(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append many records as `append` does, with as few writes and syncs as possible.

        Returns for each draft its offset, or the error that `append` would raise. A failed write fails every record
        that was part of it.

        Args:
            drafts: The records; see `Draft`.

        Raises:
            LogPoisoned: If writing has ended: then none of them is acknowledged.
        """

    @abstractmethod
    def is_ready(self, length: int) -> bool:
        """Whether an append of `length` bytes could begin at once, and would neither roll a segment nor sync.

        A hint for callers that must not block, such as an event loop; it may be outdated by the time of the append.

        Args:
            length: Size of the encoded record in bytes.
        """

    @property
    @abstractmethod
    def failure(self) -> LogPoisoned | None:
        """The error that stopped writing until the log is opened again, a failed sync or rollback; else None."""

    @abstractmethod
    def append_at(self, offset: int, record: Record) -> int:
        """Append a record of another log at its own offset: next_offset, or a later one, which leaves a gap.

        Args:
            offset: The offset to use.
            record: The record; its own offset is ignored.

        Raises:
            OffsetConflict: If offset < next_offset.
            RecordTooLarge: If the record fits no segment.
            StorageError: If the write fails; it is rolled back.
        """

    @abstractmethod
    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
    ) -> int:
        """Append one record whose value comes in chunks, without holding all of it in memory, and return its offset.

        After any error no part of it is visible.

        Args:
            chunks: The value's bytes, in order.
            key: Bytes, or None.
            timestamp: Microseconds since the epoch, UTC, or a datetime with a time zone; None for now.
            force_timestamp: Take a number that looks like seconds (1e9 to 1e11) or milliseconds (1e12 to 1e14) as it
                is. Without it such a number is refused, since as microseconds it is a time in 1970.
            headers: Pairs of str and bytes or None.
            limit: Maximum size of the value in bytes.
            length: Size of the value in bytes, if known. Then the log rolls first if the record does not fit the active
                segment, as `append` does. Without it the record may use `segment_bytes - store size +
                segment_overflow_bytes` (laminarmq's append_threshold).

        Raises:
            RecordTooLarge: If a record of `length` fits no segment; no chunk is taken.
            InvalidArgument: If the chunks have another size than `length`.
            StreamOverflow: If the value exceeds `limit` or the space in the segment.
            StorageError: If a write fails.
        """

    @abstractmethod
    def append_batch(self, data: Any, *, force_timestamp: bool = False) -> range:
        """Append Arrow data and return its offsets.

        Readers see all of the batch or nothing if it fits one segment and is not a stream, or a stream of up to 16 MiB.
        Longer data is committed in steps, which are removed again after an error; readers may have seen some by then. A
        stream is read in bounded memory while it is appended, and other writers of the log wait until it ends.

        Args:
            data: A pyarrow Table or RecordBatch, or any object with `__arrow_c_stream__` or `__arrow_c_array__`, such
                as a data frame of polars or pandas, a relation of DuckDB, or a RecordBatchReader. Columns: value, and
                optionally key, timestamp, headers. The timestamp is a column with a unit, or int64 microseconds.
            force_timestamp: As in `append`, for int64 timestamps.

        Raises:
            InvalidType: If `data` or a column has another type.
            InvalidArgument: If there is another column, a value is out of range, or an int64 timestamp looks like
                another unit.
            RecordTooLarge: If a row fits no segment.
            StorageError: If a write fails.
        """

    @abstractmethod
    def _append_encodable(self, rows: EncodableRows) -> range:
        """Append rows that are ready to be encoded, as `append_batch` does, and return their offsets.

        Args:
            rows: The rows; their headers, if any, are those of valid records.

        Raises:
            KeyRequired: If the log is compacted by key and a row has none.
            RecordTooLarge: If a row fits no segment.
            StorageError: If a write fails.
        """

    @abstractmethod
    def publish(self, staged: Sequence[StagedSegment], *, query: str, batch: int) -> range | None:
        """Add segments that a `Stage` wrote after the last record, atomically; return their offsets.

        A batch may be published again after any failure: returns None, and does nothing, if this batch or a later one
        of the query was published before. The stage is not removed; the caller removes it afterwards.

        Args:
            staged: The segments.
            query: Name of the query that writes.
            batch: Number of its batch.

        Raises:
            CorruptLog: If a staged file is missing or damaged.
        """

    @abstractmethod
    def check_staged(self, staged: Sequence[StagedSegment]) -> None:
        """Check that segments can be published, without changing anything.

        Args:
            staged: The segments.

        Raises:
            CorruptLog: If a staged file is missing or damaged.
        """

    def published(self, query: str) -> int | None:
        """Return the number of the last published batch of a query; None before the first.

        Args:
            query: Name of the query.
        """
        return self.view().manifest.published.get(checked_text(query, "query"))

    @abstractmethod
    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; the next append gets `offset`.

        Args:
            offset: First offset to remove.

        Raises:
            OffsetOutOfRange: If offset < lowest_offset or > next_offset.
        """

    def flush(self) -> None:
        """Write the records that `buffer_bytes` holds back to the store, where readers of other processes see them.

        A log without a buffer, and one that was opened for reading, has nothing to write.

        Raises:
            StorageError: If the write fails; the records stay in the buffer.
        """

    @abstractmethod
    def sync(self) -> None:
        """Return once every appended record survives power loss. Concurrent callers share one sync.

        Raises:
            LogPoisoned: If the sync fails; the log accepts no more changes until it is opened again.
        """

    @abstractmethod
    def expire(self) -> int:
        """Delete segments that retention by time and size no longer keeps; return how many."""

    @abstractmethod
    def delete_before(self, offset: int) -> int:
        """Delete the records before `offset` durably; return where the log begins then.

        Segments that end before it are unlinked; of the segment in which it lies the earlier records are hidden until
        the segment is deleted as a whole. A log with an archive, or that a table reads, deletes only whole segments
        that these have, and then begins before `offset`. An offset before the beginning changes nothing.

        Args:
            offset: Offset of the first record to keep, up to `next_offset`.

        Raises:
            OffsetOutOfRange: If offset < 0 or > next_offset.
        """

    @abstractmethod
    def alter(self, **changes: Any) -> None:
        """Change settings of the log by one commit, also for later openings.

        Records that a new retention does not keep are deleted at the next roll, `expire` or `compact`; a running
        compaction ends with PlanStale. The next `compress`, or a `Cleaner`, stores segments in the form of a new codec;
        a running `compress` ends with the codec that it began with. An active segment that is older than a new
        segment_age rolls at the next append or `expire`, one that is larger than new segment_bytes at the next append;
        sealed segments stay as they are.

        Args:
            changes: Fields of `LogConfig` that can change for an existing log: retention, compression, segment_age,
                segment_bytes, segment_overflow_bytes, flush_records, flush_interval.
                Of a `Retention` only the fields that it was given change: Retention(age=60) changes the age.

        Raises:
            ConfigError: If a setting is unknown or cannot change, or a value is invalid.
            StorageError: If the change cannot be stored; the old settings remain.
        """

    def standing(self) -> Standing:
        """Return the state of compaction by key (what is dirty, what is due and why, by segment) and of compression."""
        from seglog.compaction.schedule import standing  # noqa: PLC0415 - an operator's call

        view, stored = self._own_view(), self.table_offset
        active = view.active.next_offset - view.active.base_offset
        return standing(
            view.manifest,
            self._clock(),
            durable=stored,
            active_bytes=view.active.size,
            active_records=active,
            pins=self.pins,
        )

    @abstractmethod
    def compact(
        self,
        *,
        roll: bool = False,
        generational: bool = False,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompactionReport:
        """Keep only the latest record of each key in the sealed segments. Needs Retention(compact=True).

        Offsets do not change, so gaps appear; the end of the log stays the same. Tombstones are removed
        `delete_retention` after the first compaction that saw them. Appends and readers continue meanwhile. A segment
        with a damaged record stays unchanged, and the report names it. After any error the log is unchanged.

        Args:
            roll: Seal the active segment first; otherwise its records are not considered.
            generational: Consider only segments that are expected to yield enough, as the `Cleaner` does (see
                `seglog.compaction.schedule`); otherwise all.
            progress: Called with (bytes done, bytes in total).
            abort: Called often; if it returns True the compaction ends with CompactionAborted.
            bytes_per_second: Limit for reading and writing together.

        Raises:
            ConfigError: If the log is not compacted by key.
            CompactionAborted: If `abort` returned True, or another compaction of this log is running.
            PlanStale: If the log was truncated, expired or altered meanwhile.
            StorageError: If there is not enough space, or reading or writing fails.
        """

    @abstractmethod
    def plan_compaction(self, *, generational: bool = False) -> CompactionPlan:
        """Return what `compact` would do now, for `seglog.compaction.rewrite.rewrite` in another process.

        Args:
            generational: As in `compact`.

        Raises:
            ConfigError: If the log is not compacted by key.
        """

    @abstractmethod
    def finish_compaction(self, plan: CompactionPlan, outcome: Outcome, directory: str) -> CompactionReport:
        """Replace a plan's sources atomically by what `rewrite` wrote into `directory`, a stage of this log.

        The stage is not removed; the caller removes it afterwards.

        Args:
            plan: The plan, from `plan_compaction`.
            outcome: The result of `rewrite`.
            directory: Directory of the stage, relative to the log's.

        Raises:
            PlanStale: If the plan's sources are no longer part of the log.
        """

    @abstractmethod
    def compress(
        self,
        codec: Compression | None = None,
        *,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompressionReport:
        """Store the sealed segments as LogConfig.compression requires: compressed by blocks, or plain again.

        Records and offsets stay the same. Appends and readers continue meanwhile. A segment with a damaged record stays
        unchanged, and the report names it; it is not read again before it changes or the log is opened again. One
        segment is replaced at a time, the oldest first, so after an error those before it are stored in the new form,
        the others as before. Versions of seglog that cannot read compressed segments refuse to open the log from then
        on.

        Args:
            codec: Changes LogConfig.compression first, durably; None: it stays.
            max_bytes: Begin with no further segment once this many bytes, before compression, were stored; None: all.
            progress: Called with (bytes done, bytes in total).
            abort: Called often; if it returns True the pass ends with CompactionAborted.
            bytes_per_second: Limit for reading and writing together.

        Raises:
            ConfigError: If there is no such codec.
            CompactionAborted: If `abort` returned True, or a compaction of this log is running.
            MissingExtra: If this build of pyarrow lacks the codec.
            StorageError: If there is not enough space, or reading or writing fails.
        """

    @abstractmethod
    def repair(self, progress: Progress | None = None) -> RepairReport:
        """Move damage to quarantine/ and continue with everything readable.

        Args:
            progress: Called with (bytes done, bytes in total).
        """

    @abstractmethod
    def fence(self, term: int) -> None:
        """Accept no more changes, durably, because another log was promoted in place of this one.

        What was appended before is synced and stays readable. Every later change, also of later openings, raises
        LogFenced. `seglog.Mirror` can make the log a copy of the promoted one.

        Args:
            term: The term of the promoted log.

        Raises:
            InvalidArgument: If this log has this term or a higher one.
            StorageError: If it cannot be stored; the log still accepts changes.
        """

    def _check_batch(self, data: Any) -> None:
        """Raise what `append_batch(force_timestamp=True)` would raise because of the data, without a change."""

    def _keep_files(self) -> None:
        """Keep all files open from now on: the directory will be moved or removed while readers continue."""

    def _forget_moved(self) -> None:
        """Store the config without the policies of a topic that an earlier version stored in it, if it has any."""

    @abstractmethod
    def remove(self) -> None:
        """Close the log and remove its directory with all content."""
