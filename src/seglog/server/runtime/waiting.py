"""Requests that wait for new records: long polls and live tails, woken by this process's appends. Event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from seglog.topic.layout.places import Partition


class Waiting:
    """Wakes the requests that wait for one of several partitions."""

    def __init__(self) -> None:
        self._waiters: dict[Partition, set[asyncio.Event]] = {}
        self._stopped = False

    @contextmanager
    def on(self, partitions: Iterable[Partition]) -> Iterator[asyncio.Event]:
        """Yield an event that is set at every append to one of them, and when the server stops.

        Clear the event before each look for records: then none is missed.
        """
        event = asyncio.Event()
        if self._stopped:
            event.set()
        wanted = list(partitions)
        for partition in wanted:
            self._waiters.setdefault(partition, set()).add(event)
        try:
            yield event
        finally:
            for partition in wanted:
                events = self._waiters[partition]
                events.discard(event)
                if not events:
                    del self._waiters[partition]

    def appended(self, partition: Partition) -> None:
        """Wake the requests that wait for this partition."""
        for event in self._waiters.get(partition, ()):
            event.set()

    @property
    def stopped(self) -> bool:
        """Whether requests should no longer wait."""
        return self._stopped

    def stop(self) -> None:
        """Wake all requests permanently."""
        self._stopped = True
        self.wake()

    def wake(self) -> None:
        """Let every request look again."""
        for events in self._waiters.values():
            for event in events:
                event.set()


async def woken(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event for up to `seconds`; return whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
