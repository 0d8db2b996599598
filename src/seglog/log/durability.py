"""Group commit: whoever waits for the medium shares one sync with everybody who waits at that moment.

The first waiter leads: it syncs what was written by then, for all; who comes meanwhile waits for the next round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from weakref import WeakMethod

from seglog.errors import LogPoisoned, SeglogError

LOOK_AGAIN_SECONDS = 1.0  # an interrupt may keep a leader from waking those who wait


class Durability:
    """Knows up to which offset records are on the medium, and gets them there."""

    def __init__(self, durable_offset: int) -> None:
        self._guard = threading.RLock()  # entered itself: between the Condition's own steps an interrupt would keep it
        self._changed = threading.Condition(self._guard)
        self._leader: object = None
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
        """
        turn = object()
        try:
            while self.durable_offset < next_offset:
                if self._takes(turn, next_offset) and self._lead(sync_written) < next_offset:
                    return
        finally:
            if self._leader is turn:  # first and without a call, so that no second interrupt comes between
                self._leader = None
                with self._guard:
                    self._changed.notify_all()

    def _takes(self, turn: object, next_offset: int) -> bool:
        """Whether it is this waiter who leads; if not, wait for what the present leader reaches."""
        with self._guard:
            if self._failure is not None:
                raise LogPoisoned(*self._failure.args) from self._failure
            if self.durable_offset >= next_offset:
                return False
            if self._leader is None:
                self._leader = turn
            if self._leader is not turn:
                self._changed.wait(LOOK_AGAIN_SECONDS)
            return self._leader is turn

    def _lead(self, sync_written: Callable[[], int]) -> int:
        """Sync, and return up to where the log was written then."""
        with self._guard:
            cuts = self._cuts
        reached = sync_written()
        with self._guard:
            if cuts == self._cuts:  # else what was synced may have been cut off since
                self.durable_offset = max(self.durable_offset, reached)
        return reached

    def advance(self, next_offset: int) -> None:
        """Note that somebody else (a roll, a truncate) has put the records before `next_offset` on the medium."""
        with self._guard:
            self.durable_offset = max(self.durable_offset, next_offset)
            self._changed.notify_all()

    def retreat(self, next_offset: int) -> None:
        """Note that the log was cut to `next_offset`."""
        with self._guard:
            self._cuts += 1
            self.durable_offset = min(self.durable_offset, next_offset)

    def fail(self, failure: LogPoisoned) -> None:
        """Wake everybody who waits: nothing more will be durable."""
        with self._guard:
            self._failure = failure
            self._changed.notify_all()


class IntervalSync:
    """Calls `sync` every `seconds` on a thread of its own until stopped."""

    def __init__(self, seconds: float, sync: Callable[[], None]) -> None:
        self._seconds = seconds
        self._sync = WeakMethod(sync)  # the thread must not keep alive a log that was dropped without close
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seglog-flush", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
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

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
