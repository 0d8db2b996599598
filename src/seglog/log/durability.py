"""Group commit: whoever waits for the medium shares one sync with everybody who waits at that moment.

The first waiter leads: it syncs what was written by then, for all; who comes meanwhile waits for the next round, which
the first of them leads. Those whose records are on the medium wake one another in a chain: woken all at once they would
stand in line for the interpreter, and be put to sleep there again. The next leader is the last of the chain: by then
those before it have appended again, and share its sync.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from weakref import WeakMethod

from seglog.errors import LogClosed, LogPoisoned, SeglogError

LOOK_AGAIN_SECONDS = 1.0  # an interrupt may keep one from waking the next


class _Waiter:
    """Waits until every record before `next_offset` is on the medium. gone: it waits no more."""

    __slots__ = ("_gate", "gone", "next_offset")

    def __init__(self, next_offset: int) -> None:
        self.next_offset = next_offset
        self.gone = False
        self._gate = threading.Lock()
        self._gate.acquire()  # closed; who wakes it opens it

    def sleep(self) -> None:
        """Return once it was woken, or after LOOK_AGAIN_SECONDS."""
        self._gate.acquire(timeout=LOOK_AGAIN_SECONDS)

    def wake(self) -> None:
        """End its sleep, or the next one. One thread at a time."""
        if self._gate.locked():
            self._gate.release()


class Durability:
    """Knows up to which offset records are on the medium, and gets them there."""

    def __init__(self, durable_offset: int) -> None:
        self._guard = threading.RLock()
        self._leader: _Waiter | None = None
        self._waiting: list[_Waiter] = []
        self._chain: deque[_Waiter] = deque()  # to be woken, one by the other
        self._cuts = 0
        self._failure: LogPoisoned | None = None
        self.durable_offset = durable_offset

    @property
    def failure(self) -> LogPoisoned | None:
        """Why nothing more will be durable; None where it will."""
        return self._failure

    def wait(self, next_offset: int, sync_written: Callable[[], int]) -> None:
        """Return once every record before `next_offset` is on the medium; LogPoisoned where that cannot be.

        sync_written: syncs, and returns up to where the log was written then; called by one thread at a time.
        Returns as well if the log was cut below it meanwhile: what it waits for is no longer part of the log.
        Not for signal handlers: it may wait for what the signal has interrupted. The log refuses them.
        """
        me = _Waiter(next_offset)
        try:
            while self.durable_offset < next_offset:
                if self._takes(me) and self._lead(sync_written) < next_offset:
                    return
        except LogClosed:
            if self.durable_offset < next_offset:  # else another thread, which closed the log, has synced it meanwhile
                raise
        finally:
            led = self._leader is me
            if led:  # first and without a call, so that no second interrupt comes between
                self._leader = None
            me.gone = True
            self._wake(sort_out=led)

    def _takes(self, me: _Waiter) -> bool:
        """Whether it is this waiter who leads; if not, wait for what the present leader reaches."""
        with self._guard:
            self._check()
            if self.durable_offset >= me.next_offset:
                return False
            if self._leader is None:
                self._leader = me
            if self._leader is me:
                return True
            if me not in self._waiting:
                self._waiting.append(me)
        me.sleep()
        return self._leader is me

    def _lead(self, sync_written: Callable[[], int]) -> int:
        """Sync, and return up to where the log was written then."""
        with self._guard:
            cuts = self._cuts
        reached = sync_written()
        with self._guard:
            self._check()  # another sync may have failed meanwhile, a roll's
            if cuts == self._cuts:  # else what was synced may have been cut off since
                self.durable_offset = max(self.durable_offset, reached)
        return reached

    def _check(self) -> None:
        if self._failure is not None:
            raise LogPoisoned(*self._failure.args) from self._failure

    def _wake(self, *, sort_out: bool) -> None:
        """Wake the next one of those who need not wait any more; sort_out: look who that is."""
        with self._guard:
            if sort_out or self._leader is None:
                self._sort_out()
            while self._chain:
                waiter = self._chain.popleft()
                waiter.wake()
                if not waiter.gone:  # it wakes the next one as it goes
                    return

    def _sort_out(self) -> None:
        """Put into the chain who need not wait any more; the first of the others leads, and is woken behind them."""
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
        """Note that somebody else (a roll, a truncate) has put the records before `next_offset` on the medium."""
        with self._guard:
            self.durable_offset = max(self.durable_offset, next_offset)
            self._wake(sort_out=True)

    def retreat(self, next_offset: int) -> None:
        """Note that the log was cut to `next_offset`."""
        with self._guard:
            self._cuts += 1
            self.durable_offset = min(self.durable_offset, next_offset)

    def fail(self, failure: LogPoisoned) -> None:
        """Wake everybody who waits: nothing more will be durable."""
        with self._guard:
            self._failure = failure
            self._wake(sort_out=True)


class IntervalSync:
    """Calls `sync` every `seconds` on a thread of its own until stopped."""

    def __init__(self, seconds: float, sync: Callable[[], None]) -> None:
        self._seconds = seconds
        self._sync = WeakMethod(sync)  # the thread must not keep alive a log that was dropped without close
        self._stopped: SimpleQueue[None] = SimpleQueue()  # no Event: an interrupt within its set() may keep its lock
        self._thread = threading.Thread(target=self._run, name="seglog-flush", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_stopped():
            sync = self._sync()
            if sync is None:
                return
            try:
                sync()
            except LogPoisoned:
                return  # the writer says so at the next append
            except SeglogError:
                pass  # no space for what is buffered, say: the next round tries again, and so does an append
            finally:
                del sync

    def _is_stopped(self) -> bool:
        """Wait for the next round; whether there is none."""
        try:
            self._stopped.get(timeout=self._seconds)
        except Empty:
            return False
        return True

    def stop(self) -> None:
        """End the thread."""
        self._stopped.put(None)
        if threading.current_thread() is not self._thread:
            self._thread.join()
