"""Write a log: every change, delegated to the parts that make it. Safe for threads.

The parts share one `WriterState`: its mutex, the segments, and whether writing has ended. `Syncer` makes records
durable, `Compactor` compacts by key, `Publisher` adds staged segments, `OpenFiles` holds the descriptors. A single
append is made here, because it must be fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NoReturn

from seglog.clock import Clock
from seglog.compaction.plan import CompactionPlan
from seglog.compaction.schedule import Standing
from seglog.config import MAX_OFFSET, Compression
from seglog.errors import (
    InvalidType,
    LogPoisoned,
    OffsetConflict,
    OffsetOutOfRange,
    ReentrantCall,
    StorageError,
)
from seglog.format.codec import HEAD_BYTES, encode_headers, record_length
from seglog.log.appends.batch import append_batches, prepared
from seglog.log.appends.group import Appended, Draft, Group, Wanted, checked_row, checked_rows
from seglog.log.appends.stream import Stream, append_stream, checked_stream
from seglog.log.batch_layout import checked
from seglog.log.compaction import Compactor
from seglog.log.compression import Compressor
from seglog.log.copies import Copies
from seglog.log.fencing import fence
from seglog.log.info import CompactionReport, CompressionReport, SegmentInfo
from seglog.log.live_segments import LiveSegments
from seglog.log.mirrored import MirroredLog
from seglog.log.mirroring import Mirroring
from seglog.log.open_files import OpenFiles
from seglog.log.publishing import Publisher
from seglog.log.staging import StagedSegment, checked_batch, checked_name
from seglog.log.syncer import Syncer
from seglog.log.view import View, Views
from seglog.log.writer_state import OPEN, Phase, WriterState, change
from seglog.record import (
    Header,
    Record,
    Timestamp,
    checked_all,
    checked_bytes,
    checked_headers,
    checked_key,
    checked_offset,
    fitting_timestamp,
)
from seglog.segment.recovery_report import RecoveryReport
from seglog.segment.write_buffer import Row
from seglog.storage import Lock, Storage

if TYPE_CHECKING:
    from seglog.arrow.encodable import EncodableRows
    from seglog.compaction.rewrite import Outcome
    from seglog.config import LogConfig
    from seglog.log.repair.repair import RepairReport
    from seglog.log.repair.verify import Progress


class LogWriter(MirroredLog):
    """A log that is open for writing."""

    def __init__(
        self, storage: Storage, lock: Lock, live: LiveSegments, clock: Clock, recovery: RecoveryReport
    ) -> None:
        super().__init__(storage, clock, recovery)
        self._state = WriterState(storage.path, lock, live)
        self._syncer = Syncer(self._state)
        self._files = OpenFiles(self._state)
        self._compactor = Compactor(self._state, storage, clock)
        self._compressor = Compressor(self._state, storage, clock, self._compactor.running)
        self._publisher = Publisher(self._state, storage)
        self._mirroring = Mirroring(self._state, Copies(storage))
        self._take(live.config)

    def _take(self, config: LogConfig) -> None:
        """Keep at hand what the appends use of a config."""
        self._syncer.take(config)
        self._flush_records = config.flush_records
        self._segment_bytes = config.segment_bytes
        self._needs_keys = config.retention.needs_keys

    # --- state --------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the log is closed."""
        return self._state.closed

    def _all_views(self) -> Views:
        return self._state.live.catalog.views

    def _read_below(self, archive: str) -> None:
        """Read from an archive what retention has deleted here; see Log._read_below."""
        super()._read_below(archive)
        if self._tiers is not None:
            self._state.live.deleted = self._tiers.deleted

    def _own_view(self) -> View:
        """Return the present view. During another call of the same thread: of what is written so far."""
        state = self._state
        if state.closed:
            self._check_open()
        active = state.live.active
        if active.reader.next_offset != active.next_offset and state.phase is OPEN and not state.reentered():
            self._write_buffer()
        return state.live.present

    def _refuse_to_read(self, view: View, offset: int) -> NoReturn:
        state = self._state
        if view.next_offset <= offset < state.live.active.next_offset and state.phase is OPEN:
            state.refuse_reentry()  # the record is in the buffer of the interrupted call
        super()._refuse_to_read(view, offset)

    @property
    def next_offset(self) -> int:
        """The offset that the next append gets."""
        self._check_open()
        return self._state.live.active.next_offset

    @property
    def durable_offset(self) -> int:
        """The first offset that may be lost at power loss: all records before it are durable."""
        self._check_open()
        return self._state.durability.durable_offset

    @property
    def failure(self) -> LogPoisoned | None:
        """The error that poisoned the writer; see Log.failure."""
        return self._state.durability.failure

    @property
    def segments(self) -> Sequence[SegmentInfo]:
        """Figures of every segment, the active one last."""
        self.view()
        state = self._state
        if state.reentered():
            return state.live.infos()
        with state.mutex:
            return state.live.infos()

    def _check_place(self) -> None:
        """Raise if the directory no longer belongs to this log; see Log._check_place."""
        self._check_open()
        self._state.live.catalog.ownership.check()

    # --- appending ----------------------------------------------------------------------------------------------

    def append(  # noqa: PLR0912 - this call must be fast: it is not split into functions
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset; see Log.append."""
        row = _, key, value, packed = checked_row(
            value, key, timestamp, force_timestamp, headers, self._needs_keys, self._clock
        )
        length = HEAD_BYTES + len(packed)
        if key is not None:
            length += len(key)
        if value is not None:
            length += len(value)
        state = self._state
        if self._flush_records is not None or state.busy:
            state.refuse_reentry()
        try:
            with state.mutex:  # the body of `WriterState.change`, inline, because calls are slower
                if state.inside:
                    raise ReentrantCall(self.path)
                state.inside = True
                try:
                    live = state.live
                    active = live.active
                    if state.phase is not OPEN or not active.settled:
                        state.check_writable()
                    offset = active.next_offset
                    if expected_offset is not None and checked_offset(expected_offset, "expected_offset") != offset:
                        raise OffsetConflict(expected_offset, offset)
                    if live.may_wait and active.hold(row, length):
                        return offset
                    if offset >= MAX_OFFSET:
                        live.refuse_offset(offset)
                    self._append(offset, row, length)
                except BaseException as error:
                    state.after_failure(error)
                    raise
                finally:
                    state.inside = False
        finally:
            if state.closing:
                state.close_now()
        if self._flush_records is not None:
            self._syncer.flush_if_due(offset + 1)
        return offset

    def _append(self, offset: int, row: Row, length: int) -> None:
        live = self._state.live
        active = live.active
        if active.size + length > self._segment_bytes or live.ages:
            live.make_room(length)
            live.last_append = live.ticks()
            active = live.active
        through = self._flush_records is not None and self._syncer.is_due(offset + 1)
        timestamp, key, value, headers = row  # a call with *row is slower
        active.append(offset, timestamp, key, value, headers, through=through)

    def append_each(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append records of several callers; see Log.append_each."""
        rows = checked_rows(drafts, needs_keys=self._needs_keys, clock=self._clock)
        outcomes, before, end = self._append_rows(rows)
        if self._flush_records is not None and end > before:
            self._syncer.flush_if_due(end)
        return outcomes

    @change
    def _append_rows(self, rows: list[Wanted | Exception]) -> tuple[list[Appended], int, int]:
        """Append rows; return the outcome of each, and the next offsets before and after."""
        live = self._state.live
        before = live.active.next_offset
        outcomes = Group(live).append(rows)
        end = live.active.next_offset
        if live.ages and end > before:
            live.note_append()
        return outcomes, before, end

    def is_ready(self, length: int) -> bool:
        """Whether an append could begin at once, without a roll or a sync; see Log.is_ready."""
        length, state = checked_offset(length, "length"), self._state
        if self._flush_records is not None or not state.mutex.acquire(blocking=False):
            return False
        try:
            if state.phase is not OPEN or state.inside:
                return False
            live = state.live
            return live.active.size + length <= self._segment_bytes and not (live.ages and live.age_is_due())
        finally:
            state.mutex.release()

    def append_at(self, offset: int, record: Record) -> int:
        """Append a record of another log at its own offset; see Log.append_at."""
        offset = checked_offset(offset)
        if not isinstance(record, Record):
            raise InvalidType(f"append_at requires a seglog.Record, not {type(record).__name__}")
        value = None if record.value is None else checked_bytes(record.value, "value")
        key, timestamp = checked_key(record.key), fitting_timestamp(record.timestamp)
        packed = encode_headers(checked_headers(record.headers))
        self._append_at(offset, (timestamp, key, value, packed))
        self._syncer.flush_if_due(offset + 1)
        return offset

    @change
    def _append_at(self, offset: int, row: Row) -> None:
        live, (_, key, value, packed) = self._state.live, row
        if offset < live.active.next_offset:
            raise OffsetConflict(offset, live.active.next_offset)
        if offset >= MAX_OFFSET:
            live.refuse_offset(offset)
        length = record_length(key, packed, value)
        live.check_size(length)
        if offset > live.active.next_offset:
            live.admit_gap(offset)
        self._append(offset, row, length)

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
        """Append one record whose value comes in chunks; see Log.append_stream."""
        stream = checked_stream(
            chunks, key, timestamp, force_timestamp, headers, limit, length, self._needs_keys, self._clock
        )
        offset = self._append_stream(stream)
        self._syncer.flush_if_due(offset + 1)
        return offset

    @change
    def _append_stream(self, stream: Stream) -> int:
        return append_stream(self._state, stream)

    def append_batch(self, data: Any, *, force_timestamp: bool = False) -> range:
        """Append Arrow data; see Log.append_batch."""
        self._check_open()
        return self._append_prepared(self._prepared(data, force_timestamp=force_timestamp))

    def _prepared(self, data: Any, *, force_timestamp: bool) -> Iterator[EncodableRows]:
        needs_keys, clock = self._needs_keys, self._clock
        return prepared(self._state.live, data, force_timestamp=force_timestamp, needs_keys=needs_keys, clock=clock)

    def _append_encodable(self, rows: EncodableRows) -> range:
        """Append rows that are ready to be encoded; see Log._append_encodable."""
        self._check_open()
        return self._append_prepared(iter((checked(self._state.live, rows, needs_keys=self._needs_keys),)))

    def _append_prepared(self, batches: Iterator[EncodableRows]) -> range:
        offsets = self._append_batches(batches)
        self._syncer.flush_if_due(offsets.stop)
        return offsets

    def _check_batch(self, data: Any) -> None:
        """Raise what `append_batch` would raise because of the data, but for the units of its times."""
        for _ in self._prepared(data, force_timestamp=True):
            pass

    @change
    def _append_batches(self, batches: Iterator[EncodableRows]) -> range:
        return append_batches(self._state, batches)

    # --- durability ---------------------------------------------------------------------------------------------

    def flush(self) -> None:
        """Write buffered records to the store; see Log.flush."""
        active = self._state.live.active
        if active.reader.next_offset != active.next_offset:
            self._write_buffer()

    @change
    def _write_buffer(self) -> None:
        self._state.live.active.write_buffer()

    def sync(self) -> None:
        """Return once every appended record survives power loss; see Log.sync."""
        self._syncer.sync()

    # --- structure ----------------------------------------------------------------------------------------------

    def publish(self, staged: Sequence[StagedSegment], *, query: str, batch: int) -> range | None:
        """Add staged segments to the log atomically; see Log.publish."""
        staged = checked_all(staged, StagedSegment, "staged")
        return self._publisher.publish(staged, checked_name(query, "query"), checked_batch(batch))

    def check_staged(self, staged: Sequence[StagedSegment]) -> None:
        """Check that segments can be published; see Log.check_staged."""
        self._publisher.check(checked_all(staged, StagedSegment, "staged"))

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; see Log.truncate."""
        self._truncate(checked_offset(offset))

    @change
    def _truncate(self, offset: int) -> None:
        live = self._state.live
        if not live.start <= offset <= live.active.next_offset:
            raise OffsetOutOfRange(offset, live.start, live.active.next_offset)
        if offset < live.active.next_offset:
            live.truncate(offset)

    @change
    def expire(self) -> int:
        """Delete what retention no longer keeps; see Log.expire."""
        return self._state.live.expire()

    def delete_before(self, offset: int) -> int:
        """Delete the records before an offset; see Log.delete_before."""
        offset = checked_offset(offset)
        if self.durable_offset < offset <= self.next_offset:
            self.sync()  # a log must not begin after what a power loss would leave
        return self._delete_before(offset)

    @change
    def _delete_before(self, offset: int) -> int:
        live = self._state.live
        if not 0 <= offset <= live.active.next_offset:
            raise OffsetOutOfRange(offset, live.start, live.active.next_offset)
        return live.delete_before(offset)

    @change
    def alter(self, /, **changes: Any) -> None:
        """Change settings of the log; see Log.alter."""
        live = self._state.live
        live.configure(live.config.altered(changes))
        self._take(live.config)

    @change
    def _forget_moved(self) -> None:
        """Forget policies that the topic has now; see Log._forget_moved."""
        live = self._state.live
        live.configure(live.config.without_moved())

    @change
    def repair(self, progress: Progress | None = None) -> RepairReport:
        """Move damage to quarantine/ and continue; see Log.repair."""
        from seglog.log.repair.repair import Repair  # noqa: PLC0415 - an operator's call
        from seglog.log.repair.verify import verify_storage  # noqa: PLC0415 - as above

        live = self._state.live
        live.catalog.ownership.check()
        if not live.active.empty:
            live.roll()  # so that damage in it is salvaged as in any sealed segment
        before = live.catalog.current.segments
        report = verify_storage(self._storage, progress)
        repair = Repair(self._storage, live.catalog, self._clock, report).run()
        live.refresh(before)
        return repair

    # --- compaction ---------------------------------------------------------------------------------------------

    def standing(self) -> Standing:
        """Return the state of compaction; see Log.standing."""
        return self._compactor.standing()

    def compact(
        self,
        *,
        roll: bool = False,
        generational: bool = False,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompactionReport:
        """Keep only the latest record of each key; see Log.compact."""
        return self._compactor.compact(
            roll=roll, generational=generational, progress=progress, abort=abort, bytes_per_second=bytes_per_second
        )

    def plan_compaction(self, *, generational: bool = False) -> CompactionPlan:
        """Return what a compaction would do at present; see Log.plan_compaction."""
        return self._compactor.plan(generational=generational)

    def finish_compaction(self, plan: CompactionPlan, outcome: Outcome, directory: str) -> CompactionReport:
        """Swap in the result of `rewrite`; see Log.finish_compaction."""
        return self._compactor.finish(plan, outcome, directory)

    def compress(
        self,
        codec: Compression | None = None,
        *,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompressionReport:
        """Store the sealed segments as the config requires; see Log.compress."""
        return self._compressor.compress(
            codec, max_bytes=max_bytes, progress=progress, abort=abort, bytes_per_second=bytes_per_second
        )

    # --- the end ------------------------------------------------------------------------------------------------

    @change
    def fence(self, term: int) -> None:
        """Accept no more changes, durably; see Log.fence."""
        fence(self._state, checked_offset(term, "term"))

    def _keep_files(self) -> None:
        """Keep all files open from now on; see Log._keep_files."""
        self._files.keep()

    def close(self) -> None:
        """Sync, and release lock and files. A second call does nothing.

        Called during another call of the same thread (for example by a signal handler), it returns at once, and that
        call closes the log when it ends. That call ends with its result; with LogClosed if it still takes chunks
        (`append_stream`) or reads a stream (`append_batch`); or with what the handler raises.

        Raises:
            LogPoisoned: If the sync fails; the log is closed in any case.
        """
        if self._tiers is not None:
            self._tiers.close()
        self._state.close()

    def remove(self) -> None:
        """Close the log and remove its directory."""
        self._refuse_changes()  # before the first file is removed
        try:
            self._storage.remove()
        finally:
            self.close()

    @change
    def _refuse_changes(self) -> None:
        self._state.live.catalog.ownership.check()
        with suppress(StorageError):
            self._files.reopen()
        self._state.phase = Phase.REMOVED
