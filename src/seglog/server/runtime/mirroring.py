"""Appends that wait until copies have them: one thread checks all of them, at each report of a copy.

Copies of this server report with their requests, which call `look`. Those made by path report through files, which are
read every few milliseconds while an append waits.
"""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future
from contextlib import suppress
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

from seglog.errors import LogClosed, NotMirrored
from seglog.log.copies import LOOK_SECONDS

if TYPE_CHECKING:
    from seglog.log.log import Log


class Written(NamedTuple):
    """The last record of an append. since: the log's epoch before it, or None if the record was there before."""

    log: Log
    offset: int
    since: int | None


class _Wait(NamedTuple):
    written: Written
    since: int
    copies: int
    seconds: float
    until: float
    future: Future[None]


class Mirroring:
    """The appends of a server that wait for copies."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waits: list[_Wait] = []
        self._looks = 0
        self._closed = False
        self._thread: threading.Thread | None = None

    async def mirrored(self, written: Written, copies: int, seconds: float) -> None:
        """Return once a record, durable here, is on the disks of `copies` copies; errors as Log.mirrored."""
        since = written.log._mirrored_since(written.offset, written.since)
        wait = _Wait(written, since, copies, seconds, monotonic() + seconds, Future())
        with self._changed:
            if self._closed:
                raise LogClosed("the server is stopping; the record is appended, but not known to be mirrored")
            self._waits.append(wait)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="seglog-mirrored", daemon=True)
                self._thread.start()
            self._changed.notify_all()
        await asyncio.wrap_future(wait.future)

    def look(self) -> None:
        """Check the waiting appends: a copy has reported."""
        if self._waits:
            with self._changed:
                self._looks += 1
                self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waits or self._closed)
                if self._closed:
                    return
                waits, looks = list(self._waits), self._looks
            done = {id(wait) for wait in waits if _settled(wait)}
            with self._changed:
                self._waits = [wait for wait in self._waits if id(wait) not in done]
                if self._waits and looks == self._looks:
                    self._changed.wait(LOOK_SECONDS)

    def stop(self) -> None:
        """End all waits with LogClosed: no copy can report while the server stops."""
        with self._changed:
            self._closed = True
            waits, self._waits = self._waits, []
            self._changed.notify_all()
        for wait in waits:
            _fail(wait, LogClosed("the server is stopping; the record is appended, but not known to be mirrored"))

    def close(self) -> None:
        """Stop, and end the thread."""
        self.stop()
        if self._thread is not None:
            self._thread.join()


def _settled(wait: _Wait) -> bool:
    """Whether an append no longer waits: copies have it, the time is over, or they will never have it."""
    log, offset, _ = wait.written
    try:
        found = log._copies_with(offset, wait.since)
        if found < wait.copies and monotonic() >= wait.until:
            raise NotMirrored.of(log.path, offset, found, wait.copies, wait.seconds)
    except Exception as error:  # noqa: BLE001 - the request that waits gets the error
        _fail(wait, error)
        return True
    if found < wait.copies:
        return wait.future.cancelled()
    with suppress(Exception):  # the request may be gone
        wait.future.set_result(None)
    return True


def _fail(wait: _Wait, error: Exception) -> None:
    with suppress(Exception):  # the request may be gone
        wait.future.set_exception(error)
