"""Open without blocking the event loop; what a cancelled call opened is closed again."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Protocol, TypeVar

from seglog.aio.jobs import Job, outcome, writing_thread
from seglog.aio.log import AsyncLog
from seglog.aio.loops import running_loop
from seglog.clock import Clock, system_clock
from seglog.config import Expose, LogConfig
from seglog.errors import LogLocked
from seglog.log.locks.wait import Patience
from seglog.log.opening import Mode, open_log
from seglog.storage import Storage


class Closable(Protocol):
    """What can be opened."""

    def close(self) -> None:
        """Release everything."""
        ...


Opened = TypeVar("Opened", bound=Closable)


async def open_async_log(
    place: str | os.PathLike[str] | Storage,
    config: LogConfig | None = None,
    *,
    mode: Mode = "a",
    expose: Expose = "appended",
    clock: Clock = system_clock,
    wait: float | None = None,
    archive: str | None = None,
) -> AsyncLog:
    """Open a log as `seglog.open` does. A call that is cancelled leaves no log open, also while it waits."""
    thread = writing_thread()
    log = await open_patiently(
        thread, partial(open_log, place, config, mode=mode, expose=expose, clock=clock, archive=archive), wait
    )
    return AsyncLog(log, thread=thread)


async def open_patiently(thread: ThreadPoolExecutor, attempt: Callable[[], Opened], wait: float | None) -> Opened:
    """Return what `attempt`, called on a thread, opens; repeat it while it raises LogLocked, for up to `wait` seconds.

    The thread is shut down after an error.
    """
    try:
        patience = Patience(wait)
        while True:
            try:
                return await _opened(thread.submit(attempt))
            except LogLocked:
                pause = patience.pause()
                if pause is None:
                    raise
            await running_loop().sleep(pause)
    except BaseException:
        thread.shutdown(wait=False)
        raise


async def _opened(job: Job[Opened]) -> Opened:
    try:
        return await outcome(job)
    except BaseException:  # cancelled, or the attempt failed
        job.add_done_callback(_close_unwanted)
        raise


def _close_unwanted(job: Job[Opened]) -> None:
    if not job.cancelled() and job.exception() is None:
        job.result().close()
