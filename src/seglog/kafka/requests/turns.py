"""Long lists of a request: each is answered item by item, and other requests have their turn in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import TypeVar

Item = TypeVar("Item")
TURN = 50  # items, each of which takes up to 100 us


async def in_turns(items: Iterable[Item]) -> AsyncIterator[Item]:
    """Yield the items; let the event loop do other work after every TURN of them."""
    for number, item in enumerate(items, 1):
        yield item
        if number % TURN == 0:
            await asyncio.sleep(0)
