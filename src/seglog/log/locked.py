"""A log that this process has locked for writing: its state, its durability and its end. `writer` adds the appends.

Order of locks. A thread that holds one of these waits only for those after it:
1. the writer's mutex (`_mutex`): every change of the log happens under it, one at a time;
2. `_syncing` of the active segment: one sync of the store at a time;
3. the guards of `Durability` and of the views: for a few statements, never during I/O.
`sync` waits without the mutex, so appends continue while the disk works. The thread that syncs takes the mutex before
(to write the buffer) and after (to record the result), not during the sync.

Poisoning. After a failed sync, or an interrupt in the middle of a change, the log is poisoned until it is opened again:
- `_refusal` is set once, under the mutex, and is never reset; every later change raises it;
- nothing more is acknowledged: waiting callers get LogPoisoned;
- reads end at the durable offset, because the page cache may hold what the disk does not.

Reentry. A signal handler, a callback or an iterable of the caller may call the log during a call of the same thread.
Such a call reads what is written so far; changes raise ReentrantCall; `close` takes effect when the interrupted call
ends. None of these waits for a lock, because the interrupted call may hold it.
"""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, ClassVar, Concatenate, NoReturn, ParamSpec, TypeVar, cast
from weakref import WeakSet

from seglog.clock import Clock
from seglog.errors import LogClosed, LogPoisoned, LogReadOnly, ReentrantCall, SeglogError, StorageError
from seglog.log.durability import IntervalSync
from seglog.log.info import SegmentInfo
from seglog.log.live_segments import LiveSegments
from seglog.log.log import Log
from seglog.log.view import View
from seglog.segment.recovery_report import RecoveryReport
from seglog.storage import Lock, Storage
from seglog.storage.descriptors import OPEN_LOGS

if TYPE_CHECKING:
    from seglog.segment.active import ActiveSegment

