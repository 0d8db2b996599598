"""The mirror for asyncio."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.replication import AsyncMirror
from tests.replication.conftest import SMALL, fill
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path


def test_a_copy_is_made_and_followed_from_a_coroutine(source: Path, target: Path, same: Any) -> None:
    async def story() -> None:
        with seglog.open(source, SMALL) as log:
            fill(log, 50)
            async with AsyncMirror(source, target) as mirror:
                assert await mirror.step() > 0
                assert mirror.lag.records == 0
                running = asyncio.create_task(mirror.run())
                fill(log, 50, "more")
                async with asyncio.timeout(HANG_SECONDS):
                    with seglog.open(target, mode="r") as copy:
                        while copy.next_offset < 100:
                            await asyncio.sleep(0.005)
                running.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await running

    asyncio.run(story())
    same(source, target)


def test_a_mirror_that_cannot_be_opened_raises_its_error(source: Path, target: Path) -> None:
    async def story() -> None:
        with pytest.raises(seglog.LogNotFound):
            async with AsyncMirror(source, target):
                pass

    asyncio.run(story())
