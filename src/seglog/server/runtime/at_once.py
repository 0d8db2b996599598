"""Begin a coroutine at once: many end without having to wait, and need no task, which takes longer than they do."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from functools import partial
from typing import Any, Generic, TypeVar

Result = TypeVar("Result")


def begin(work: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result] | None:
    """Run a coroutine until it first waits; return the rest, for a task, or None if it has ended, without a result.

    Until then there is no current task: what needs one, such as asyncio.timeout, must come later.
    """
    try:
        waits = work.send(None)
    except StopIteration:
        return None
    return _rest(work, waits)


async def _rest(work: Coroutine[Any, Any, Result], waits: Any) -> Result:
    return await _Rest(work, waits)


class _Rest(Generic[Result]):
    """Goes on with a coroutine that waits, as `await` does with one that has not begun."""

    def __init__(self, work: Coroutine[Any, Any, Result], waits: Any) -> None:
        self._work = work
        self._waits = waits

    def __await__(self) -> Generator[Any, Any, Result]:
        waits = self._waits
        while True:
            try:
                sent = yield waits
            except BaseException as error:  # noqa: BLE001 - a cancellation, which the coroutine handles
                step = partial(self._work.throw, error)
            else:
                step = partial(self._work.send, sent)
            try:
                waits = step()
            except StopIteration as end:
                result: Result = end.value
                return result
