"""Writing a log: the one process that holds its lock. Appends, rolls, truncates, expires; safe for threads.

State changes happen under one mutex. A sync waits outside of it, so that appends go on while the medium works.
After a failed sync the writer is poisoned for good: it acknowledges nothing more, and reads end at the durable offset.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn
from weakref import WeakSet

from seglog.clock import Clock
from seglog.config import MAX_OFFSET
from seglog.errors import (
    InvalidArgument,
    InvalidType,
    LogClosed,
    LogPoisoned,
    LogReadOnly,
    OffsetConflict,
    OffsetOutOfRange,
    SeglogError,
    StorageError,
)
from seglog.format.codec import encode_headers, record_length
from seglog.format.store import HEADER_BYTES
from seglog.log.durability import IntervalSync
from seglog.log.info import SegmentInfo
from seglog.log.live import LiveSegments
from seglog.log.log import Log
from seglog.log.view import View
from seglog.record import (
    Header,
    Record,
    checked_bytes,
    checked_headers,
    checked_key,
    checked_offset,
    checked_timestamp,
)
from seglog.segment.report import RecoveryReport
from seglog.storage import Lock, Storage

if TYPE_CHECKING:
    from seglog.log.check import Progress
    from seglog.log.repair import RepairReport


class LogWriter(Log):
    """A log that is open for writing."""

    _open_writers: ClassVar[WeakSet[LogWriter]] = WeakSet()

    def __init__(
        self, storage: Storage, lock: Lock, live: LiveSegments, clock: Clock, recovery: RecoveryReport
    ) -> None:
        super().__init__(storage, recovery)
        self._lock = lock
        self._live = live
        self._clock = clock
        self._mutex = threading.RLock()
        self._streaming = False
        self._inherited = False
        self._group = threading.local()
        self._refusal: Callable[[], SeglogError] | None = None
        self._durability = live.durability
        self._flush_records = live.config.flush_records
        self._segment_bytes = live.segment_bytes
        LogWriter._open_writers.add(self)
        interval = live.config.flush_interval
        self._interval_sync = IntervalSync(float(interval), self._sync_quietly) if interval else None  # type: ignore[arg-type] # settled to float

    # --- state --------------------------------------------------------------------------------------------------

    def _view(self) -> View:
        if self._closed:
            self._check_open()
        if self._live.active.reader.next_offset != self._live.active.next_offset and self._refusal is None:
            with self._writing():
                self._live.active.write_buffer()
        return self._live.present

    @property
    def next_offset(self) -> int:
        """The offset that the next append gets."""
        self._check_open()
        return self._live.active.next_offset

    @property
    def durable_offset(self) -> int:
        """Every record before it survives power loss."""
        self._check_open()
        return self._durability.durable_offset

    @property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """Figures of every segment, the active one last."""
        with self._mutex:
            self._view()
            return self._live.infos()

    def _check_writable(self) -> None:
        if self._refusal is not None:
            raise self._refusal()
        if self._streaming:
            raise InvalidArgument("append_stream is still taking chunks: they must not write to the same log")

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """Hold the mutex, refuse where writing is over, and poison the writer where a sync or a rollback fails."""
        with self._mutex:
            self._check_writable()
            try:
                yield
            except BaseException as error:
                self._after_failure(error)
                raise

    def _after_failure(self, error: BaseException) -> None:
        """Stop the writer after a failed sync or rollback, and after an interrupt in the middle of bookkeeping."""
        if isinstance(error, LogPoisoned):
            self._poison(error)
        elif not self._live.settled:
            self._poison(
                LogPoisoned(errno.EINTR, "interrupted in the middle of a change; open the log again", self.path)
            )

    def _poison(self, error: LogPoisoned) -> None:
        """Stop for good: nothing is acknowledged any more, reads end at the durable offset."""
        with self._mutex:
            if self._refusal is None:
                self._refusal = lambda: LogPoisoned(*error.args)
                reader = self._live.present.active
                reader.next_offset = max(min(reader.next_offset, self._durability.durable_offset), reader.base_offset)
                self._live.active.next_offset = reader.next_offset
        self._durability.fail(error)

    @classmethod
    def _leave_to_parent(cls) -> None:
        """In a forked child: the log belongs to the parent; here it can only be read."""
        for log in list(cls._open_writers):
            path = log.path
            log._mutex = threading.RLock()  # another thread of the parent may have held it
            log._interval_sync = None
            log._live.catalog.views.renew_guards()
            log._inherited = True
            log._refusal = lambda path=path: LogReadOnly(
                errno.EPERM,
                "the log was inherited through fork; only the parent writes, open it anew here",
                path,
            )

    # --- appending ----------------------------------------------------------------------------------------------

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset; see Log.append."""
        if value is not None and type(value) is not bytes:
            value = checked_bytes(value, "value")
        if key is not None:
            key = checked_key(key)
        timestamp = self._clock() if timestamp is None else checked_timestamp(timestamp)
        packed = encode_headers(checked_headers(headers)) if headers != () else b""
        with self._mutex:
            if self._refusal is not None or self._streaming:
                self._check_writable()
            offset = self._live.active.next_offset
            if expected_offset is not None and checked_offset(expected_offset, "expected_offset") != offset:
                raise OffsetConflict(expected_offset, offset)
            if offset >= MAX_OFFSET:
                self._refuse_offset(offset)
            self._append(offset, timestamp, key, value, packed)
        if self._flush_records is not None:
            self._flush_if_due(offset + 1)
        return offset

    def append_at(self, offset: int, record: Record) -> int:
        """Append a record of another log at its own offset; see Log.append_at."""
        offset = checked_offset(offset)
        if not isinstance(record, Record):
            raise InvalidType(f"append_at takes a seglog.Record, not {type(record).__name__}")
        value = None if record.value is None else checked_bytes(record.value, "value")
        key, timestamp = checked_key(record.key), checked_timestamp(record.timestamp)
        packed = encode_headers(checked_headers(record.headers))
        with self._writing():
            if offset < self._live.active.next_offset:
                raise OffsetConflict(offset, self._live.active.next_offset)
            if offset >= MAX_OFFSET:
                self._refuse_offset(offset)
            self._live.check_size(record_length(key, packed, value))
            if offset > self._live.active.next_offset:
                self._live.admit_gap(offset)
            self._append(offset, timestamp, key, value, packed)
        if self._flush_records is not None:
            self._flush_if_due(offset + 1)
        return offset

    def _append(self, offset: int, timestamp: int, key: bytes | None, value: bytes | None, headers: bytes) -> None:
        length = 32 + len(headers)
        if key is not None:
            length += len(key)
        if value is not None:
            length += len(value)
        try:
            active = self._live.active
            if active.size + length > self._segment_bytes or self._live.ages:
                self._live.make_room(length)
                self._live.last_append = self._clock()
                active = self._live.active
            active.append(offset, timestamp, key, value, headers)
        except BaseException as error:
            self._after_failure(error)
            raise

    def _refuse_offset(self, offset: int) -> NoReturn:
        """Refuse what stands behind the last offset there can be: offsets fit a signed 64-bit integer."""
        raise OffsetOutOfRange(offset, self._live.start, self._live.active.next_offset)

    @contextmanager
    def grouped(self) -> Iterator[None]:
        """Let the appends of this thread within the context share a sync; see Log.grouped."""
        self._group.open, self._group.reached = True, 0
        try:
            yield
        finally:
            self._group.open = False
        self._flush_if_due(self._group.reached)  # not the log's end: poisoning moves that back

    def _flush_if_due(self, next_offset: int) -> None:
        due = self._flush_records
        if getattr(self._group, "open", False):
            self._group.reached = next_offset
            return
        if due is not None and next_offset - self._durability.durable_offset >= due:
            self._durability.wait(next_offset, self._sync_written)

    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        limit: int | None = None,
    ) -> int:
        """Append one record whose value comes in pieces; see Log.append_stream."""
        if isinstance(chunks, (bytes, str, bytearray, memoryview)) or not isinstance(chunks, Iterable):
            raise InvalidType("append_stream takes an iterable of bytes; for one value at hand use append")
        key = checked_key(key)
        timestamp = self._clock() if timestamp is None else checked_timestamp(timestamp)
        pairs = checked_headers(headers)
        if limit is not None and checked_offset(limit, "limit") < 0:
            raise InvalidArgument(f"limit is {limit}; it must be a number of bytes, 0 or more")
        head = record_length(key, encode_headers(pairs), None)
        with self._writing():
            self._live.check_size(head)
            if self._live.active.next_offset >= MAX_OFFSET:
                self._refuse_offset(self._live.active.next_offset)
            if self._live.active.size >= self._segment_bytes or self._live.age_is_due():
                self._live.roll()
            if self._live.active.size + head > self._live.config.store_limit:
                self._live.roll()
            self._streaming = True
            try:
                offset = self._live.active.next_offset
                self._live.active.append_stream(
                    chunks,
                    timestamp,
                    key,
                    pairs,
                    record_limit=self._live.config.store_limit - self._live.active.size,
                    value_limit=limit,
                )
            finally:
                self._streaming = False
            self._live.last_append = self._clock()
        self._flush_if_due(offset + 1)
        return offset

    def append_batch(self, data: Any) -> range:
        """Append an Arrow table or record batch; see Log.append_batch."""
        self._check_open()
        from seglog.log.arrow import ArrowBatch  # noqa: PLC0415 - pyarrow and numba load when first used

        batch = ArrowBatch.prepare(data, now=self._clock())
        if batch.rows:
            widest = int(batch.sizes.argmax())
            self._live.check_size(int(batch.sizes[widest]), row=widest)
        with self._writing():
            first = self._live.active.next_offset
            if first + batch.rows > MAX_OFFSET:
                self._refuse_offset(first + batch.rows - 1)
            try:
                self._append_pieces(batch)
            except LogPoisoned:
                raise
            except BaseException:
                if self._live.settled and self._live.active.next_offset != first:
                    self._undo(first)
                raise
            self._live.last_append = self._clock()
            offsets = range(first, first + batch.rows)
        self._flush_if_due(offsets.stop)
        return offsets

    def _undo(self, first: int) -> None:
        """Take back the segments that a batch had committed before it failed."""
        try:
            self._truncate(first)
        except StorageError as error:
            message = "a batch failed and could not be rolled back; open the log again"
            raise LogPoisoned(error.errno, message, self.path) from error

    def _append_pieces(self, batch: Any) -> None:
        """Append a batch segment by segment; in one piece if a segment can take it."""
        if not batch.rows:
            return
        total = int(batch.ends[batch.rows])
        if self._live.age_is_due() or (total <= self._segment_bytes - HEADER_BYTES and not self._live.fits(total)):
            self._live.roll()
        row = 0
        while row < batch.rows:
            stop = batch.rows_within(row, self._segment_bytes - self._live.active.size)
            if stop == row and not self._live.active.empty:
                self._live.roll()
                continue
            stop = max(stop, row + 1)  # one record may use the overflow of an empty segment
            self._live.active.append_batch(batch, row, stop)
            row = stop

    # --- structure ----------------------------------------------------------------------------------------------

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; see Log.truncate."""
        offset = checked_offset(offset)
        with self._writing():
            if not self._live.start <= offset <= self._live.active.next_offset:
                raise OffsetOutOfRange(offset, self._live.start, self._live.active.next_offset)
            if offset < self._live.active.next_offset:
                self._truncate(offset)

    def _truncate(self, offset: int) -> None:
        self._durability.retreat(offset)  # first: an interrupt must not leave it ahead of the log
        self._live.truncate(offset)
        self._durability.advance(offset)

    def expire(self) -> int:
        """Let go of what retention no longer keeps; see Log.expire."""
        with self._writing():
            return self._live.expire()

    def repair(self, progress: Progress | None = None) -> RepairReport:
        """Set damage aside and go on with all that is readable; see Log.repair."""
        from seglog.log.check import verify_storage  # noqa: PLC0415 - an operator's call
        from seglog.log.repair import Repair  # noqa: PLC0415 - as above

        with self._writing():
            if not self._live.active.empty:
                self._live.roll()  # so that damage in it can be salvaged like that of any sealed segment
            before = self._live.catalog.current.segments
            report = verify_storage(self._storage, progress)
            repair = Repair(self._storage, self._live.catalog, self._clock, report).run()
            self._live.refresh(before)
            return repair

    # --- durability ---------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Return once every appended record survives power loss; see Log.sync."""
        with self._writing():
            target = self._live.active.next_offset
        self._durability.wait(target, self._sync_written)

    def _sync_quietly(self) -> None:
        if self._refusal is None and self._live.active.next_offset > self._durability.durable_offset:
            self.sync()

    def _sync_written(self) -> int:
        """Sync what is written by now, outside the mutex; return up to where. Called by one thread at a time."""
        with self._writing():
            active = self._live.active
            active.write_buffer()
            target = active.next_offset
        try:
            active.datasync()
        except LogPoisoned as error:
            self._poison(error)
            raise
        with self._mutex:
            if not self._closed and active is self._live.active:
                active.mark_durable(target)
        return target

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Sync, and let go of lock and files. A second call does nothing."""
        with self._mutex:
            if self._closed:
                return
            live = self._live
        if self._interval_sync is not None:
            self._interval_sync.stop()
        try:
            if self._refusal is None:
                self.sync()
            elif not live.settled and not self._inherited:
                live.active.rescue()
        finally:
            with self._mutex:
                self._let_go(live)

    def _let_go(self, live: LiveSegments) -> None:
        """Give the lock back, and the files, which close once nobody reads by them any more."""
        if self._closed:
            return
        self._closed = True
        path = self.path
        self._refusal = lambda: LogClosed(f"{path}: the log is closed; open it again")
        LogWriter._open_writers.discard(self)
        live.cache.clear()
        del self._live
        self._lock.release()

    def remove(self) -> None:
        """Close the log and remove its directory."""
        with self._writing():
            path = self.path
            self._refusal = lambda: LogClosed(f"{path}: the log was removed")  # before the first name goes
        try:
            self._storage.remove()
        finally:
            self.close()


os.register_at_fork(after_in_child=LogWriter._leave_to_parent)
