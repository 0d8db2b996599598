"""What the tests for event loops share: both media, and both loops."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anyio
import pytest

import seglog
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable


@pytest.fixture(params=["local", "memory"])
def place(request: Any, tmp_path: Any) -> Any:
    """Where a log may be made: a path, or memory."""
    return tmp_path / "orders" if request.param == "local" else seglog.MemoryStorage()


@pytest.fixture(params=["asyncio", "trio"])
def run(request: Any) -> Any:
    """Run a story on an event loop; it must end in time."""

    def run_one(story: Callable[[], Awaitable[None]]) -> None:
        async def timed() -> None:
            with anyio.fail_after(HANG_SECONDS):
                await story()

        anyio.run(timed, backend=request.param)

    return run_one
