"""The event loop that a coroutine runs in: asyncio's or trio's.

The parts of `seglog.aio` need five things of it: a future, a call in the loop, a call on a thread, a pause, and which
loop it is. anyio would add 6 us to an append that takes 10 us, and a dependency (adr/0038). Trio is used if the program
imported it; seglog never imports it.
"""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Generator
from typing import Any, Protocol, TypeVar

Result = TypeVar("Result")


class Future(Protocol):
    """An outcome that one task awaits and the loop's thread sets. A cancelled task leaves it cancelled."""

    def done(self) -> bool:
        """Whether it has an outcome, or its task was cancelled."""
        ...

    def set_result(self, result: Any, /) -> None:
        """Set the outcome."""
        ...

    def set_exception(self, error: BaseException, /) -> None:
        """Set the error that the task gets."""
        ...

    def __await__(self) -> Generator[Any, Any, Any]:
        """Wait for the outcome."""
        ...


class Loop(Protocol):
    """A running event loop. One object for each, so that `is` compares."""

    inner: Any

    def future(self) -> Future:
        """Return a future of this loop."""
        ...

    def call_soon(self, call: Callable[[], object]) -> None:
        """Make a call in the next iteration; from the loop's own thread."""
        ...

    def call_from_thread(self, call: Callable[[], object]) -> None:
        """Make a call in the loop; from any thread. Raises RuntimeError if the loop has ended."""
        ...

    async def run_in_thread(self, call: Callable[[], Result]) -> Result:
        """Make a blocking call on one of the loop's threads. A cancelled task does not wait for its end."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Pause the task."""
        ...


class AsyncioLoop:
    """A loop of asyncio."""

    __slots__ = ("inner",)

    def __init__(self, inner: asyncio.AbstractEventLoop) -> None:
        self.inner: Any = inner

    def future(self) -> Future:
        """See Loop.future."""
        return self.inner.create_future()  # type: ignore[no-any-return] # `inner` is Any, as a trio token has no type here

    def call_soon(self, call: Callable[[], object]) -> None:
        """See Loop.call_soon."""
        self.inner.call_soon(call)

    def call_from_thread(self, call: Callable[[], object]) -> None:
        """See Loop.call_from_thread."""
        self.inner.call_soon_threadsafe(call)

    async def run_in_thread(self, call: Callable[[], Result]) -> Result:
        """See Loop.run_in_thread."""
        return await asyncio.to_thread(call)

    async def sleep(self, seconds: float) -> None:
        """See Loop.sleep."""
        await asyncio.sleep(seconds)


class TrioLoop:
    """A run of trio, known by its token."""

    __slots__ = ("_trio", "inner")

    def __init__(self, token: Any, trio: Any) -> None:
        self.inner: Any = token
        self._trio = trio

    def future(self) -> Future:
        """See Loop.future."""
        return TrioFuture(self._trio.Event())

    def call_soon(self, call: Callable[[], object]) -> None:
        """See Loop.call_soon."""
        self.inner.run_sync_soon(call)

    def call_from_thread(self, call: Callable[[], object]) -> None:
        """See Loop.call_from_thread."""
        self.inner.run_sync_soon(call)

    async def run_in_thread(self, call: Callable[[], Result]) -> Result:
        """See Loop.run_in_thread."""
        result: Result = await self._trio.to_thread.run_sync(call, abandon_on_cancel=True)
        return result

    async def sleep(self, seconds: float) -> None:
        """See Loop.sleep."""
        await self._trio.sleep(seconds)


class TrioFuture:
    """A future for one task of trio."""

    __slots__ = ("_error", "_result", "_set", "_settled")

    def __init__(self, event: Any) -> None:
        self._set = event
        self._settled = False  # has an outcome, or its task was cancelled
        self._result: Any = None
        self._error: BaseException | None = None

    def done(self) -> bool:
        """See Future.done."""
        return self._settled

    def set_result(self, result: Any, /) -> None:
        """See Future.set_result."""
        self._result, self._settled = result, True
        self._set.set()

    def set_exception(self, error: BaseException, /) -> None:
        """See Future.set_exception."""
        self._error, self._settled = error, True
        self._set.set()

    def __await__(self) -> Generator[Any, Any, Any]:
        """See Future.__await__."""
        try:
            yield from self._set.wait().__await__()
        finally:
            self._settled = True
        if self._error is not None:
            raise self._error
        return self._result


class _Here(threading.local):
    loop: Loop | None = None


_HERE = _Here()


def running_loop() -> Loop:
    """Return the event loop of the present task. Raises RuntimeError outside of one."""
    trio = sys.modules.get("trio")
    in_trio = trio is not None and trio.lowlevel.in_trio_run()
    inner = trio.lowlevel.current_trio_token() if trio is not None and in_trio else asyncio.get_running_loop()
    loop = _HERE.loop
    if loop is None or loop.inner is not inner:
        loop = _HERE.loop = TrioLoop(inner, trio) if in_trio else AsyncioLoop(inner)
    return loop
