"""A log whose lock this process holds: its state, when it refuses, what is durable, and its end.

State changes happen under one mutex. A sync waits outside of it, so that appends go on while the medium works.
After a failed sync the log is poisoned for good: it acknowledges nothing more, and reads end at the durable offset.
What is written is the business of `writer`.
"""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ClassVar
from weakref import WeakSet

from seglog.clock import Clock
from seglog.errors import InvalidArgument, LogClosed, LogPoisoned, LogReadOnly, SeglogError
from seglog.log.durability import IntervalSync
from seglog.log.info import SegmentInfo
from seglog.log.live import LiveSegments
from seglog.log.log import Log
from seglog.log.view import View
from seglog.segment.report import RecoveryReport
from seglog.storage import Lock, Storage


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
        self._streaming = False
        self._inherited = False
        self._refusal: Callable[[], SeglogError] | None = None
        self._durability = live.durability
        self._flush_records = live.config.flush_records
        self._segment_bytes = live.segment_bytes
        LockedLog._open_writers.add(self)
        interval = live.config.flush_interval
        self._interval_sync = IntervalSync(float(interval), self._sync_quietly) if interval else None  # type: ignore[arg-type] # settled to float

    # --- state --------------------------------------------------------------------------------------------------

    def view(self) -> View:
        """Return the present view; see Log.view."""
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
    def failure(self) -> LogPoisoned | None:
        """What poisoned the writer; see Log.failure."""
        return self._durability.failure

    @property
    def segments(self) -> tuple[SegmentInfo, ...]:
        """Figures of every segment, the active one last."""
        with self._mutex:
            self.view()
            return self._live.infos()

    def _check_writable(self) -> None:
        if self._refusal is not None:
            raise self._refusal()
        if self._streaming:
            raise InvalidArgument("append_stream is still taking chunks: they must not write to the same log")

    def _check_place(self) -> None:
        """Raise where the directory is not this log's any more; see Log._check_place."""
        self._check_open()
        self._live.catalog.ownership.check()

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
            log._interval_sync = None
            log._live.catalog.views.renew_guards()
            log._inherited = True
            log._refusal = lambda path=path: LogReadOnly(
                errno.EPERM,
                "the log was inherited through fork; only the parent writes, open it anew here",
                path,
            )

    # --- durability ---------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Return once every appended record survives power loss; see Log.sync."""
        with self._writing():
            self._live.catalog.ownership.check()  # also where all is synced: it may be gone
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
            self._live.catalog.ownership.check()  # last: what another process removed meanwhile is not acknowledged
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

    def _flush_if_due(self, next_offset: int) -> None:
        if self._is_due(next_offset):
            self._durability.wait(next_offset, self._sync_written)

    def _is_due(self, next_offset: int) -> bool:
        """Whether an append that ends there syncs before it returns: what it adds must not wait in a buffer then, whose
        refusal at the sync would come after the record is in.
        """
        due = self._flush_records
        return due is not None and next_offset - self._durability.durable_offset >= due

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
        LockedLog._open_writers.discard(self)
        live.cache.clear()
        del self._live
        self._lock.release()

    def remove(self) -> None:
        """Close the log and remove its directory."""
        with self._writing():
            self._live.catalog.ownership.check()
            path = self.path
            self._refusal = lambda: LogClosed(f"{path}: the log was removed")  # before the first name goes
        try:
            self._storage.remove()
        finally:
            self.close()


os.register_at_fork(after_in_child=LockedLog._leave_to_parent)
