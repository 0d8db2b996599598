"""Begin a coroutine at once: many end without having to wait, and need no task, which takes longer than they do."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


def begin(work: Coroutine[Any, Any, Result]) -> Coroutine[Any, Any, Result] | None:
    """Run a coroutine until it first waits; return the rest, for a task, or None if it has ended, without a result.

    Until then there is no current task: what needs one, such as asyncio.timeout, must come later.
    """
    try:
        waits = work.send(None)
    except StopIteration:
        return None
    return _Rest(work, waits)


class _Rest(Coroutine[Any, Any, Result]):
    """A coroutine that has begun: it first yields again what it waits for, then goes on."""

    def __init__(self, work: Coroutine[Any, Any, Result], waits: Any) -> None:
        self._work = work
        self._waits: list[Any] = [waits]  # until it was yielded

    def send(self, value: Any) -> Any:
        """Go on."""
        return self._waits.pop() if self._waits else self._work.send(value)

    def throw(self, *raised: Any) -> Any:
        """Raise an error in it.

        Nothing here refers to the error when that is over. Its traceback has this frame, and a cycle would keep what
        the frames of a request have until garbage is collected.
        """
        self._waits.clear()
        try:
            return self._work.throw(*raised)
        finally:
            del raised

    def close(self) -> None:
        """End it."""
        self._work.close()

    def __await__(self) -> _Rest[Result]:
        return self

    def __iter__(self) -> _Rest[Result]:
        return self

    def __next__(self) -> Any:
        return self.send(None)
