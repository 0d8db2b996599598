"""`Mirror` for asyncio. Its calls run on one thread of their own, because they wait for disks and servers."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from seglog.replication.mirror import Mirror
from seglog.storage import Storage
from seglog.topic.layout.places import Partition
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from seglog.replication.log_mirror import Lag

T = TypeVar("T")


class AsyncMirror(Uncopied):
    """A `Mirror` whose calls are coroutines. An async context manager; `async with` opens it.

    Cancelling `run` stops it after its present round.
    """

    def __init__(
        self, source: str | os.PathLike[str] | Storage, target: str | os.PathLike[str] | Storage, **options: Any
    ) -> None:
        """Note what to copy; source, target and options are those of Mirror, which is opened by `async with`."""
        self._open = partial(Mirror, source, target, **options)
        self._mirror: Mirror | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="seglog-mirror")

    @property
    def _opened(self) -> Mirror:
        if self._mirror is None:
            raise RuntimeError("the mirror is not open: use `async with AsyncMirror(...) as mirror`")
        return self._mirror

    @property
    def lags(self) -> dict[Partition, Lag]:
        """See Mirror.lags."""
        return self._opened.lags

    @property
    def lag(self) -> Lag:
        """See Mirror.lag."""
        return self._opened.lag

    async def step(self) -> int:
        """Make one round; see Mirror.step."""
        return await self._call(self._opened.step)

    async def run(self) -> None:
        """Copy until cancelled, or `stop()` is called; see Mirror.run."""
        mirror = self._opened
        running = asyncio.ensure_future(self._call(mirror.run))
        try:
            await asyncio.shield(running)
        except asyncio.CancelledError:
            mirror.stop()
            await running
            raise

    def stop(self) -> None:
        """Let `run` return after its present round."""
        self._opened.stop()

    async def close(self) -> None:
        """Store the positions at the source, and close the copy."""
        if self._mirror is not None:
            self._mirror.stop()
            await self._call(self._mirror.close)
        self._thread.shutdown(wait=False)

    async def _call(self, call: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    async def __aenter__(self) -> Self:
        try:
            self._mirror = await self._call(self._open)
        except BaseException:
            self._thread.shutdown(wait=False)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
