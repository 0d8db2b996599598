"""The state of a log that this process writes: its phase, the mutex for every change, and the end of writing.

Order of locks. A thread that holds one of these waits only for those after it:
1. the writer's mutex (`WriterState.mutex`): every change of the log happens under it, one at a time;
2. `_syncing` of the active segment: one sync of the store at a time;
3. the guards of `Durability` and of the views: for a few statements, never during I/O.
`sync` waits without the mutex, so appends continue while the disk works. The thread that syncs takes the mutex before
(to write the buffer) and after (to record the result), not during the sync.

Poisoning. After a failed sync, or an interrupt in the middle of a change, the log is poisoned until it is opened again:
- the phase leaves OPEN once, under the mutex, and never returns to it; every later change raises `refusal`;
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
from enum import Enum
from threading import get_ident
from typing import TYPE_CHECKING, ClassVar, Concatenate, NoReturn, ParamSpec, Protocol, TypeVar, cast
from weakref import WeakSet

from seglog.errors import LogClosed, LogFenced, LogPoisoned, LogReadOnly, ReentrantCall, SeglogError, StorageError

if TYPE_CHECKING:
    from seglog.format.manifest import Role
    from seglog.log.durability import IntervalSync
    from seglog.log.live_segments import LiveSegments
    from seglog.storage import Lock


class Phase(Enum):
    """Whether a log accepts changes, and why not."""

    OPEN = "open"
    POISONED = "poisoned"
    INHERITED = "inherited through fork"
    REMOVED = "removed"
    FENCED = "fenced"
    CLOSED = "closed"


OPEN = Phase.OPEN


class Changing(Protocol):
    """An object whose methods change a log."""

    _state: WriterState


Self = TypeVar("Self", bound=Changing)
Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def change(method: Callable[Concatenate[Self, Arguments], Result]) -> Callable[Concatenate[Self, Arguments], Result]:
    """Make a method one change of the log: under its mutex, rejected inside another call of the same thread.

    A function, not a context manager: entering and leaving one are calls, and an interrupt may come after a call.
    """

    @functools.wraps(method)
    def changing(one: Self, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        state = one._state
        state.refuse_reentry()
        try:
            return state.change(functools.partial(method, one, *args, **options))
        finally:
            if state.closing:
                state.close_now()

    return changing


class _Closed:
    """Replaces the segments of a closed log; every access raises."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __getattr__(self, name: str) -> NoReturn:
        raise _closed(self._path)


