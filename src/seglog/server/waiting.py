"""Who waits for new records: long polls and live tails, woken by the appends of this process. Event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from seglog.topic.places import Partition


class Waiting:
    """Wakes those who wait for one of several partitions."""

    def __init__(self) -> None:
        self._waiters: dict[Partition, set[asyncio.Event]] = {}
        self._stopped = False

    @contextmanager
    def on(self, partitions: Iterable[Partition]) -> Iterator[asyncio.Event]:
        """Give an event that is set with every append to one of them, and when the server stops.

        Look for records after entering, and clear the event before each look: then none is missed.
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
        """Wake those who wait for this partition."""
        for event in self._waiters.get(partition, ()):
            event.set()

    @property
    def stopped(self) -> bool:
        """Whether nobody is to wait any more."""
        return self._stopped

    def stop(self) -> None:
        """Wake everybody for good."""
        self._stopped = True
        for events in self._waiters.values():
            for event in events:
                event.set()


async def woken(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event at most so long; tell whether it came."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
