"""Archive in a thread of the process that writes, and wait until the archive has what was appended."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from seglog.archive.arguments import checked_seconds
from seglog.errors import ArchiveFenced, LogClosed, StorageError

if TYPE_CHECKING:
    from seglog.archive.report import ArchiveReport

INTERVAL_SECONDS = 1.0
RETRY_SECONDS = 1.0


class Rounds(Protocol):
    """What archives in rounds: an `Archiver`."""

    def step(self) -> ArchiveReport:
        """Archive what is new since the last round."""
        ...

    def close(self) -> None:
        """Release everything."""
        ...


class BackgroundArchiver:
    """Makes a round every `interval` seconds, and at once if a caller waits for one. A context manager.

    failure: the error that ended it, such as ArchiveFenced; None while it works.
    """

    def __init__(
        self,
        archiver: Rounds,
        interval: float = INTERVAL_SECONDS,
        said: Callable[[str], None] | None = None,
        fenced: Callable[[], object] | None = None,
    ) -> None:
        """Take over an archiver and start; `close` closes it.

        said: called with each new problem, as text. fenced: called once another writer has the archive, before any
        caller that waits gets the error.
        """
        self._archiver = archiver
        self._interval = checked_seconds(interval, "interval")
        self._said = said or (lambda text: None)  # noqa: ARG005 - the signature
        self._fenced = fenced
        self._guard = threading.Lock()
        self._waiting: list[Future[int]] = []
        self._wake = threading.Event()
        self._closing = False
        self._problem = ""
        self._completed_at = monotonic()
        self.commit = 0
        self.failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="seglog-archive", daemon=True)
        self._thread.start()

    @property
    def age(self) -> float:
        """Seconds since the last complete round: at most this much is not archived."""
        return monotonic() - self._completed_at

    def archived(self) -> Future[int]:
        """Return a future of the commit that has everything appended by now. Callers at the same time share it.

        Its errors: ArchiveFenced if another writer has the archive; LogClosed if this archiver was closed before.
        """
        future: Future[int] = Future()
        with self._guard:
            if self.failure is not None:
                future.set_exception(self.failure)
            elif self._closing:
                future.set_exception(LogClosed("the archiver was closed; what was appended since is not archived"))
            else:
                self._waiting.append(future)
                self._wake.set()
        return future

    def wait(self, timeout: float | None = None) -> int:
        """Return once the archive has everything appended before the call; return the commit's number.

        Args:
            timeout: Seconds to wait; then TimeoutError. None: as long as it takes.

        Raises:
            ArchiveFenced: Another writer has taken the archive over.
        """
        return self.archived().result(timeout)

    def _run(self) -> None:
        delay = 0.0
        while True:
            self._wake.wait(delay)
            with self._guard:
                self._wake.clear()
                waiting, self._waiting = self._waiting, []
                closing = self._closing
            try:
                delay = self._round(waiting)
            except BaseException as error:  # noqa: BLE001 - every caller that waits gets it
                self._fail(waiting, error)
                return
            if closing:
                self._fail([], LogClosed("the archiver was closed"))
                return

    def _round(self, waiting: list[Future[int]]) -> float:
        """Make one round for these callers; return the seconds until the next. After an error they go on waiting."""
        try:
            report = self._archiver.step()
        except StorageError as error:
            self._note(str(error))
            with self._guard:
                self._waiting[:0] = waiting
                closing = self._closing
            if closing:
                raise
            return RETRY_SECONDS
        self._note("; ".join(report.problems()))
        if report.failed or report.gaps:
            what = f"not everything could be archived: {'; '.join(report.problems())}"
            _settle(waiting, lambda future: future.set_exception(StorageError(errno.EIO, what)))
        else:
            self.commit, self._completed_at = report.commit, monotonic()
            _settle(waiting, lambda future: future.set_result(report.commit))
        return self._interval

    def _note(self, problem: str) -> None:
        if problem and problem != self._problem:
            self._said(f"archive: {problem}")
        self._problem = problem

    def _fail(self, waiting: list[Future[int]], error: BaseException) -> None:
        if isinstance(error, ArchiveFenced) and self._fenced is not None:
            try:
                self._fenced()
            except Exception as problem:  # noqa: BLE001 - reported; the callers get the first error
                self._said(f"archive: {problem}")
        with self._guard:
            self.failure = error
            waiting = [*waiting, *self._waiting]
            self._waiting.clear()
        _settle(waiting, lambda future: future.set_exception(error))
        if not isinstance(error, LogClosed):
            self._said(f"archive: stopped: {error}")

    def close(self) -> None:
        """Make a last round and end. A second call does nothing."""
        with self._guard:
            self._closing = True
            self._wake.set()
        self._thread.join()
        self._archiver.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _settle(waiting: list[Future[int]], settle: Callable[[Future[int]], None]) -> None:
    for future in waiting:
        with suppress(Exception):  # a caller may have cancelled it
            settle(future)