class WriterState:
    """What every part of a writer shares.

    Attributes:
        live: The segments; changed under `mutex` only.
        inside: Whether a change is in progress; set and read only by the holder of the mutex.
        busy: Threads that wait for a sync, or close the log, without the mutex.
        closing: `close` was called during another call, which closes the log when it ends.
        closed: The lock and the files are released.
        interval_sync: The thread that syncs at intervals, if any.
    """

    _open: ClassVar[WeakSet[WriterState]] = WeakSet()

    def __init__(self, path: str, lock: Lock, live: LiveSegments) -> None:
        self.path = path
        self.live = live
        self.durability = live.durability
        self.mutex = threading.RLock()
        self.inside = False
        self.busy: set[int] = set()
        self.phase = OPEN
        self.closing = False
        self.closed = False
        self.interval_sync: IntervalSync | None = None
        self._lock = lock
        self._cause: LogPoisoned | None = None  # of phase POISONED
        WriterState._open.add(self)

    # --- changes ------------------------------------------------------------------------------------------------

    def reentered(self) -> bool:
        """Whether this thread is inside another call on this log."""
        return self.mutex._is_owned() or get_ident() in self.busy  # type: ignore[attr-defined] # as Condition does

    def refuse_reentry(self) -> None:
        """Raise ReentrantCall inside another call of this thread."""
        if self.reentered():
            raise ReentrantCall(self.path)

    def change(self, make: Callable[[], Result]) -> Result:
        """Make a change under the mutex, unless writing has ended; poison the log if a sync or a rollback fails.

        The caller has made sure that this thread is not inside another call: see `reentered`.
        """
        with self.mutex:
            self.inside = True
            try:
                self.check_writable()
                return make()
            except BaseException as error:
                self.after_failure(error)
                raise
            finally:
                self.inside = False

    def check_writable(self) -> None:
        """Raise why writing has ended, if it has."""
        if self.phase is OPEN and not self.live.settled:
            self.poison(_interrupted(self.path))  # a second interrupt came before the first was handled
        if self.phase is not OPEN:
            raise self.refusal()

    def refuse_closing(self) -> None:
        """Raise if the caller's data, which is being read, has closed the log or forked meanwhile."""
        if self.closing:
            raise LogClosed(f"{self.path}: the log was closed while the call read its data; nothing was stored")
        if self.phase is not OPEN:
            raise self.refusal()

    def refusal(self) -> SeglogError:
        """Return the error of a change in the present phase, which is not OPEN."""
        if self.phase is Phase.POISONED and self._cause is not None:
            return LogPoisoned(*self._cause.args)
        if self.phase is Phase.INHERITED:
            message = "the log was inherited through fork; only the parent writes, open it again here"
            return LogReadOnly(errno.EPERM, message, self.path)
        if self.phase is Phase.FENCED:
            return fenced(self.live.catalog.current.role, self.path)
        if self.phase is Phase.REMOVED:
            return LogClosed(f"{self.path}: the log was removed")
        return _closed(self.path)

    # --- poisoning ----------------------------------------------------------------------------------------------

    def after_failure(self, error: BaseException) -> None:
        """Poison the log after a failed sync or rollback, or an interrupt in the middle of a change."""
        if self.phase is not OPEN:
            return
        if isinstance(error, LogPoisoned):
            self.poison(error)
        elif not self.live.settled:
            self.poison(_interrupted(self.path))

    def poison(self, error: LogPoisoned) -> None:
        """Stop writing until the log is opened again; reads end at the durable offset."""
        with self.mutex:
            if self.phase is OPEN:
                self._cause = error
                self.phase = Phase.POISONED
                reader = self.live.present.active
                durable = self.durability.durable_offset  # may be before the active segment after a failed cut
                reader.next_offset = max(min(reader.next_offset, durable), self.live.start)
                self.live.active.next_offset = reader.next_offset
        self.durability.fail(error)  # last: a caller that this wakes must not read records that may be lost

    # --- forks --------------------------------------------------------------------------------------------------

    @classmethod
    def leave_to_parent(cls) -> None:
        """Prepare for a forked child: the logs belong to the parent; the child can only read them."""
        for state in list(cls._open):
            state.mutex = threading.RLock()  # another thread of the parent may have held it
            state.inside, state.busy, state.closing = False, set(), False
            state.interval_sync = None
            state.live.catalog.views.renew_guards()
            state.live.active.leave_to_parent()
            state.phase = Phase.INHERITED

    # --- the end ------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close now, or when the call ends that this thread is in."""
        if self.reentered():
            self.closing = True
        else:
            self.close_now()

    def close_now(self) -> None:
        """Close, unless this thread is inside another call: the outermost one closes.

        A second signal does not end this: what its handler raises (KeyboardInterrupt, SystemExit) is raised after
        closing.
        """
        interrupt: BaseException | None = None
        while not self.reentered():
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
            self.busy.add(me)
            with self.mutex:
                if not self.closed:
                    self._end(self.live)
            if self.interval_sync is not None:
                self.interval_sync.stop()  # without the mutex, because that thread may wait for it
        finally:
            self.busy.discard(me)

    def _end(self, live: LiveSegments) -> None:
        try:
            if self.phase is not Phase.CLOSED:  # else an interrupted `_release` is repeated
                self._finish_writing(live)
        except SeglogError:
            self._release(live)
            raise
        self._release(live)

    def _finish_writing(self, live: LiveSegments) -> None:
        """Write and sync everything that was appended."""
        if self.phase is OPEN and live.settled:
            try:
                if live.active.next_offset > self.durability.durable_offset:
                    live.active.complete()
                live.catalog.ownership.check()
            except LogPoisoned as error:
                self.poison(error)
                raise
            self.durability.advance(live.active.next_offset)
            with suppress(StorageError):  # the disk is still full, and nothing was appended: see Catalog.begin_epoch
                live.note_epoch()
                live.active.mark_durable(live.active.next_offset)
                live.active.give_back()
        elif not live.settled and self.phase is not Phase.INHERITED:
            live.active.rescue()

    def _release(self, live: LiveSegments) -> None:
        """Release the lock and the files, which close when no reader uses them any more."""
        self.phase = Phase.CLOSED
        WriterState._open.discard(self)
        live.cache.clear()
        closed = cast("LiveSegments", _Closed(self.path))
        self._lock.release()
        self.live, self.closed = closed, True  # last, so that an interrupted call can be repeated


def fenced(role: Role, path: str) -> LogFenced:
    """Return the error of a leader in place of which another log was promoted."""
    message = (
        f"another log was promoted in place of this one (term {role.fenced}; this one has term {role.term}); write to "
        "that log, and make this one its copy with `seglog mirror`"
    )
    return LogFenced(errno.EROFS, message, path)


def _closed(path: str) -> LogClosed:
    return LogClosed(f"{path}: the log is closed; open it again")


def _interrupted(path: str) -> LogPoisoned:
    return LogPoisoned(errno.EINTR, "a change of the log was interrupted; open the log again", path)


os.register_at_fork(after_in_child=WriterState.leave_to_parent)
