"""Reading a log, and the contract of all that can be done with one.

`Log` is what `seglog.open` returns. What it reads by is a `View`; where the view comes from (this process writes, or
another one does) is known to `writer.LogWriter` and `follower.LogFollower`.
"""

from __future__ import annotations

import errno
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from seglog.config import LogConfig
from seglog.errors import (
    InvalidArgument,
    InvalidType,
    LogClosed,
    LogReadOnly,
    OffsetCompacted,
    OffsetOutOfRange,
)
from seglog.log.info import SegmentInfo
from seglog.log.tail import Tail
from seglog.record import Header, Record, checked_offset, checked_timestamp
from seglog.segment.bulk import decode_ahead
from seglog.segment.reader import OnCorrupt, SegmentReader
from seglog.segment.report import RecoveryReport

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.keyed.plan import CompactionPlan
    from seglog.keyed.rewrite import Outcome
    from seglog.log.check import Progress, VerifyReport
    from seglog.log.compaction import CompactionReport
    from seglog.log.repair import RepairReport
    from seglog.log.staging import StagedSegment
    from seglog.log.view import View
    from seglog.storage import Storage


class Log(ABC):
    """An ordered, durable sequence of records, addressed by offset. A context manager; safe for threads."""

    def __init__(self, storage: Storage, recovery: RecoveryReport) -> None:
        self._storage = storage
        self._closed = False
        self.recovery = recovery

    # --- what the two kinds of log provide ------------------------------------------------------------------------

    @abstractmethod
    def view(self) -> View:
        """Return the present view: one manifest and the segments it names, good for as long as it is held.

        For a follower, after a look at what has changed. For callers that need the structure itself, as Spark does.
        """

    def _view_at(self, offset: int) -> View:
        """Return a view that is good for reading `offset`."""
        return self.view()

    @property
    @abstractmethod
    def durable_offset(self) -> int:
        """Every record before it survives power loss."""

    @property
    @abstractmethod
    def segments(self) -> tuple[SegmentInfo, ...]:
        """Figures of every segment, the active one last."""

    @abstractmethod
    def close(self) -> None:
        """Let go of all files; a writer syncs first. A second call does nothing."""

    # --- facts ----------------------------------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The log's directory."""
        return self._storage.path

    @property
    def config(self) -> LogConfig:
        """The configuration stored with the log."""
        return self.view().manifest.config

    @property
    def lowest_offset(self) -> int:
        """The first offset that the log still holds."""
        return self.view().lowest_offset

    @property
    def next_offset(self) -> int:
        """The offset that the next append gets: one behind the last record."""
        return self.view().next_offset

    @property
    def size(self) -> int:
        """Bytes of all stores."""
        view = self.view()
        return view.active.size + sum(entry.bytes or 0 for entry in view.manifest.segments[:-1])

    def __len__(self) -> int:
        """Return next_offset - lowest_offset: an upper bound of the records where compaction left gaps."""
        view = self.view()
        return view.next_offset - view.lowest_offset

    def __bool__(self) -> bool:
        """Return True: a log without records is a log all the same."""
        return True

    def __repr__(self) -> str:
        if self._closed:
            return f"<{type(self).__name__} {self.path} closed>"
        view = self.view()
        return f"<{type(self).__name__} {self.path} offsets {view.lowest_offset}..{view.next_offset}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"{self.path}: the log is closed; open it again")

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, offset: int) -> Record:
        """Return the record at `offset`.

        OffsetOutOfRange outside the log; OffsetCompacted where no record stands there any more; CorruptRecord where
        its bytes no longer verify.
        """
        if type(offset) is not int:
            offset = checked_offset(offset)
        view = self._view_at(offset)
        if not view.manifest.start <= offset < view.active.next_offset:
            raise OffsetOutOfRange(offset, view.lowest_offset, view.next_offset)
        reader = view.reader_of(offset)
        if offset >= reader.next_offset:  # a gap between two segments
            raise OffsetCompacted(offset, view.next_record(offset))
        try:
            return reader.read(offset)
        except OffsetCompacted as error:
            if error.next_offset < reader.next_offset:
                raise
            raise OffsetCompacted(offset, view.next_record(offset)) from None  # it stands in a later segment

    def scan(
        self, start: int | None = None, stop: int | None = None, *, on_corrupt: OnCorrupt | None = None
    ) -> Iterator[Record]:
        """Iterate over the records start <= offset < stop, as the log stands now.

        start: default, and where it lies before, the lowest offset; stop: default the end. OffsetOutOfRange for a start
        behind the end. A damaged record ends it with CorruptRecord, unless `on_corrupt` takes that error; then
        reading goes on at the next readable record.
        """
        view, start, stop = self._range(start, stop)
        return view.scan(start, stop, on_corrupt)

    def _range(self, start: int | None, stop: int | None) -> tuple[View, int, int]:
        view = self.view()
        lowest, end = view.lowest_offset, view.next_offset
        start = lowest if start is None else checked_offset(start, "start")
        stop = end if stop is None else checked_offset(stop, "stop")
        if start < 0 or start > end:
            raise OffsetOutOfRange(start, lowest, end)
        if stop < 0:
            raise OffsetOutOfRange(stop, lowest, end)
        return view, max(start, lowest), min(stop, end)

    def batches(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        max_records: int = 65536,
        values: Literal["view", "binary"] = "view",
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the same range as `scan` in Arrow record batches of up to `max_records`, every record verified.

        Columns offset, timestamp (us, UTC), key, value, headers. values="view" gives keys and values as binary_view
        into the store's memory map, without a copy; "binary" gives plain binary.
        """
        if isinstance(max_records, bool) or not isinstance(max_records, int) or max_records < 1:
            raise InvalidArgument(f"max_records is {max_records!r}; it must be an int of at least 1")
        from seglog.log.arrow import record_schema  # noqa: PLC0415 - pyarrow and numba load when first used

        record_schema(values)
        view, start, stop = self._range(start, stop)
        return self._batches(view, start, stop, max_records, values)

    @staticmethod
    def _batches(
        view: View, start: int, stop: int, max_records: int, values: Literal["view", "binary"]
    ) -> Iterator[pa.RecordBatch]:
        from seglog.log.arrow import decode_batches  # noqa: PLC0415 - as above

        for reader in view.readers(start, stop):
            base, end = reader.base_offset, min(stop, reader.next_offset)
            position, expected = reader.seek(max(start, base))
            if expected >= end:
                continue
            decode = partial(
                decode_batches,
                reader.store.map(),
                path=reader.store.path,
                salt=reader.rules.salt,
                base_offset=base,
                end=reader.size,
                dense=reader.rules.dense,
                max_records=max_records,
                values=values,
            )
            yield from decode_ahead(
                reader, decode, relative=expected - base, position=position, stop=end - base, max_records=max_records
            )

    def to_arrow(
        self, start: int | None = None, stop: int | None = None, *, values: Literal["view", "binary"] = "view"
    ) -> pa.Table:
        """Return the same range as one Arrow table; columns as in `batches`."""
        batches = self.batches(start, stop, values=values)
        import pyarrow as pa  # noqa: PLC0415 - loaded by `batches` already

        from seglog.log.arrow import record_schema  # noqa: PLC0415 - as above

        return pa.Table.from_batches(list(batches), schema=record_schema(values))

    def offset_at(self, timestamp: int) -> int | None:
        """Return the first offset whose timestamp (us) is `timestamp` or later, None where every record is older."""
        timestamp = checked_timestamp(timestamp)
        for reader in self._newer(self.view(), timestamp):
            found = reader.offset_at(timestamp)
            if found is not None:
                return found
        return None

    @staticmethod
    def _newer(view: View, timestamp: int) -> Iterator[SegmentReader]:
        """Yield the segments that can hold a record of this time or later."""
        for entry in view.manifest.segments[:-1]:
            if entry.max_timestamp is not None and entry.max_timestamp >= timestamp:
                yield view.cache.get(entry)
        yield view.active

    def tail(self, start: int | None = None) -> Tail:
        """Return a place in the log, at `start` (default: the present end), whose `poll` gives what comes behind it."""
        view = self.view()
        position = view.next_offset if start is None else checked_offset(start, "start")
        if not view.lowest_offset <= position <= view.next_offset:
            raise OffsetOutOfRange(position, view.lowest_offset, view.next_offset)
        return Tail(self.path, self.view, view, position)

    def follow(self, start: int | None = None, *, timeout: float | None = None) -> Iterator[Record]:
        """Iterate over the records from `start` (default: the present end) on, and wait for more, for ever.

        timeout: seconds to wait for the next record before the iteration ends. LogTruncated where the records read last
        were cut off; OffsetOutOfRange where retention overtook the reader.
        """
        if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, (int, float))):
            raise InvalidType(f"timeout must be seconds or None, not {type(timeout).__name__}")
        if timeout is not None and not timeout >= 0:  # so that NaN is refused as well
            raise InvalidArgument(f"timeout is {timeout}; it must be a number of seconds, 0 or more, or None")
        return self.tail(start).follow(timeout)

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every byte of every segment; changes nothing. progress(bytes done, bytes in all)."""
        from seglog.log.check import verify_storage  # noqa: PLC0415 - an operator's call

        self.view()
        return verify_storage(self._storage, progress)

    # --- writing: what a log that was opened for reading answers --------------------------------------------------

    def _refuse(self, what: str) -> NoReturn:
        self._check_open()
        raise LogReadOnly(errno.EROFS, f'{what} needs a log opened with mode="a"', self.path)

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset. value None is a tombstone; timestamp (us) defaults to now.

        It survives kill -9 once this has returned, and power loss after `sync` or under a flush policy.
        expected_offset: OffsetConflict, and nothing written, unless this is the offset it gets. RecordTooLarge before a
        byte is written; StorageError where the medium refuses, rolled back.
        """
        self._refuse("append")

    def grouped(self) -> AbstractContextManager[None]:
        """Let the appends of this thread within the context share the sync that the flush policy asks of each."""
        return nullcontext()

    def append_at(self, offset: int, record: Record) -> int:
        """Append a record of another log at its own offset (next_offset or later, leaving a gap); for followers."""
        self._refuse("append_at")

    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        limit: int | None = None,
    ) -> int:
        """Append one record whose value comes in pieces, never held whole, and return its offset.

        limit: bytes of value. The record may write `segment_bytes - store size + segment_overflow_bytes`
        (laminarmq's append_threshold); past either StreamOverflow. After any error nothing of it is visible.
        """
        self._refuse("append_stream")

    def append_batch(self, data: Any) -> range:
        """Append a pyarrow Table or RecordBatch (value, and optionally key, timestamp, headers); return its offsets.

        Readers see all of it or nothing, where it fits one segment; a larger one is committed segment by segment, and
        undone on an error.
        """
        self._refuse("append_batch")

    def publish(self, staged: Sequence[StagedSegment], *, query: str, batch: int) -> range | None:
        """Add segments that a `Stage` wrote behind the last record, all in one step; return the offsets they got.

        query, batch: which run of which query this is. None, and nothing is done, if that batch (or a later one of the
        query) was published before: a batch may be handed in again after any failure. The stage stays; remove it after.
        CorruptLog if a staged file is missing or damaged.
        """
        self._refuse("publish")

    def check_staged(self, staged: Sequence[StagedSegment]) -> None:
        """Raise CorruptLog, without any change, if one of these segments could not be published."""
        self._refuse("check_staged")

    def published(self, query: str) -> int | None:
        """Return the number of the last batch that was published for a query, None before the first."""
        return self.view().manifest.published.get(query)

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; the next append gets `offset`."""
        self._refuse("truncate")

    def sync(self) -> None:
        """Return once every appended record survives power loss. Concurrent callers share one sync."""
        self._refuse("sync")

    def expire(self) -> int:
        """Let go of what retention by time and size no longer keeps; return how many segments went."""
        self._refuse("expire")

    def compact(
        self,
        *,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompactionReport:
        """Keep of every key its latest record, in the sealed segments; a log needs Retention(compact=True) for it.

        Offsets stay, so gaps come to be; the end stays as well. Tombstones go `delete_retention` after the first
        compaction that saw them. Appends and readers go on meanwhile. progress(bytes done, bytes in all); abort: asked
        often, True ends it with CompactionAborted; bytes_per_second: of reading and writing together. After any error
        the log is as it was: PlanStale where it was truncated or expired meanwhile, StorageError (ENOSPC) where the
        space does not suffice. A segment with a damaged record is left as it is, and named in the report.
        """
        self._refuse("compact")

    def plan_compaction(self) -> CompactionPlan:
        """Return what `compact` would do now, for `seglog.keyed.rewrite.rewrite` in another process."""
        self._refuse("plan_compaction")

    def finish_compaction(self, plan: CompactionPlan, outcome: Outcome, directory: str) -> CompactionReport:
        """Let what `rewrite` wrote into `directory` (a stage of this log) take its place in the log, in one step.

        PlanStale where the plan's segments are no longer the log's. The stage stays; remove it after.
        """
        self._refuse("finish_compaction")

    def repair(self, progress: Progress | None = None) -> RepairReport:
        """Set damage aside (quarantine) and go on with all that is readable."""
        self._refuse("repair")

    def remove(self) -> None:
        """Close the log and remove its directory with all that is in it."""
        self._refuse("remove")
