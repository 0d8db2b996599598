"""Write a log: single, streamed and batch appends, truncate, expire, repair. Safe for threads.

`locked` has the lock, the durability and the end of writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any, NoReturn

from seglog.config import MAX_OFFSET
from seglog.errors import (
    InvalidArgument,
    InvalidType,
    KeyRequired,
    LogClosed,
    LogPoisoned,
    OffsetConflict,
    OffsetOutOfRange,
    ReentrantCall,
    StorageError,
    StreamOverflow,
)
from seglog.format.codec import HEAD_BYTES, encode_headers, record_length
from seglog.log.batch_layout import check_widest, fill
from seglog.log.compaction import CompactingLog
from seglog.log.group_append import Appended, Draft, Group, Wanted, checked_row, checked_rows
from seglog.log.locked import change
from seglog.log.pins import pull_back_pins
from seglog.log.staging import (
    StagedSegment,
    after_batch,
    check_staged,
    checked_batch,
    checked_name,
    refuse_rebuilt,
)
from seglog.record import (
    Header,
    Headers,
    Record,
    checked_all,
    checked_bytes,
    checked_headers,
    checked_key,
    checked_offset,
    checked_timestamp,
)
from seglog.segment.write_buffer import Row
from seglog.storage import must_sync

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.arrow.to_rows import ArrowBatch
    from seglog.log.repair.repair import RepairReport
    from seglog.log.repair.verify import Progress


class LogWriter(CompactingLog):
    """A log that is open for writing."""

    # --- appending ----------------------------------------------------------------------------------------------

    def append(  # noqa: PLR0912 - this call must be fast: it is not split into functions
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset; see Log.append."""
        row = _, key, value, packed = checked_row(value, key, timestamp, headers, self._needs_keys, self._clock)
        length = HEAD_BYTES + len(packed)
        if key is not None:
            length += len(key)
        if value is not None:
            length += len(value)
        if self._flush_records is not None or self._busy:
            self._refuse_reentry()
        try:
            with self._mutex:  # the body of `_change`, inline, because calls are slower
                if self._inside:
                    raise ReentrantCall(self.path)
                self._inside = True
                try:
                    live = self._live
                    active = live.active
                    if self._refusal is not None or not active.settled:
                        self._check_writable()
                    offset = active.next_offset
                    if expected_offset is not None and checked_offset(expected_offset, "expected_offset") != offset:
                        raise OffsetConflict(expected_offset, offset)
                    if live.may_wait and active.hold(row, length):
                        return offset
                    if offset >= MAX_OFFSET:
                        self._refuse_offset(offset)
                    self._append(offset, row, length)
                except BaseException as error:
                    self._after_failure(error)
                    raise
                finally:
                    self._inside = False
        finally:
            if self._closing:
                self._close_now()
        if self._flush_records is not None:
            self._flush_if_due(offset + 1)
        return offset

    def append_each(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append records of several callers; see Log.append_each."""
        rows = checked_rows(drafts, needs_keys=self._needs_keys, clock=self._clock)
        outcomes, before, end = self._append_rows(rows)
        if self._flush_records is not None and end > before:
            self._flush_if_due(end)
        return outcomes

    @change
    def _append_rows(self, rows: list[Wanted | Exception]) -> tuple[list[Appended], int, int]:
        """Append rows; return the outcome of each, and the next offsets before and after."""
        live, before = self._live, self._live.active.next_offset
        outcomes = Group(live).append(rows)
        end = live.active.next_offset
        if live.ages and end > before:
            live.note_append()
        return outcomes, before, end

    def is_ready(self, length: int) -> bool:
        """Whether an append could begin at once, without a roll or a sync; see Log.is_ready."""
        length = checked_offset(length, "length")
        if self._flush_records is not None or not self._mutex.acquire(blocking=False):
            return False
        try:
            if self._refusal is not None or self._inside:
                return False
            live = self._live
            return live.active.size + length <= self._segment_bytes and not (live.ages and live.age_is_due())
        finally:
            self._mutex.release()

    def append_at(self, offset: int, record: Record) -> int:
        """Append a record of another log at its own offset; see Log.append_at."""
        offset = checked_offset(offset)
        if not isinstance(record, Record):
            raise InvalidType(f"append_at requires a seglog.Record, not {type(record).__name__}")
        value = None if record.value is None else checked_bytes(record.value, "value")
        key, timestamp = checked_key(record.key), checked_timestamp(record.timestamp)
        packed = encode_headers(checked_headers(record.headers))
        self._append_at(offset, (timestamp, key, value, packed))
        if self._flush_records is not None:
            self._flush_if_due(offset + 1)
        return offset

    @change
    def _append_at(self, offset: int, row: Row) -> None:
        _, key, value, packed = row
        if offset < self._live.active.next_offset:
            raise OffsetConflict(offset, self._live.active.next_offset)
        if offset >= MAX_OFFSET:
            self._refuse_offset(offset)
        length = record_length(key, packed, value)
        self._live.check_size(length)
        if offset > self._live.active.next_offset:
            self._live.admit_gap(offset)
        self._append(offset, row, length)

    def _append(self, offset: int, row: Row, length: int) -> None:
        active = self._live.active
        if active.size + length > self._segment_bytes or self._live.ages:
            self._live.make_room(length)
            self._live.last_append = self._clock()
            active = self._live.active
        through = self._flush_records is not None and self._is_due(offset + 1)
        timestamp, key, value, headers = row  # a call with *row is slower
        active.append(offset, timestamp, key, value, headers, through=through)

    def _refuse_offset(self, offset: int) -> NoReturn:
        """Raise for an offset beyond the maximum: offsets fit a signed 64-bit integer."""
        raise OffsetOutOfRange(offset, self._live.start, self._live.active.next_offset)

    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
    ) -> int:
        """Append one record whose value comes in chunks; see Log.append_stream."""
        if isinstance(chunks, (bytes, str, bytearray, memoryview)) or not isinstance(chunks, Iterable):
            raise InvalidType("append_stream requires an iterable of bytes; for a single value use append")
        key = checked_key(key)
        if key is None and self._needs_keys:
            raise KeyRequired
        timestamp = self._clock() if timestamp is None else checked_timestamp(timestamp)
        pairs = checked_headers(headers)
        limit, length = _checked_bytes_of(limit, "limit"), _checked_bytes_of(length, "length")
        if length is not None and limit is not None and length > limit:
            raise StreamOverflow(limit)
        offset = self._append_stream(chunks, timestamp, key, pairs, limit, length)
        self._flush_if_due(offset + 1)
        return offset

    @change
    def _append_stream(
        self,
        chunks: Iterable[bytes],
        timestamp: int,
        key: bytes | None,
        headers: Headers,
        limit: int | None,
        length: int | None,
    ) -> int:
        live = self._live
        self._make_room_for_stream(record_length(key, encode_headers(headers), None), length)
        offset = live.active.next_offset
        try:
            live.active.append_stream(
                self._until_closed(chunks, length),
                timestamp,
                key,
                headers,
                record_limit=live.config.store_limit - live.active.size,
                value_limit=limit if length is None else length,
            )
        except StreamOverflow as error:
            if length is not None:
                raise _other_length(length) from error
            raise
        live.note_append()
        return offset

    def _make_room_for_stream(self, head: int, length: int | None) -> None:
        """Roll if a record with a value of `length` bytes does not fit. head: size of everything but the value."""
        live = self._live
        live.check_size(head)
        live.note_epoch()
        if live.active.next_offset >= MAX_OFFSET:
            self._refuse_offset(live.active.next_offset)
        if length is not None:
            live.make_room(head + length)
        elif live.active.size >= self._segment_bytes or live.age_is_due():
            live.roll()
        if live.active.size + head > live.config.store_limit:
            live.roll()

    def _until_closed(self, chunks: Iterable[bytes], length: int | None) -> Iterator[bytes]:
        """Yield the chunks. Raise, so that nothing is stored, if this thread closes the log meanwhile, or if the chunks
        are shorter than `length`.
        """
        passed = 0
        for chunk in chunks:
            self._refuse_closing()
            yield chunk
            passed += len(chunk)
        self._refuse_closing()
        if length is not None and passed != length:
            raise _other_length(length)

    def _refuse_closing(self) -> None:
        if self._closing:
            raise LogClosed(f"{self.path}: the log was closed while the call read its data; nothing was stored")
        if self._refusal is not None:  # in a child that was forked meanwhile
            raise self._refusal()

    def append_batch(self, data: Any) -> range:
        """Append Arrow data; see Log.append_batch."""
        self._check_open()
        from seglog.arrow.stream import pieces_of  # noqa: PLC0415 - pyarrow loads when first used

        batches = map(self._prepared, pieces_of(data))
        head = next(batches)  # before the lock is taken, so that other writers continue meanwhile
        offsets = self._append_batches(chain((head,), self._batches_until_closed(batches)))
        self._flush_if_due(offsets.stop)
        return offsets

    def _prepared(self, data: pa.Table | pa.RecordBatch) -> ArrowBatch:
        """Return a batch that has passed every check possible before the append."""
        from seglog.arrow.convert import ArrowBatch  # noqa: PLC0415 - pyarrow and the kernels load when first used

        batch = ArrowBatch.prepare(data, now=self._clock())
        check_widest(self._live, batch)
        if self._needs_keys:
            batch.check_keys()
        return batch

    def _batches_until_closed(self, batches: Iterator[ArrowBatch]) -> Iterator[ArrowBatch]:
        """Yield the batches of a stream; raise once the stream has closed the log, or in a child that it forked."""
        for batch in batches:
            self._refuse_closing()
            yield batch

    @change
    def _append_batches(self, batches: Iterator[ArrowBatch]) -> range:
        first = self._live.active.next_offset
        self._live.note_epoch()
        try:
            for batch in batches:
                if self._live.active.next_offset + batch.rows > MAX_OFFSET:
                    self._refuse_offset(self._live.active.next_offset + batch.rows - 1)
                fill(self._live, batch)
        except LogPoisoned:
            raise
        except BaseException:
            if self._refusal is None and self._live.settled and self._live.active.next_offset != first:
                self._undo(first)
            raise
        self._live.note_append()
        return range(first, self._live.active.next_offset)

    def _undo(self, first: int) -> None:
        """Remove the segments that a batch had committed before it failed."""
        try:
            self._truncate(first)
        except StorageError as error:
            message = "a batch failed and could not be rolled back; open the log again"
            raise LogPoisoned(error.errno, message, self.path) from error

    # --- structure ----------------------------------------------------------------------------------------------

    def publish(self, staged: Sequence[StagedSegment], *, query: str, batch: int) -> range | None:
        """Add staged segments to the log atomically; see Log.publish."""
        staged = checked_all(staged, StagedSegment, "staged")
        return self._publish(staged, checked_name(query, "query"), checked_batch(batch))

    @change
    def _publish(self, staged: Sequence[StagedSegment], query: str, batch: int) -> range | None:
        manifest = self._live.catalog.current
        if manifest.published.get(query, -1) >= batch:
            must_sync(self._storage.sync_directory)  # the process that published it may have died just before its sync
            return None
        self._check_admits(staged)
        return self._live.publish(staged, after_batch(manifest.published, query, batch))

    def check_staged(self, staged: Sequence[StagedSegment]) -> None:
        """Check that segments can be published; see Log.check_staged."""
        self._check_staged(checked_all(staged, StagedSegment, "staged"))

    @change
    def _check_staged(self, staged: Sequence[StagedSegment]) -> None:
        self._check_admits(staged)
        for one in staged:
            check_staged(self._storage, one)

    def _check_admits(self, staged: Sequence[StagedSegment]) -> None:
        """Raise if the log, whatever the state of the stages, accepts no batch or not as many records."""
        refuse_rebuilt(self._live.catalog.current, self.path)
        end = self._live.active.next_offset + sum(one.records for one in staged)
        if end > MAX_OFFSET:
            self._refuse_offset(end - 1)

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; see Log.truncate."""
        self._truncate_to(checked_offset(offset))

    @change
    def _truncate_to(self, offset: int) -> None:
        if not self._live.start <= offset <= self._live.active.next_offset:
            raise OffsetOutOfRange(offset, self._live.start, self._live.active.next_offset)
        if offset < self._live.active.next_offset:
            self._truncate(offset)

    def _truncate(self, offset: int) -> None:
        self._live.catalog.ownership.check()
        pull_back_pins(self._storage, offset, clock=self._clock)
        durable = self._durability.durable_offset
        self._durability.retreat(offset)  # first, so that an interrupt cannot leave it beyond the log's end
        try:
            self._live.truncate(offset)
        except StorageError:
            self._durability.advance(durable)  # nothing was cut
            raise
        self._durability.advance(offset)

    @change
    def expire(self) -> int:
        """Delete what retention no longer keeps; see Log.expire."""
        return self._live.expire()

    @change
    def repair(self, progress: Progress | None = None) -> RepairReport:
        """Move damage to quarantine/ and continue; see Log.repair."""
        from seglog.log.repair.repair import Repair  # noqa: PLC0415 - as above
        from seglog.log.repair.verify import verify_storage  # noqa: PLC0415 - an operator's call

        self._live.catalog.ownership.check()
        if not self._live.active.empty:
            self._live.roll()  # so that damage in it is salvaged as in any sealed segment
        before = self._live.catalog.current.segments
        report = verify_storage(self._storage, progress)
        repair = Repair(self._storage, self._live.catalog, self._clock, report).run()
        self._live.refresh(before)
        return repair


def _checked_bytes_of(value: int | None, what: str) -> int | None:
    """Return a number of bytes, or None. Raises InvalidType or InvalidArgument."""
    if value is not None and checked_offset(value, what) < 0:
        raise InvalidArgument(f"{what} is {value}; it must be a number of bytes, 0 or more")
    return value


def _other_length(length: int) -> InvalidArgument:
    return InvalidArgument(f"the chunks of the stream do not have the given length of {length} bytes")
