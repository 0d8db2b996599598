"""Group commit: whoever waits for the medium shares one sync with everybody who waits at that moment.

The first waiter leads: it syncs what was written by then, for all; who comes meanwhile waits for the next round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from seglog.errors import LogPoisoned, SeglogError


class Durability:
    """Knows up to which offset records are on the medium, and gets them there."""

    def __init__(self, durable_offset: int, sync_written: Callable[[], int]) -> None:
        self._sync_written = sync_written
        self._changed = threading.Condition()
        self._syncing = False
        self._cuts = 0
        self._failure: LogPoisoned | None = None
        self.durable_offset = durable_offset

    def wait(self, next_offset: int) -> None:
        """Return once every record before `next_offset` is on the medium; LogPoisoned where that cannot be.

        Returns as well if the log was cut below it meanwhile: what it waits for is no longer part of the log.
        """
        while self.durable_offset < next_offset:
            with self._changed:
                if self._failure is not None:
                    raise LogPoisoned(*self._failure.args) from self._failure
                if self.durable_offset >= next_offset:
                    return
                if self._syncing:
                    self._changed.wait()
                    continue
                self._syncing = True
            if self._lead() < next_offset:
                return

    def _lead(self) -> int:
        """Sync, and return up to where the log was written then."""
        reached: int | None = None
        with self._changed:
            cuts = self._cuts
        try:
            reached = self._sync_written()
        finally:
            with self._changed:
                self._syncing = False
                if reached is not None and cuts == self._cuts:  # else what was synced may have been cut off since
                    self.durable_offset = max(self.durable_offset, reached)
                self._changed.notify_all()
        return reached

    def advance(self, next_offset: int) -> None:
        """Note that somebody else (a roll, a truncate) has put the records before `next_offset` on the medium."""
        with self._changed:
            self.durable_offset = max(self.durable_offset, next_offset)
            self._changed.notify_all()

    def retreat(self, next_offset: int) -> None:
        """Note that the log was cut to `next_offset`."""
        with self._changed:
            self._cuts += 1
            self.durable_offset = min(self.durable_offset, next_offset)

    def fail(self, failure: LogPoisoned) -> None:
        """Wake everybody who waits: nothing more will be durable."""
        with self._changed:
            self._failure = failure
            self._changed.notify_all()


class IntervalSync:
    """Calls `sync` every `seconds` on a thread of its own until stopped."""

    def __init__(self, seconds: float, sync: Callable[[], None]) -> None:
        self._seconds = seconds
        self._sync = sync
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seglog-flush", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.wait(self._seconds):
            try:
                self._sync()
            except LogPoisoned:
                return  # the writer says so at the next append
            except SeglogError:
                continue  # no space for what is buffered, say: the next round tries again, and so does an append

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
