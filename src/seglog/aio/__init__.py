"""Logs, topics and brokers for asyncio and trio: `async with await seglog.aio.open(path) as log`.

The calls are those of the blocking classes, with the same names, arguments and errors. One thread writes the appends of
many tasks together, and under a flush policy they share one sync, so that a task waits about as long as the disk takes,
not as long as all the others. Reads run on threads; the event loop never blocks.
"""

from __future__ import annotations

from seglog.aio.broker import AsyncBroker
from seglog.aio.consumer import AsyncConsumer
from seglog.aio.log import AsyncLog
from seglog.aio.opening import open_async_log as open  # noqa: A004 - seglog.aio.open reads as seglog.open
from seglog.aio.tail import AsyncTail
from seglog.aio.topic import AsyncTopic

__all__ = ["AsyncBroker", "AsyncConsumer", "AsyncLog", "AsyncTail", "AsyncTopic", "open"]
