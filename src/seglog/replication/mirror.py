"""`Mirror`: keeps a copy of a log."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Self

from seglog.clock import Clock, checked_clock, system_clock
from seglog.log.opening import storage_at
from seglog.replication.log_mirror import Lag, LogMirror
from seglog.replication.source import LocalSource
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from seglog.storage import Storage

POLL_SECONDS = 0.01


class Mirror(Uncopied):
    """Keeps a copy of a log up to date. A context manager.

    The copy has the records of its source at the same offsets, and the same id and epochs, so that consumers can
    continue in it. It is opened for reading only (mode "r"), until `seglog promote` makes it a leader.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Storage,
        target: str | os.PathLike[str] | Storage,
        *,
        restart: bool = False,
        pin: bool = True,
        clock: Clock = system_clock,
    ) -> None:
        self._source = LocalSource(source, clock=checked_clock(clock))
        self._stop = threading.Event()
        try:
            self._mirror = LogMirror(self._source, storage_at(target), restart=restart, pin=pin, clock=clock)
        except BaseException:
            self._source.close()
            raise

    @property
    def lag(self) -> Lag:
        """What the copy lacked at the end of the last round."""
        return self._mirror.lag

    def step(self) -> int:
        """Make one round; return the bytes that were copied, 0 if there was nothing new."""
        return self._mirror.step()

    def run(self, *, stop: threading.Event | None = None) -> None:
        """Copy until `stop` is set."""
        stop = stop or self._stop
        while not stop.is_set():
            if not self.step():
                stop.wait(POLL_SECONDS)

    def close(self) -> None:
        """Close copy and source."""
        self._stop.set()
        try:
            self._mirror.close()
        finally:
            self._source.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
