"""Keep a lease while a process works: renew it in a thread, and notice when another process has it."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from seglog.errors import ArchiveFenced, SeglogError, StorageError

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from seglog.archive.lease import Lease

RENEWALS_PER_TTL = 3


def this_process() -> str:
    """Return a name of this process for others: host and process id."""
    return f"{socket.gethostname()}:{os.getpid()}"


class Leading:
    """Renews a lease that was acquired. A context manager; `close` releases it.

    failure: the error that ended it, ArchiveFenced; None while this process is the leader.
    """

    def __init__(self, lease: Lease, ttl: float) -> None:
        """lease: an acquired one. ttl: its seconds to live."""
        self._lease = lease
        self._pause = ttl / RENEWALS_PER_TTL
        self._guard = threading.Lock()
        self._lost: list[Callable[[ArchiveFenced], object]] = []
        self._stop = threading.Event()
        self.failure: ArchiveFenced | None = None
        self._thread = threading.Thread(target=self._run, name="seglog-lease", daemon=True)
        self._thread.start()

    def when_lost(self, call: Callable[[ArchiveFenced], object]) -> None:
        """Call this once another process has become the leader; now, if it has."""
        with self._guard:
            failure = self.failure
            if failure is None:
                self._lost.append(call)
        if failure is not None:
            call(failure)

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            try:
                self._lease.renew()
            except StorageError:
                continue  # the outcome is unknown: the next attempt finds out
            except ArchiveFenced as error:
                with self._guard:
                    self.failure, calls = error, list(self._lost)
                for call in calls:
                    call(error)
                return

    def close(self) -> None:
        """Release the lease. A second call does nothing."""
        self._stop.set()
        self._thread.join()
        with suppress(SeglogError):  # it ends by itself
            self._lease.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
