"""What the tests on both event loops share: calls at once, a log that is held, a batch."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import anyio
import pyarrow as pa

import seglog
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Awaitable

    import seglog.aio


async def gather(*calls: Awaitable[Any]) -> list[Any]:
    """Return the results of calls made at once, errors included."""
    results: list[Any] = [None] * len(calls)

    async def one(number: int, call: Awaitable[Any]) -> None:
        try:
            results[number] = await call
        except seglog.SeglogError as error:
            results[number] = error

    async with anyio.create_task_group() as group:
        for number, call in enumerate(calls):
            group.start_soon(one, number, call)
    return results


class Held:
    """Holds the writing thread of a log at its next append, until released."""

    def __init__(self, log: seglog.aio.AsyncLog) -> None:
        self.entered, self.go_on = threading.Event(), threading.Event()
        inner: Any = log.log
        append_each = inner.append_each

        def hold(drafts: Any) -> Any:
            inner.append_each = append_each
            self.entered.set()
            assert self.go_on.wait(HANG_SECONDS)
            return append_each(drafts)

        inner.append_each = hold

    async def reached(self) -> None:
        while not self.entered.is_set():
            await anyio.sleep(0)


def batch(*values: bytes) -> pa.Table:
    return pa.table({"value": pa.array(values, pa.binary()), "key": pa.array(values, pa.binary())})
