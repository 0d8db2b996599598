"""An event loop whose clock is not that of the machine."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Coroutine

T = TypeVar("T")


class VirtualTime(asyncio.SelectorEventLoop):
    """An event loop in which time passes only when there is nothing else to do, and then at once.

    So a story of sessions and deadlines takes no time, and no machine is too slow for it. Not for what waits for
    threads or for the network.
    """

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0

    def time(self) -> float:
        """Return the seconds that have passed."""
        return self._now

    def _run_once(self) -> None:
        waiting = [handle.when() for handle in self._scheduled if not handle.cancelled()]  # type: ignore[attr-defined]
        if waiting and not self._ready:  # type: ignore[attr-defined]
            self._now = max(self._now, min(waiting))
        super()._run_once()  # type: ignore[misc]


def run_in_virtual_time(story: Coroutine[Any, Any, T]) -> T:
    """Run a story to its end; TimeoutError after a day of its time."""
    with asyncio.Runner(loop_factory=VirtualTime) as runner:
        return runner.run(_within_a_day(story))


async def _within_a_day(story: Coroutine[Any, Any, T]) -> T:
    return await asyncio.wait_for(story, 86_400)
