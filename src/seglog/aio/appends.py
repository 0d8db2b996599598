"""The records that tasks of an event loop wait to have appended: one thread writes them together.

Records that arrive in one iteration of the loop are written with one call, and those that arrive during a write with
the next one. What a task waits for no longer, because it was cancelled before the write began, is not written.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from seglog.aio.jobs import Job, raisable
from seglog.aio.loops import Future, Loop, running_loop
from seglog.errors import LogClosed
from seglog.log.appends.group import Appended, Draft
from seglog.log.log import Log


class Waiting(NamedTuple):
    """A record to append, and the future of the task that waits for its offset."""

    draft: Draft
    future: Future
    loop: Loop


class Appends:
    """The waiting records of one log."""

    def __init__(self, log: Log, thread: ThreadPoolExecutor) -> None:
        """thread: makes all calls."""
        self._log = log
        self._thread = thread
        self._waiting: deque[Waiting] = deque()
        self._is_over = False
        self._started_in: Loop | None = None  # a loop that will submit the next write

    def append(self, draft: Draft) -> Future:
        """Queue a record; return the future of its offset."""
        loop = running_loop()
        future = loop.future()
        self._waiting.append(Waiting(draft, future, loop))
        if self._started_in is not loop:  # else its call below is still to come
            self._started_in = loop
            loop.call_soon(self._submit)  # together with what other tasks append by then
        return future

    def _submit(self) -> None:
        self._started_in = None
        if not self._waiting:
            return
        try:
            self._thread.submit(self._write)
        except RuntimeError:  # the thread takes no more calls: its last one is `_finish`
            if self._is_over:
                self._refuse()

    def finish(self, end: Callable[[], None]) -> Job[None]:
        """Write what is waiting, then make the last call, which closes the log."""
        return self._thread.submit(self._finish, end)

    def _finish(self, end: Callable[[], None]) -> None:
        try:
            self._write()
            end()
        finally:
            self._is_over = True
            self._refuse()  # what another thread's loop queued meanwhile

    def _refuse(self) -> None:
        batch = self._taken()
        _deliver(batch, [LogClosed("the log was closed; open it again") for _ in batch])

    def _write(self) -> None:
        batch = self._taken()
        if not batch:
            return
        results: Sequence[Appended | BaseException]
        try:
            results = self._log.append_each([one.draft for one in batch])
        except BaseException as error:  # noqa: BLE001 - every task gets the error: none is acknowledged
            results = [error] * len(batch)
        _deliver(batch, results)

    def _taken(self) -> list[Waiting]:
        taken: list[Waiting] = []
        while self._waiting:
            one = self._waiting.popleft()
            if not one.future.done():  # else its task was cancelled
                taken.append(one)
        return taken


def _deliver(batch: Sequence[Waiting], results: Sequence[Appended | BaseException]) -> None:
    """Give each task its outcome, with one call for each loop."""
    by_loop: dict[Loop, list[tuple[Future, Appended | BaseException]]] = {}
    for (_, future, loop), result in zip(batch, results, strict=True):
        if loop in by_loop:
            by_loop[loop].append((future, result))
        else:
            by_loop[loop] = [(future, result)]
    for loop, settled in by_loop.items():
        with suppress(RuntimeError):  # the loop has ended, and its tasks with it
            loop.call_from_thread(partial(_settle_all, settled))


def _settle_all(settled: list[tuple[Future, Appended | BaseException]]) -> None:
    for future, result in settled:
        if future.done():  # its task was cancelled
            continue
        if isinstance(result, int):
            future.set_result(result)
        else:
            future.set_exception(raisable(result))
