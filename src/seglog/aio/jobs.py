"""Await what runs on a thread of our own: one thread makes its calls in the order in which they were submitted.

The thread, not the event loop, carries the work to its end, so that nothing depends on a task that may be cancelled or
on a loop that may end.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, ParamSpec, TypeVar

from seglog.aio.loops import Future, Loop, running_loop

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Job = concurrent.futures.Future
"""A call that was submitted to a thread."""


def writing_thread() -> ThreadPoolExecutor:
    """Return an executor of one thread, which starts with its first call."""
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix="seglog-append")


async def outcome(job: Job[Result]) -> Result:
    """Wait for a job and return its result. A cancelled task stops waiting; the job goes on."""
    loop = running_loop()
    future = loop.future()
    job.add_done_callback(partial(_hand_over, loop, future))
    result: Result = await future
    return result


async def run_on(
    thread: ThreadPoolExecutor,
    call: Callable[Parameters, Result],
    *args: Parameters.args,
    **options: Parameters.kwargs,
) -> Result:
    """Make a call on a thread. If the task is cancelled before the call began, it is not made."""
    job = thread.submit(call, *args, **options)
    try:
        return await outcome(job)
    except BaseException:
        job.cancel()  # does nothing to one that has begun
        raise


def _hand_over(loop: Loop, future: Future, job: Job[Any]) -> None:
    if job.cancelled():  # its task was cancelled
        return
    with suppress(RuntimeError):  # the loop has ended, and its tasks with it
        loop.call_from_thread(partial(settle, future, job.exception(), None if job.exception() else job.result()))


def settle(future: Future, error: BaseException | None, result: object) -> None:
    """Set a future's outcome, in its loop; nothing if its task was cancelled."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(raisable(error))


def raisable(error: BaseException) -> BaseException:
    """Return an error that a coroutine can raise: StopIteration would end it instead."""
    if not isinstance(error, (StopIteration, StopAsyncIteration)):
        return error
    replaced = RuntimeError(f"a call raised {error!r}")
    replaced.__cause__ = error
    return replaced
