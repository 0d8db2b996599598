"""Reading a log, whoever writes it.

What is read by is a `View`; where it comes from (this process writes, or another one does) is known to
`writer.LogWriter` and `follower.LogFollower`. That a log can be written to is the business of `log.Log`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from seglog.clock import Clock
from seglog.config import LogConfig
from seglog.errors import (
    InvalidArgument,
    InvalidType,
    LogClosed,
    OffsetCompacted,
    OffsetOutOfRange,
)
from seglog.log.info import SegmentInfo
from seglog.log.tail import Tail
from seglog.record import Record, checked_offset, checked_timestamp
from seglog.segment.reader import OnCorrupt, SegmentReader
from seglog.segment.report import RecoveryReport
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.log.check import Progress
    from seglog.log.findings import VerifyReport
    from seglog.log.view import View
    from seglog.storage import Storage


class ReadableLog(ABC, Uncopied):
    """What can be read of a log, and what is known of it."""

    def __init__(self, storage: Storage, clock: Clock, recovery: RecoveryReport) -> None:
        self._storage = storage
        self._clock = clock
        self._closed = False
        self.recovery = recovery

    # --- what the two kinds of log provide ------------------------------------------------------------------------

    @abstractmethod
    def view(self) -> View:
        """Return the present view: one manifest and the segments it names, good for as long as it is held.

        For a follower, after a look at what has changed. For callers that need the structure itself, as Spark does.
        """

    def _view_at(self, offset: int) -> View:  # noqa: ARG002 - a follower looks whether it has to reload for it
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

    def records_from(self, offset: int) -> int:
        """Return how many records there are to read from `offset` on, as the log stands now; reads none of them.

        Exact where offsets have no gaps. Compaction leaves gaps: then all segments behind the one in which the offset
        stands count exactly, and of that one a share as large as its share of offsets, rounded up; so it is off by the
        records of that segment at most. 0 at the end and behind it, or where no segment from there on holds a record;
        before the lowest offset, all there are. A damaged record counts.
        """
        return self.view().records_from(checked_offset(offset))

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
        return self._read(offset, None)

    def read_cut(self, offset: int, keep: int) -> Record:
        """Return the same, and of a value of MiB only the first `keep` bytes, as a `Cut`; all of it is verified."""
        return self._read(offset, keep)

    def _read(self, offset: int, keep: int | None) -> Record:
        if type(offset) is not int:
            offset = checked_offset(offset)
        view = self._view_at(offset)
        if not view.manifest.start <= offset < view.active.next_offset:
            self._refuse_to_read(view, offset)
        reader = view.reader_of(offset)
        if offset >= reader.next_offset:  # a gap between two segments
            raise OffsetCompacted(offset, view.next_record(offset))
        try:
            return reader.read(offset, keep)
        except OffsetCompacted as error:
            if error.next_offset < reader.next_offset:
                raise
            raise OffsetCompacted(offset, view.next_record(offset)) from None  # it stands in a later segment

    def _refuse_to_read(self, view: View, offset: int) -> NoReturn:
        """Raise why an offset outside a view cannot be read."""
        raise OffsetOutOfRange(offset, view.lowest_offset, view.next_offset)

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
        return view.batches(start, stop, max_records=max_records, values=values)

    def to_arrow(
        self, start: int | None = None, stop: int | None = None, *, values: Literal["view", "binary"] = "binary"
    ) -> pa.Table:
        """Return the same range as one Arrow table; columns as in `batches`.

        values="binary" copies keys and values, so that every library can filter, sort, join and write them;
        values="view" copies nothing, but pyarrow cannot sort, join or write views, and they need the log's files.
        """
        batches = self.batches(start, stop, values=values)
        import pyarrow as pa  # noqa: PLC0415 - loaded by `batches` already

        from seglog.log.arrow import record_schema  # noqa: PLC0415 - as above

        return pa.Table.from_batches(list(batches), schema=record_schema(values))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export all records as an Arrow stream, batch by batch, keys and values as plain binary.

        So that `polars.from_arrow(log)`, `pyarrow.RecordBatchReader.from_stream(log)` and DuckDB read a log directly.
        """
        batches = self.batches(values="binary")
        from seglog.log.arrow import record_schema  # noqa: PLC0415 - loaded by `batches` already
        from seglog.log.arrow_stream import stream_of  # noqa: PLC0415 - as above

        return stream_of(record_schema("binary"), batches, requested_schema)

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
