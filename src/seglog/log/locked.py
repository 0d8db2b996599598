"""A log whose lock this process holds: its state, when it refuses, what is durable, and its end.

State changes happen under one mutex. A sync waits outside of it, so that appends go on while the disk works.
After a failed sync the log is poisoned for good: it acknowledges nothing more, and reads end at the durable offset.
What is written is the business of `writer`.

A signal handler, a callback or an iterable of the caller may call the log while a call of the same thread is under way.
Such a call reads what is written so far; changes are refused (ReentrantCall); `close` takes effect when the interrupted
call ends, in whatever way. No lock is waited for there: what holds it may be what was interrupted.
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
from seglog.log.live import LiveSegments
from seglog.log.log import Log
from seglog.log.view import View
from seglog.segment.report import RecoveryReport
from seglog.storage import Lock, Storage
from seglog.storage.descriptors import OPEN_LOGS

if TYPE_CHECKING:
    from seglog.segment.active import ActiveSegment

Self = TypeVar("Self", bound="LockedLog")
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def change(method: Callable[Concatenate[Self, Arguments], Result]) -> Callable[Concatenate[Self, Arguments], Result]:
    """Make a method one change of the log: under its mutex, refused in the middle of another call of this thread.

    A function and no context manager: those are entered and left by calls, after which an interrupt may come.
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
    """Stands for the segments of a log that is closed."""

    def __init__(self, refusal: Callable[[], SeglogError]) -> None:
        self._refusal = refusal

    def __getattr__(self, name: str) -> NoReturn:
        raise self._refusal()


class LockedLog(Log):
    """A log held for writing; `LogWriter` adds the writing."""

    _open_writers: ClassVar[WeakSet[LockedLog]] = WeakSet()

    def __init__(
        self, storage: Storage, lock: Lock, live: LiveSegments, clock: Clock, recovery: RecoveryReport
    ) -> None:
        super().__init__(storage, clock, recovery)
        self._lock = lock
        self._live = live
        self._mutex = threading.RLock()
        self._inside = False  # whether a change is under way; only the holder of the mutex sets and reads it
        self._busy: set[int] = set()  # the threads that wait for a sync, or close the log, without the mutex
        self._closing = False  # `close` was called in the middle of a call, which closes the log as it ends
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
        """Return the present view; see Log.view. In the middle of a call of this thread: of what is written by then."""
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
            self._refuse_reentry()  # it waits in the buffer of the call that was interrupted
        super()._refuse_to_read(view, offset)

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
    def failure(self) -> LogPoisoned | None:
        """What poisoned the writer; see Log.failure."""
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
        """Whether this thread is in the middle of a call on this log already."""
        return self._mutex._is_owned() or get_ident() in self._busy  # type: ignore[attr-defined] # as Condition asks it

    def _check_place(self) -> None:
        """Raise where the directory is not this log's any more; see Log._check_place."""
        self._check_open()
        self._live.catalog.ownership.check()

    def _refuse_reentry(self) -> None:
        if self._reentered():
            raise ReentrantCall(self.path)

    def _change(self, make: Callable[[], Result]) -> Result:
        """Make a change under the mutex, unless writing is over; poison the log where a sync or a rollback fails."""
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
            self._poison(_interrupted(self.path))  # a second interrupt came before the first was noticed
        if self._refusal is not None:
            raise self._refusal()

    def _after_failure(self, error: BaseException) -> None:
        """Stop the writer after a failed sync or rollback, and after an interrupt in the middle of bookkeeping."""
        if self._refusal is not None:
            return
        if isinstance(error, LogPoisoned):
            self._poison(error)
        elif not self._live.settled:
            self._poison(_interrupted(self.path))

    def _poison(self, error: LogPoisoned) -> None:
        """Stop for good: nothing is acknowledged any more, reads end at the durable offset."""
        with self._mutex:
            if self._refusal is None:
                self._refusal = lambda: LogPoisoned(*error.args)
                reader = self._live.present.active
                durable = self._durability.durable_offset  # below the active segment where a cut of others failed
                reader.next_offset = max(min(reader.next_offset, durable), self._live.start)
                self._live.active.next_offset = reader.next_offset
        self._durability.fail(error)

    @classmethod
    def _leave_to_parent(cls) -> None:
        """In a forked child: the log belongs to the parent; here it can only be read."""
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
                "the log was inherited through fork; only the parent writes, open it anew here",
                path,
            )

    # --- descriptors --------------------------------------------------------------------------------------------

    def _note_files(self) -> None:
        """Note that the active segment's files are open; other logs may close theirs now."""
        if not self._holds_files:
            self._holds_files = True
            OPEN_LOGS.add(self._suspend_files)

    def _suspend_files(self) -> bool:
        """Close the active segment's files until they are needed; False where the log is at work."""
        if self._keeps_files or self._reentered() or not self._mutex.acquire(blocking=False):
            return False
        try:
            return self._closed or self._change(self._suspend_active)
        except SeglogError:
            return False  # writing is over, perhaps because this sync failed
        finally:
            self._mutex.release()
            if self._closing:
                with suppress(SeglogError):  # not the business of the log that needs the descriptors
                    self._close_now()

    def _suspend_active(self) -> bool:
        self._holds_files = False  # first: a reader may open them again at once, and notes it
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
        self._live.catalog.ownership.check()  # also where all is synced: the directory may be gone
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
        """Sync what is written by now, outside the mutex; return up to where. Called by one thread at a time."""
        active, target = self._change(self._written)
        try:
            active.datasync()
            self._live.catalog.ownership.check_after_sync()  # last: what was removed meanwhile is not acknowledged
        except LogPoisoned as error:
            self._poison(error)
            raise
        with self._mutex:
            if self._refusal is None and active is self._live.active:
                try:
                    active.mark_durable(target)
                except BaseException as error:  # an interrupt: a refusal only leaves the mark where it was
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
        """Whether an append that ends there syncs before it returns: what it adds must not wait in a buffer then, whose
        refusal at the sync would come after the record is in.
        """
        due = self._flush_records
        return due is not None and next_offset - self._durability.durable_offset >= due

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Sync, and release lock and files. A second call does nothing.

        In the middle of a call of this thread (in a signal handler, say) it returns at once, and that call closes the
        log as it ends: with its result, with LogClosed where it still takes chunks (`append_stream`) or reads a stream
        (`append_batch`), or with what the handler raises.
        """
        if self._reentered():
            self._closing = True
        else:
            self._close_now()

    def _close_now(self) -> None:
        """Close, unless this thread is still in the middle of a call: the outermost one does it.

        A second signal does not end it: what its handler raised (KeyboardInterrupt, SystemExit) is raised when the log
        is closed.
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
                self._interval_sync.stop()  # without the mutex, for which it may wait
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
        """Put everything that was appended on the disk."""
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
        elif not live.settled and not self._inherited:
            live.active.rescue()

    def _release(self, live: LiveSegments) -> None:
        """Release the lock, and the files, which close once no reader uses them any more."""
        path = self.path
        self._refusal = lambda: LogClosed(f"{path}: the log is closed; open it again")
        LockedLog._open_writers.discard(self)
        live.cache.clear()
        closed = cast("LiveSegments", _Closed(self._refusal))
        self._lock.release()
        self._live, self._closed = closed, True  # last, so that a call that is interrupted here can be repeated

    def remove(self) -> None:
        """Close the log and remove its directory."""
        self._refuse_all("the log was removed")  # before the first name goes
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
    return LogPoisoned(errno.EINTR, "interrupted in the middle of a change; open the log again", path)


os.register_at_fork(after_in_child=LockedLog._leave_to_parent)