Self = TypeVar("Self", bound="LockedLog")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def change(method: Callable[Concatenate[Self, Arguments], Result]) -> Callable[Concatenate[Self, Arguments], Result]:
    """Make a method one change of the log: under its mutex, rejected inside another call of the same thread.

    A function, not a context manager: entering and leaving one are calls, and an interrupt may come after a call.
    """

    @functools.wraps(method)
    def changing(log: Self, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        log._refuse_reentry()
        try:
            return log._change(functools.partial(method, log, *args, **options))
        finally:
            if log._closing:
                log._close_now()

    return changing


class _Closed:
    """Replaces the segments of a closed log; every access raises."""

    def __init__(self, refusal: Callable[[], SeglogError]) -> None:
        self._refusal = refusal

    def __getattr__(self, name: str) -> NoReturn:
        raise self._refusal()


class LockedLog(Log):
    """A log open for writing; `LogWriter` adds the appends."""

    _open_writers: ClassVar[WeakSet[LockedLog]] = WeakSet()

    def __init__(
        self, storage: Storage, lock: Lock, live: LiveSegments, clock: Clock, recovery: RecoveryReport
    ) -> None:
        super().__init__(storage, clock, recovery)
        self._lock = lock
        self._live = live
        self._mutex = threading.RLock()
        self._inside = False  # whether a change is in progress; set and read only by the holder of the mutex
        self._busy: set[int] = set()  # threads that wait for a sync, or close the log, without the mutex
        self._closing = False  # `close` was called during another call, which closes the log when it ends
        self._inherited = False
        self._refusal: Callable[[], SeglogError] | None = None
        self._durability = live.durability
        self._flush_records = live.config.flush_records
        self._segment_bytes = live.segment_bytes
        LockedLog._open_writers.add(self)
        self._holds_files = False
        self._keeps_files = False
        if live.active.suspendable:
            self._note_files()
        interval = live.config.flush_interval
        self._interval_sync = IntervalSync(float(interval), self._sync_quietly) if interval else None  # type: ignore[arg-type] # settled to float

    # --- state --------------------------------------------------------------------------------------------------

    def view(self) -> View:
        """Return the present view; see Log.view. During another call of the same thread: of what is written so far."""
        if self._closed:
            self._check_open()
        active = self._live.active
        if active.reader.next_offset != active.next_offset and self._refusal is None and not self._reentered():
            self._write_buffer()
        return self._live.present

    @change
    def _write_buffer(self) -> None:
        self._live.active.write_buffer()

    def _refuse_to_read(self, view: View, offset: int) -> NoReturn:
        if view.next_offset <= offset < self._live.active.next_offset and self._refusal is None:
            self._refuse_reentry()  # the record is in the buffer of the interrupted call
        super()._refuse_to_read(view, offset)

    @property
    def next_offset(self) -> int:
        """The offset that the next append gets."""
        self._check_open()
        return self._live.active.next_offset

    @property
    def durable_offset(self) -> int:
        """The first offset that may be lost at power loss: all records before it are durable."""
        self._check_open()
        return self._durability.durable_offset

    @property
    def failure(self) -> LogPoisoned | None:
        """The error that poisoned the writer; see Log.failure."""
        return self._durability.failure

    @property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """Figures of every segment, the active one last."""
        self.view()
        if self._reentered():
            return self._live.infos()
        with self._mutex:
            return self._live.infos()

    def _reentered(self) -> bool:
        """Whether this thread is inside another call on this log."""
        return self._mutex._is_owned() or get_ident() in self._busy  # type: ignore[attr-defined] # as Condition does

    def _check_place(self) -> None:
        """Raise if the directory no longer belongs to this log; see Log._check_place."""
        self._check_open()
        self._live.catalog.ownership.check()

    def _refuse_reentry(self) -> None:
        if self._reentered():
            raise ReentrantCall(self.path)

    def _change(self, make: Callable[[], Result]) -> Result:
        """Make a change under the mutex, unless writing has ended; poison the log if a sync or a rollback fails."""
        with self._mutex:
            if self._inside:
                raise ReentrantCall(self.path)
            self._inside = True
            try:
                self._check_writable()
                return make()
            except BaseException as error:
                self._after_failure(error)
                raise
            finally:
                self._inside = False

    def _check_writable(self) -> None:
        if self._refusal is None and not self._live.settled:
            self._poison(_interrupted(self.path))  # a second interrupt came before the first was handled
        if self._refusal is not None:
            raise self._refusal()

    def _after_failure(self, error: BaseException) -> None:
        """Poison the log after a failed sync or rollback, or an interrupt in the middle of a change."""
        if self._refusal is not None:
            return
        if isinstance(error, LogPoisoned):
            self._poison(error)
        elif not self._live.settled:
            self._poison(_interrupted(self.path))

    def _poison(self, error: LogPoisoned) -> None:
        """Stop writing until the log is opened again; reads end at the durable offset."""
        with self._mutex:
            if self._refusal is None:
                self._refusal = lambda: LogPoisoned(*error.args)
                reader = self._live.present.active
                durable = self._durability.durable_offset  # may be before the active segment after a failed cut
                reader.next_offset = max(min(reader.next_offset, durable), self._live.start)
                self._live.active.next_offset = reader.next_offset
        self._durability.fail(error)

    @classmethod
    def _leave_to_parent(cls) -> None:
        """Prepare for a forked child: the log belongs to the parent; the child can only read it."""
        for log in list(cls._open_writers):
            path = log.path
            log._mutex = threading.RLock()  # another thread of the parent may have held it
            log._inside, log._busy, log._closing = False, set(), False
            log._interval_sync = None
            log._live.catalog.views.renew_guards()
            log._live.active.leave_to_parent()
            log._inherited = True
            log._refusal = lambda path=path: LogReadOnly(
                errno.EPERM,
                "the log was inherited through fork; only the parent writes, open it again here",
                path,
            )

    # --- descriptors --------------------------------------------------------------------------------------------

    def _note_files(self) -> None:
        """Register the active segment's open files; other logs may close theirs now."""
        if not self._holds_files:
            self._holds_files = True
            OPEN_LOGS.add(self._suspend_files)

    def _suspend_files(self) -> bool:
        """Close the active segment's files until they are needed; return False if the log is in use.

        Invariant: files are closed only when no thread uses them, and without losing a promise:
        - this takes the mutex without waiting: a thread that holds it may wait for a descriptor that this should free;
        - `suspend` syncs what is not durable before it closes the files: an error of writing back after the close would
          never be reported;
        - the next call of any thread opens the files again and calls `_note_files`.
        """
        if self._keeps_files or self._reentered() or not self._mutex.acquire(blocking=False):
            return False
        try:
            return self._closed or self._change(self._suspend_active)
        except SeglogError:
            return False  # writing has ended, perhaps because this sync failed
        finally:
            self._mutex.release()
            if self._closing:
                with suppress(SeglogError):  # the log that needs the descriptors must not get this error
                    self._close_now()

    def _suspend_active(self) -> bool:
        self._holds_files = False  # first: a reader may open them again at once, and registers them
        suspended = self._live.active.suspend(self._note_files)
        if not suspended:
            self._holds_files = True
        return suspended

    @change
    def _keep_files(self) -> None:
        self._keep_files_open()

    def _keep_files_open(self) -> None:
        self._keeps_files = True
        self._live.active.reopen()

    # --- durability ---------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Return once every appended record survives power loss; see Log.sync."""
        self._wait_for(self._end_of_log())

    @change
    def _end_of_log(self) -> int:
        self._live.catalog.ownership.check()  # even if all is synced: the directory may have been removed
        return self._live.active.next_offset

    def _wait_for(self, next_offset: int) -> None:
        """Return once the records before `next_offset` survive power loss."""
        self._refuse_reentry()
        me = get_ident()
        try:
            self._busy.add(me)
            self._durability.wait(next_offset, self._sync_written)
        finally:
            self._busy.discard(me)
            if self._closing:
                self._close_now()

    def _sync_quietly(self) -> None:
        if self._refusal is None and self._live.active.next_offset > self._durability.durable_offset:
            self.sync()

    def _sync_written(self) -> int:
        """Sync what is written by now, without the mutex; return its end. Called by one thread at a time."""
        active, target = self._change(self._written)
        try:
            active.datasync()
            self._live.catalog.ownership.check_after_sync()  # last: nothing in a removed directory is acknowledged
        except LogPoisoned as error:
            self._poison(error)
            raise
        with self._mutex:
            if self._refusal is None and active is self._live.active:
                try:
                    active.mark_durable(target)
                except BaseException as error:  # an interrupt; after a StorageError the old mark stays
                    self._after_failure(error)
                    raise
        return target

    def _written(self) -> tuple[ActiveSegment, int]:
        active = self._live.active
        active.write_buffer()
        return active, active.next_offset

    def _flush_if_due(self, next_offset: int) -> None:
        if self._is_due(next_offset):
            self._wait_for(next_offset)

    def _is_due(self, next_offset: int) -> bool:
        """Whether an append that ends at `next_offset` syncs before it returns.

        If so it must not be buffered: an error while the buffer is written at the sync would come after the append.
        """
        due = self._flush_records
        return due is not None and next_offset - self._durability.durable_offset >= due

    # --- closing ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Sync, and release lock and files. A second call does nothing.

        Called during another call of the same thread (for example by a signal handler), it returns at once, and that
        call closes the log when it ends. That call ends with its result; with LogClosed if it still takes chunks
        (`append_stream`) or reads a stream (`append_batch`); or with what the handler raises.

        Raises:
            LogPoisoned: If the sync fails; the log is closed in any case.
        """
        if self._reentered():
            self._closing = True
        else:
            self._close_now()

    def _close_now(self) -> None:
        """Close, unless this thread is inside another call: the outermost one closes.

        A second signal does not end this: what its handler raises (KeyboardInterrupt, SystemExit) is raised after
        closing.
        """
        interrupt: BaseException | None = None
        while not self._reentered():
            try:
                self._close_at_once()
                break
            except (KeyboardInterrupt, SystemExit) as raised:
                interrupt = interrupt or raised
        if interrupt is not None:
            raise interrupt

    def _close_at_once(self) -> None:
        me = get_ident()
        try:
            self._busy.add(me)
            with self._mutex:
                if not self._closed:
                    self._end(self._live)
            if self._interval_sync is not None:
                self._interval_sync.stop()  # without the mutex, because that thread may wait for it
        finally:
            self._busy.discard(me)

    def _end(self, live: LiveSegments) -> None:
        try:
            self._finish_writing(live)
        except SeglogError:
            self._release(live)
            raise
        self._release(live)

    def _finish_writing(self, live: LiveSegments) -> None:
        """Write and sync everything that was appended."""
        if self._refusal is None and live.settled:
            try:
                if live.active.next_offset > self._durability.durable_offset:
                    live.active.write_buffer()
                    live.active.datasync()
                live.catalog.ownership.check()
            except LogPoisoned as error:
                self._poison(error)
                raise
            live.active.mark_durable(live.active.next_offset)
            self._durability.advance(live.active.next_offset)
            with suppress(StorageError):  # the disk is still full, and nothing was appended
                live.note_epoch()
        elif not live.settled and not self._inherited:
            live.active.rescue()

    def _release(self, live: LiveSegments) -> None:
        """Release the lock and the files, which close when no reader uses them any more."""
        path = self.path
        self._refusal = lambda: LogClosed(f"{path}: the log is closed; open it again")
        LockedLog._open_writers.discard(self)
        live.cache.clear()
        closed = cast("LiveSegments", _Closed(self._refusal))
        self._lock.release()
        self._live, self._closed = closed, True  # last, so that an interrupted call can be repeated

    def remove(self) -> None:
        """Close the log and remove its directory."""
        self._refuse_all("the log was removed")  # before the first file is removed
        try:
            self._storage.remove()
        finally:
            self.close()

    @change
    def _refuse_all(self, why: str) -> None:
        self._live.catalog.ownership.check()
        with suppress(StorageError):
            self._keep_files_open()
        path = self.path
        self._refusal = lambda: LogClosed(f"{path}: {why}")


def _interrupted(path: str) -> LogPoisoned:
    return LogPoisoned(errno.EINTR, "a change of the log was interrupted; open the log again", path)


os.register_at_fork(after_in_child=LockedLog._leave_to_parent)
