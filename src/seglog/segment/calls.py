"""Calls made by several threads, their results taken in order: the kernels, pread and pwrite release the GIL, so that
the processors share the work on one segment. Knows nothing of segments.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any

THREADS = max(1, min(3, (os.cpu_count() or 2) - 1))  # beside the caller's


class Calls:
    """Calls under way, their results taken in order. Whoever takes one works instead of waiting.

    Threads that only wait are put on one processor when they are woken, and stay there for milliseconds.
    """

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self._calls: deque[tuple[Callable[[], Any], Future[Any]]] = deque()

    def __len__(self) -> int:
        return len(self._calls)

    @property
    def orphaned(self) -> bool:
        """Whether this is a forked child now, in which nobody works on them."""
        return False

    def launch(self, call: Callable[[], Any], *, here: bool = False) -> None:
        """Have a call made by a thread that is free; with `here`, and where there is no thread to be had (neither a
        forked child has one, nor a process about to end), by whoever takes it, which wakes nobody.
        """
        future: Future[Any] = Future()
        self._calls.append((call, future))
        if not here and not self.orphaned:
            with suppress(RuntimeError):
                self._pool.submit(_make, call, future)

    def take(self) -> Any:
        """Return the result of the oldest call, or raise its error; until it is there, make calls nobody has begun."""
        while not self._calls[0][1].done() and self.work():
            pass
        return self._calls.popleft()[1].result()

    def work(self) -> bool:
        """Make the oldest call that nobody has begun; return whether there was one."""
        for number, (call, future) in enumerate(self._calls):
            if not future.done() and (future.cancel() or self.orphaned):
                made: Future[Any] = Future()
                _make(call, made)
                self._calls[number] = call, made  # only now: who is interrupted waits for no call of his own
                return True
        return False

    def finish(self) -> None:
        """Return once no call is being made any more; results that were not taken are lost."""
        wait([future for _, future in self._calls if not future.cancel()])
        self._calls.clear()


def _make(call: Callable[[], Any], future: Future[Any]) -> None:
    """Make a call here and now, unless somebody else has taken it; its error keeps its place in the order."""
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = call()
    except BaseException as error:  # raised when it is taken, as the pool would
        future.set_exception(error)
        if not isinstance(error, Exception):
            raise
    else:
        future.set_result(result)


class _Helpers:
    """The threads that help; a forked child, which has none of its parent's threads, starts its own."""

    pool: ThreadPoolExecutor

    @classmethod
    def start(cls) -> None:
        """Start with no thread; they come when first needed."""
        cls.pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="seglog-bulk")


_Helpers.start()
os.register_at_fork(after_in_child=_Helpers.start)


class Ahead(Calls):
    """Calls under way on those threads."""

    def __init__(self) -> None:
        super().__init__(_Helpers.pool)

    @property
    def orphaned(self) -> bool:
        """Whether this is a forked child now, in which nobody works on them."""
        return self._pool is not _Helpers.pool

    def finish(self) -> None:
        """Return once no call is being made any more; results that were not taken are lost."""
        if not self.orphaned:
            super().finish()
