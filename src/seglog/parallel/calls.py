"""Run calls on several threads and take their results in order.

The kernels, pread and pwrite release the GIL, so the processors can share the work on one segment. Knows nothing of
segments.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

THREADS = max(1, min(3, (os.cpu_count() or 2) - 1))  # in addition to the caller's


def _nothing() -> None:
    """Take the place of a call that is over."""


class _Call:
    """A call, then its result until that is taken.

    A thread that is late to release this keeps neither in memory: results can be views of whole files.
    """

    __slots__ = ("future", "made", "result")

    def __init__(self, made: Callable[[], Any]) -> None:
        self.made = made
        self.future: Future[None] = Future()
        self.result: Any = None

    def make(self) -> None:
        """Make it in this thread unless another one has begun; its error keeps its place in the order."""
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            self.result = self.made()
        except BaseException as error:  # raised by `take`, as a pool does
            self.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
        else:
            self.future.set_result(None)

    def take(self) -> Any:
        """Return the result, or raise the error, once there is one."""
        self.future.result()
        result = self.result
        self.forget()
        return result

    def forget(self) -> None:
        """Let go of the call and of its result."""
        self.made, self.result = _nothing, None


class Calls:
    """Running calls whose results are taken in order. A thread that takes a result works instead of waiting.

    Threads that only wait are all woken on one processor, and stay there for milliseconds.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._calls: deque[_Call] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def orphaned(self) -> bool:
        """Whether this is a forked child, in which no thread runs the calls."""
        return False

    def launch(self, call: Callable[[], Any], *, here: bool = False) -> None:
        """Run a call on a free thread.

        With `here`, or if there is no thread (in a forked child, or in a process that is about to exit), the thread
        that takes the result runs it, which wakes no other thread.
        """
        launched = _Call(call)
        self._calls.append(launched)
        if not here and not self.orphaned:
            with suppress(RuntimeError):
                self._pool.submit(launched.make)

    def take(self) -> Any:
        """Return the result of the oldest call, or raise its error; until it is done, run calls that have not begun."""
        while not self._calls[0].future.done() and self.work():
            pass
        return self._calls.popleft().take()

    def work(self) -> bool:
        """Run the oldest call that has not begun; return whether there was one."""
        for number, call in enumerate(self._calls):
            if not call.future.done() and (call.future.cancel() or self.orphaned):
                mine = _Call(call.made)
                mine.make()
                self._calls[number] = mine  # only now: an interrupted thread must not wait for its own call
                call.forget()  # the pool keeps it until a thread is free
                return True
        return False

    def finish(self) -> None:
        """Return once no call is running; results that were not taken are lost."""
        wait([call.future for call in self._calls if not call.future.cancel()])
        for call in self._calls:
            call.forget()
        self._calls.clear()


class _Helpers:
    """The helper threads; a forked child, which has none of its parent's threads, starts its own."""

    pool: ThreadPoolExecutor

    @classmethod
    def start(cls) -> None:
        """Begin without threads; they start at first use."""
        cls.pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="seglog-bulk")


_Helpers.start()
os.register_at_fork(after_in_child=_Helpers.start)


class Ahead(Calls):
    """Calls on the helper threads."""

    def __init__(self) -> None:
        super().__init__(_Helpers.pool)

    @property
    def orphaned(self) -> bool:
        """Whether this is a forked child, in which no thread runs the calls."""
        return self._pool is not _Helpers.pool

    def finish(self) -> None:
        """Return once no call is running; results that were not taken are lost."""
        if not self.orphaned:
            super().finish()
