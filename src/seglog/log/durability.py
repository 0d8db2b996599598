"""Group commit: whoever waits for the medium shares one sync with everybody who waits at that moment.

The first waiter leads: it syncs what was written by then, for all; who comes meanwhile waits for the next round.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from seglog.errors import LogPoisoned


class Durability:
    """Knows up to which offset records are on the medium, and gets them there."""

    def __init__(self, durable_offset: int, sync_written: Callable[[], int]) -> None:
        self._sync_written = sync_written
        self._changed = threading.Condition()
        self._syncing = False
        self._failure: LogPoisoned | None = None
        self.durable_offset = durable_offset

    def wait(self, next_offset: int) -> None:
        """Return once every record before `next_offset` is on the medium; LogPoisoned where that cannot be."""
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
            self._lead()

    def _lead(self) -> None:
        reached: int | None = None
        try:
            reached = self._sync_written()
        finally:
            with self._changed:
                self._syncing = False
                if reached is not None:
                    self.durable_offset = max(self.durable_offset, reached)
                self._changed.notify_all()

    def advance(self, next_offset: int) -> None:
        """Note that somebody else (a roll, a truncate) has put the records before `next_offset` on the medium."""
        with self._changed:
            self.durable_offset = max(self.durable_offset, next_offset)
            self._changed.notify_all()

    def retreat(self, next_offset: int) -> None:
        """Note that the log was cut to `next_offset`."""
        with self._changed:
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
                return  # the writer is poisoned, and says so at the next append

    def stop(self) -> None:
        """End the thread."""
        self._stopped.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()
