"""Threads for work that would block the event loop; when too many calls wait, further ones are rejected (Busy)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from seglog.errors import Busy

Result = TypeVar("Result")
RETRY_SECONDS = 0.1


class Workers:
    """A few threads for one kind of work."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        """most: calls that may run or wait; one more raises Busy."""
        self.name = name
        self.busy = 0
        self._most = most
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"seglog-{name}")

    async def run(self, call: Callable[[], Result], first: Callable[[], Awaitable[object]] | None = None) -> Result:
        """Run a call on a thread and return its result.

        If the caller is cancelled, it stops waiting; the call runs to its end and counts until then.
        first: awaited before the call; counts as a waiting call. Raises Busy.
        """
        self._count()
        if first is not None:
            try:
                await first()
            except BaseException:
                self.busy -= 1
                raise
        future = self._begin(call)
        try:
            return await asyncio.shield(future)
        finally:
            del future  # it has the error, whose traceback has this frame: a cycle

    async def run_when_free(self, call: Callable[[], Result], seconds: float) -> Result:
        """Run a call like `run`, but wait up to `seconds` while too many calls wait. Raises Busy.

        For a request whose answer has no place for an error that clients repeat it after.
        """
        loop = asyncio.get_running_loop()
        until = loop.time() + seconds
        while self.busy >= self._most and loop.time() < until:
            await asyncio.sleep(RETRY_SECONDS)
        return await self.run(call)

    def start(self, call: Callable[[], Result]) -> asyncio.Future[Result]:
        """Begin a call without waiting for it; cancelling the future does not end it. Raises Busy."""
        self._count()
        return self._begin(call)

    def _count(self) -> None:
        if self.busy >= self._most:
            raise Busy(f"{self.busy} {self.name} calls are running or waiting; retry in a moment")
        self.busy += 1

    def _begin(self, call: Callable[[], Result]) -> asyncio.Future[Result]:
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        future.add_done_callback(self._done)
        return future

    def _done(self, future: asyncio.Future[Result]) -> None:
        self.busy -= 1
        if not future.cancelled():
            future.exception()  # retrieve the exception: the caller may be gone

    def close(self) -> None:
        """Wait for running calls."""
        self._pool.shutdown(wait=True)
