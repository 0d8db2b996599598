"""Group commit: callers that wait for a sync share one with every other caller that waits at that moment.

Invariant: `durable_offset` covers only records that a completed sync has put on the disk, and no waiter returns before
it covers its records. A sync covers what was written before it began, so a caller that arrives during a sync waits for
the next one.

- The first waiter leads. It syncs what is written by then, on behalf of all; no other thread syncs meanwhile. Of those
  that arrive during the sync, the first leads the next round.
- Waiters whose records are durable wake one another in a chain. Woken all at once, they would compete for the
  interpreter. The next leader is last in the chain: by then the ones before it have appended again and share its sync.
- A cut during a sync (`retreat`) invalidates what the sync would report. `_cuts` detects that.
- A failed sync is final: `fail` wakes every waiter with LogPoisoned, and no later call succeeds.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from queue import Empty, SimpleQueue
from weakref import WeakMethod

from seglog.errors import LogClosed, LogPoisoned, SeglogError

LOOK_AGAIN_SECONDS = 1.0  # in case an interrupt kept a waiter from waking the next


class _Waiter:
    """A caller that waits until every record before `next_offset` is on the disk. gone: it no longer waits."""

    __slots__ = ("_gate", "gone", "next_offset")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.gone = False
        self._gate: threading.Lock | None = None

    def close_gate(self) -> None:
        """Prepare to sleep, before another thread may call `wake`. A caller that leads at once has no gate."""
        if self._gate is None:
            self._gate = threading.Lock()
            self._gate.acquire()

    def sleep(self) -> None:
        """Return once woken, or after LOOK_AGAIN_SECONDS."""
        if self._gate is not None:
            self._gate.acquire(timeout=LOOK_AGAIN_SECONDS)

    def wake(self) -> None:
        """End the present sleep, or the next one. Called by one thread at a time."""
        if self._gate is not None and self._gate.locked():
            self._gate.release()


class Durability:
    """The offset up to which records are on the disk, and the syncs that advance it."""

    def __init__(self, durable_offset: int) -> None:
        self._guard = threading.RLock()
        self._leader: _Waiter | None = None
        self._waiting: list[_Waiter] = []
        self._chain: deque[_Waiter] = deque()  # each one wakes the next
        self._cuts = 0
        self._failure: LogPoisoned | None = None
        self.durable_offset = durable_offset

    @property
    def failure(self) -> LogPoisoned | None:
        """Why nothing more will become durable; None if it will."""
        return self._failure

    def wait(self, next_offset: int, sync_written: Callable[[], int]) -> None:
        """Return once every record before `next_offset` is on the disk. Raises LogPoisoned if that is impossible.

        sync_written: syncs and returns the end of what was written before; called by one thread at a time. Also returns
        if the log was cut below `next_offset` meanwhile: the records are no longer part of the log. Signal handlers
        must not call this, because it may wait for the interrupted thread; the log rejects such calls.
        """
        me = _Waiter(next_offset)
        try:
            while self.durable_offset < next_offset:
                if self._takes(me) and self._lead(sync_written) < next_offset:
                    return
        except LogClosed:
            if self.durable_offset < next_offset:  # else the thread that closed the log has synced it
                raise
        finally:
            led = self._leader is me
            if led:  # first, and without a call, so that a second interrupt cannot come between
                self._leader = None
            me.gone = True
            self._wake(sort_out=led)

    def _takes(self, me: _Waiter) -> bool:
        """Whether this waiter leads; if not, wait for the result of the present leader."""
        with self._guard:
            self._check()
            if self.durable_offset >= me.next_offset:
                return False
            if self._leader is None:
                self._leader = me
            if self._leader is me:
                return True
            if me not in self._waiting:
                me.close_gate()
                self._waiting.append(me)
        me.sleep()
        return self._leader is me

    def _lead(self, sync_written: Callable[[], int]) -> int:
        """Sync; return the end of what was written before."""
        with self._guard:
            cuts = self._cuts
        reached = sync_written()
        with self._guard:
            self._check()  # another sync may have failed meanwhile, such as that of a roll
            if cuts == self._cuts and reached > self.durable_offset:  # else it may have been cut off meanwhile
                self.durable_offset = reached
        return reached

    def _check(self) -> None:
        if self._failure is not None:
            raise LogPoisoned(*self._failure.args) from self._failure

    def _wake(self, *, sort_out: bool) -> None:
        """Wake the next waiter in the chain. sort_out: first determine which waiters are done."""
        with self._guard:
            if self._waiting and (sort_out or self._leader is None):
                self._sort_out()
            while self._chain:
                waiter = self._chain.popleft()
                waiter.wake()
                if not waiter.gone:  # it will wake the next one
                    return

    def _sort_out(self) -> None:
        """Move waiters that are done into the chain; the first of the others becomes leader and is woken last."""
        waiting, self._waiting, led = self._waiting, [], self._leader
        for waiter in waiting:
            if waiter.gone:
                continue
            if self._failure is not None or self.durable_offset >= waiter.next_offset:
                self._chain.append(waiter)
            elif self._leader is None:
                self._leader = waiter
            else:
                self._waiting.append(waiter)
        if self._leader is not None and self._leader is not led:
            self._chain.append(self._leader)

    def advance(self, next_offset: int) -> None:
        """Record that another operation (a roll, a truncate) has synced the records before `next_offset`."""
        with self._guard:
            self.durable_offset = max(self.durable_offset, next_offset)
            self._wake(sort_out=True)

    def retreat(self, next_offset: int) -> None:
        """Record that the log was cut to `next_offset`."""
        with self._guard:
            self._cuts += 1
            self.durable_offset = min(self.durable_offset, next_offset)

    def fail(self, failure: LogPoisoned) -> None:
        """Wake every waiter with an error: nothing more will become durable."""
        with self._guard:
            self._failure = failure
            self._wake(sort_out=True)


class IntervalSync:
    """Call `sync` every `seconds` on its own thread until stopped; None: not now.

    Nothing joins the thread: a join that signals interrupt twice may keep the lock for which the next one waits
    (Python 3.11).
    """

    def __init__(self, seconds: float | None, sync: Callable[[], None]) -> None:
        self._seconds = seconds
        self._called: SimpleQueue[bool] = SimpleQueue()  # not an Event: an interrupted set() may leave its lock held
        # the thread must not keep a log alive that was dropped without close, and ends then
        self._sync = WeakMethod(sync, lambda _: self._called.put(False))
        self._ended: SimpleQueue[None] = SimpleQueue()
        self._has_ended = False
        self._thread = threading.Thread(target=self._run, name="seglog-flush", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._is_stopped() and self._is_synced():
                pass
        finally:
            self._has_ended = True
            self._ended.put(None)

    def _is_synced(self) -> bool:
        """Sync; return whether there will be a next round."""
        sync = self._sync()
        if sync is None:
            return False
        try:
            sync()
        except LogPoisoned:
            return False  # the next append raises it
        except SeglogError:
            pass  # for example no space for the buffer: the next round or append tries again
        return True

    def _is_stopped(self) -> bool:
        """Wait for the next round; return whether the thread was stopped."""
        try:
            while self._called.get(timeout=self._seconds):
                pass  # other seconds begin
        except Empty:
            return False
        return True

    def change(self, seconds: float | None) -> None:
        """Sync at this interval from now on."""
        if seconds != self._seconds:
            self._seconds = seconds
            self._called.put(True)

    def stop(self) -> None:
        """End the thread: wait for its present sync."""
        self._called.put(False)
        if threading.current_thread() is self._thread:
            return
        while not self._has_ended:
            with suppress(Empty):  # an interrupt may have taken it
                self._ended.get(timeout=LOOK_AGAIN_SECONDS)
        self._ended.put(None)  # for the next caller
