"""Threads for what would hold the event loop, with bounds: who comes while too many wait is told so at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from seglog.errors import Busy

Result = TypeVar("Result")


class Workers:
    """A few threads for one kind of work."""

    def __init__(self, name: str, threads: int, most: int) -> None:
        """most: calls that are under way or wait; Busy for one more."""
        self.name = name
        self.busy = 0
        self._most = most
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=f"seglog-{name}")

    async def run(self, call: Callable[[], Result], first: Callable[[], Awaitable[object]] | None = None) -> Result:
        """Run a call on a thread and return what it returns. Its end is waited for even if the caller is cancelled.

        first: is awaited before, and counts as a call that waits.
        """
        if self.busy >= self._most:
            raise Busy(f"{self.busy} {self.name} calls are under way or wait already; try again in a moment")
        self.busy += 1
        if first is not None:
            try:
                await first()
            except BaseException:
                self.busy -= 1
                raise
        future = asyncio.get_running_loop().run_in_executor(self._pool, call)
        future.add_done_callback(self._done)
        return await asyncio.shield(future)

    def _done(self, future: asyncio.Future[Result]) -> None:
        self.busy -= 1
        if not future.cancelled():
            future.exception()  # seen: the caller may be gone

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(wait=True)
