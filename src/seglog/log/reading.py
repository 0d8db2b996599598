"""Reading a log, independently of which process writes it.

All reading uses a `View`. `writer.LogWriter` provides it for a log that this process writes, `follower.LogFollower` for
one that another process writes. `log.Log` adds the contract of the changes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self

from seglog.clock import Clock
from seglog.config import LogConfig
from seglog.errors import (
    InvalidArgument,
    InvalidType,
    LogClosed,
    NotDurableYet,
    OffsetCompacted,
    OffsetOutOfRange,
)
from seglog.log.info import SegmentInfo
from seglog.log.many import newest_of, records_at
from seglog.log.tail import Tail, checked_timeout
from seglog.log.tiers import Tiers
from seglog.log.view import View, Views, at_one_moment
from seglog.record import Record, Share, Timestamp, checked_all, checked_offset, checked_share, checked_timestamp
from seglog.segment.reader import OnCorrupt, SegmentReader
from seglog.segment.recovery_report import RecoveryReport
from seglog.storage import Storage
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.log.repair.reports import VerifyReport
    from seglog.log.repair.verify import Progress


class ReadableLog(ABC, Uncopied):
    """The reading operations and the figures of a log."""

    def __init__(self, storage: Storage, clock: Clock, recovery: RecoveryReport) -> None:
        self._storage = storage
        self._clock = clock
        self.recovery = recovery
        self._tiers: Tiers | None = None

    # --- provided by the two kinds of log -------------------------------------------------------------------------

    @abstractmethod
    def _own_view(self) -> View:
        """Return the present view of the log's own segments: one manifest, valid as long as it is referenced.

        A follower first checks for changes.
        """

    @abstractmethod
    def _all_views(self) -> Views:
        """Return the views in use, whose files are kept."""

    def view(self) -> View:
        """Return the present view for reading: with the segments that only an archive has, if there is one.

        For callers that need the structure itself, such as Spark.
        """
        own = self._own_view()
        return own if self._tiers is None else self._tiers.extend(own)

    def _view_at(self, offset: int) -> View:  # noqa: ARG002 - a follower may have to reload for it
        """Return a view that can be used to read `offset`."""
        return self.view()

    @property
    @abstractmethod
    def durable_offset(self) -> int:
        """The first offset that may be lost at power loss: all records before it are durable."""

    @property
    @abstractmethod
    def segments(self) -> Sequence[SegmentInfo]:
        """Figures of every segment, the active one last; those of one segment are made when they are asked for."""

    @property
    @abstractmethod
    def closed(self) -> bool:
        """Whether the log is closed."""

    @abstractmethod
    def close(self) -> None:
        """Close all files; a writer syncs first. A second call does nothing."""

    def _read_below(self, archive: str) -> None:
        """Read from an archive what retention has deleted here, from now on.

        Args:
            archive: The URL of this log in an archive.

        Raises:
            StorageError: If the archive cannot be read.
            ArchiveMismatch: If it is of another log.
        """
        tiers = Tiers(archive, self._all_views())
        tiers.check(self._own_view())
        self._tiers = tiers

    # --- figures --------------------------------------------------------------------------------------------------

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
        """The offset of the next append: one after the last record."""
        return self.view().next_offset

    @property
    def size(self) -> int:
        """Bytes of all stores."""
        view = self._own_view()
        return view.active.size + view.manifest.segments[:-1].total_bytes

    def __len__(self) -> int:
        """Return next_offset - lowest_offset: an upper bound of the number of records if compaction left gaps."""
        view = self.view()
        return view.next_offset - view.lowest_offset

    def records_from(self, offset: int) -> int:
        """Return the number of records from `offset` to the present end, without reading any.

        Exact if offsets have no gaps. With gaps from compaction, later segments count exactly, and the segment that
        holds the offset counts in proportion to its offsets, rounded up: the error is less than the records of that
        segment. Before the lowest offset: all records. At or after the end: 0. A damaged record counts.

        Args:
            offset: The first offset to count.
        """
        return self.view().records_from(checked_offset(offset))

    def __bool__(self) -> bool:
        """Return True, also for a log without records."""
        return True

    def __repr__(self) -> str:
        if self.closed:
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
        if self.closed:
            raise LogClosed(f"{self.path}: the log is closed; open it again")

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, offset: int) -> Record:
        """Return the record at `offset`.

        Args:
            offset: Offset of the record.

        Raises:
            OffsetOutOfRange: If offset < lowest_offset or >= next_offset.
            OffsetCompacted: If compaction removed the record; the error names the next one.
            CorruptRecord: If the record does not verify.
            NotDurableYet: If the log was opened with expose="durable" and the record is not synced yet.
        """
        return self._read(offset, None)

    def read_cut(self, offset: int, keep: int) -> Record:
        """Return the record at `offset` with only the beginning of a large value, as a `Cut`. All of it is verified.

        Args:
            offset: Offset of the record.
            keep: Maximum bytes of the value to return.

        Raises:
            OffsetOutOfRange: As in `read`, like the other errors.
        """
        return self._read(offset, keep)

    def _value_pieces(self, offset: int) -> tuple[Record, Iterator[bytes]]:
        """Return a record without the most of its value, verified, and the whole value in pieces of up to 1 MiB.

        For a server, which holds no long value as a whole. Errors as `read`; CorruptRecord in place of the last piece,
        and StorageError, where the store changed or fails meanwhile.
        """
        record = self._read(offset, 0)
        view = self._view_at(offset)
        return record, _held_by(view, view.reader_of(offset).value_pieces(offset))

    @at_one_moment
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
            raise OffsetCompacted(offset, view.next_record(offset)) from None  # the next one is in a later segment

    def read_many(self, offsets: Iterable[int], *, skip_compacted: bool = False) -> list[Record]:
        """Return the records at these offsets, in this order, as they are at one moment.

        Takes a fraction of the time of single reads, from a few offsets on; ascending ones read the disk in order.

        Args:
            offsets: Offsets of records, in any order. One may occur several times.
            skip_compacted: Omit the records that compaction removed, instead of OffsetCompacted.

        Raises:
            OffsetOutOfRange: If an offset < lowest_offset or >= next_offset; the first such one is named.
            OffsetCompacted: If compaction removed one of the records; the error names the next one.
            CorruptRecord: If one of the records does not verify.
            NotDurableYet: As in `read`.
        """
        if not isinstance(offsets, Iterable):
            raise InvalidType(f"offsets must be a sequence of int, not {type(offsets).__name__}")
        wanted = [one if type(one) is int else checked_offset(one) for one in offsets]
        if not wanted:
            self._check_open()
            return []
        return self._read_wanted(wanted, skip_compacted)

    @at_one_moment
    def _read_wanted(self, wanted: Sequence[int], skip_compacted: bool) -> list[Record]:
        greatest = max(wanted)
        view = self._view_at(greatest)
        lowest, end = view.manifest.start, view.active.next_offset
        if min(wanted) < lowest or greatest >= end:
            self._refuse_to_read(view, next(one for one in wanted if not lowest <= one < end))
        return records_at(view, wanted, skip_compacted=skip_compacted)

    def read_keys(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Return the newest record of each key, as they are at one moment; a key without a record is omitted.

        Reads the log from its end backwards until every key is found, so a key that was written long ago, or never,
        costs a verified scan of the log; for many lookups, use a `KeyIndex`. The newest record of a deleted key is its
        tombstone, whose value is None.

        Args:
            keys: The keys. One may occur several times.

        Raises:
            InvalidType: If a key is not bytes.
            CorruptRecord: If a record that was read does not verify.
            MissingExtra: If pyarrow or numba is not installed.
        """
        from seglog.arrow import convert  # noqa: F401, PLC0415 - raises MissingExtra; pyarrow loads when first used

        return self._newest_of(list(checked_all(keys, bytes, "keys")))

    @at_one_moment
    def _newest_of(self, keys: Sequence[bytes]) -> dict[bytes, Record]:
        return newest_of(self.view(), keys)

    def _refuse_to_read(self, view: View, offset: int) -> NoReturn:
        """Raise the error of an offset outside of a view."""
        raise OffsetOutOfRange(offset, view.lowest_offset, view.next_offset)

    def _view_from(self, start: int) -> View:
        """Return a view for reading from `start`; OffsetOutOfRange, or what `_refuse_start` raises."""
        view = self.view()
        if not view.lowest_offset <= start <= view.next_offset:
            self._refuse_start(view, start)
        return view

    def _refuse_start(self, view: View, start: int) -> NoReturn:
        """Raise why reading cannot begin at an offset outside a view."""
        raise OffsetOutOfRange(start, view.lowest_offset, view.next_offset)

    def scan(
        self, start: int | None = None, stop: int | None = None, *, on_corrupt: OnCorrupt | None = None
    ) -> Iterator[Record]:
        """Iterate over the records start <= offset < stop, as the log is now.

        Args:
            start: First offset. Default, and minimum: the lowest offset.
            stop: First offset not to return. Default: the end.
            on_corrupt: Called with the CorruptRecord error of each damaged record; reading then continues at the next
                readable record. Without it the error is raised.

        Raises:
            OffsetOutOfRange: If start is after the end.
            NotDurableYet: If start is after the end that expose="durable" shows, and the log has more records.
            CorruptRecord: At a damaged record, without `on_corrupt`.
            SnapshotExpired: If a change of the log has deleted what is still to be read, and this reader could not
                prevent that (it may not write its lease).
        """
        view, start, stop = self._range(start, stop)
        return view.scan(start, stop, on_corrupt)

    def _range(self, start: int | None, stop: int | None) -> tuple[View, int, int]:
        view = self.view()
        lowest, end = view.lowest_offset, view.next_offset
        start = lowest if start is None else checked_offset(start, "start")
        stop = end if stop is None else checked_offset(stop, "stop")
        if start < 0 or start > end:
            self._refuse_start(view, start)
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
        on_corrupt: OnCorrupt | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Iterate over the range of `scan` in Arrow record batches, every record verified.

        Columns: offset, timestamp (us, UTC), key, value, headers.

        Args:
            start: As in `scan`.
            stop: As in `scan`.
            max_records: Maximum records per batch.
            values: "view" returns keys and values as binary_view into the store's memory map, without a copy; "binary"
                as plain binary.
            on_corrupt: As in `scan`.

        Raises:
            OffsetOutOfRange: If start is after the end.
            CorruptRecord: At a damaged record, without `on_corrupt`.
            SnapshotExpired: As in `scan`.
            MissingExtra: If pyarrow or numba is not installed.
        """
        if isinstance(max_records, bool) or not isinstance(max_records, int) or max_records < 1:
            raise InvalidArgument(f"max_records is {max_records!r}; it must be an int of at least 1")
        from seglog.arrow.convert import record_schema  # noqa: PLC0415 - pyarrow and numba load when first used

        record_schema(values)
        view, start, stop = self._range(start, stop)
        if on_corrupt is not None:
            return view.sound_batches(start, stop, on_corrupt, max_records=max_records, values=values)
        return view.batches(start, stop, max_records=max_records, values=values)

    def to_arrow(
        self,
        start: int | None = None,
        stop: int | None = None,
        *,
        values: Literal["view", "binary"] = "binary",
        on_corrupt: OnCorrupt | None = None,
    ) -> pa.Table:
        """Return the range of `scan` as one Arrow table, with the columns of `batches`.

        Args:
            start: As in `scan`.
            stop: As in `scan`.
            values: "binary" copies keys and values, so that every library can filter, sort, join and write them. "view"
                copies nothing, but pyarrow cannot sort, join or write views, and the table needs the log's files.
            on_corrupt: As in `scan`.

        Raises:
            OffsetOutOfRange: If start is after the end.
            CorruptRecord: At a damaged record, without `on_corrupt`.
            SnapshotExpired: As in `scan`.
        """
        batches = self.batches(start, stop, values=values, on_corrupt=on_corrupt)
        import pyarrow as pa  # noqa: PLC0415 - `batches` has loaded it

        from seglog.arrow.convert import record_schema  # noqa: PLC0415 - as above

        return pa.Table.from_batches(list(batches), schema=record_schema(values))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export all records as an Arrow stream of batches, with keys and values as plain binary.

        `polars.from_arrow(log)`, `pyarrow.RecordBatchReader.from_stream(log)` and DuckDB use this to read a log
        directly.
        """
        batches = self.batches(values="binary")
        from seglog.arrow.convert import record_schema  # noqa: PLC0415 - `batches` has loaded it
        from seglog.arrow.stream import stream_of  # noqa: PLC0415 - as above

        return stream_of(record_schema("binary"), batches, requested_schema)

    @at_one_moment
    def offset_at(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> int | None:
        """Return the first offset with this timestamp or a later one; None if every record is older.

        Args:
            timestamp: Microseconds since the epoch, UTC, or a datetime with a time zone.
            force_timestamp: Take a number that looks like seconds or milliseconds as it is; see `append`.

        Raises:
            CorruptRecord: If a damaged record precedes the result.
            InvalidArgument: If the number looks like another unit.
        """
        timestamp, view = checked_timestamp(timestamp, force_timestamp=force_timestamp), self.view()
        for reader in self._newer(view, timestamp):
            found = reader.offset_at(timestamp)
            if found is not None and found < view.lowest_offset:  # deleted before its segment
                rest = reader.scan(view.lowest_offset, reader.next_offset, None, 0)
                found = next((record.offset for record in rest if record.timestamp >= timestamp), None)
            if found is not None:
                return found
        return None

    @staticmethod
    def _newer(view: View, timestamp: int) -> Iterator[SegmentReader]:
        """Yield the segments that may hold a record with this timestamp or a later one."""
        for entry in view.manifest.segments[:-1]:
            if entry.max_timestamp is not None and entry.max_timestamp >= timestamp:
                yield view.cache.get(entry)
        yield view.active

    def tail(self, start: int | None = None) -> Tail:
        """Return a position in the log whose `poll` returns the records that follow.

        Args:
            start: Offset of the position. Default: the present end. With expose="durable" it may be after the last
                synced record; `poll` then returns nothing before the sync.

        Raises:
            OffsetOutOfRange: If start < lowest_offset or > next_offset.
        """
        if start is None:
            view = self.view()
            return Tail(self.path, self.view, view, view.next_offset)
        position = checked_offset(start, "start")
        try:
            view = self._view_from(position)
        except NotDurableYet:
            view = self.view()
        return Tail(self.path, self.view, view, position)

    def follow(
        self, start: int | None = None, *, timeout: float | None = None, share: Share | None = None
    ) -> Iterator[Record]:
        """Iterate over the records from `start` on, and wait for more.

        Args:
            start: First offset. Default: the present end.
            timeout: Seconds without a new record, of any share, after which the iteration ends. None: never.
            share: (i, n): only the records whose offset % n is i, so that n workers, numbered from 0 on, share the
                records of a log without asking each other.

        Raises:
            LogTruncated: If the records read last were cut off.
            OffsetOutOfRange: If retention deleted records before they were read.
        """
        return self.tail(start).follow(checked_timeout(timeout), checked_share(share))

    def verify(self, progress: Progress | None = None) -> VerifyReport:
        """Check every byte of every segment. Changes nothing.

        Args:
            progress: Called with (bytes done, bytes in total).
        """
        from seglog.log.repair.verify import verify_storage  # noqa: PLC0415 - an operator's call

        self._own_view()
        return verify_storage(self._storage, progress)


def _held_by(view: View, pieces: Iterator[bytes]) -> Iterator[bytes]:
    """Yield pieces while the view that they are read by is held, so that its files stay."""
    yield from pieces
    del view
