"""Requests that wait for new records: long polls and live tails, woken by this process's appends. Event loop only."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import islice

from seglog.topic.layout.places import Partition

AT_ONCE = 32  # requests woken in one turn of the event loop: others, such as /ready, are served between the turns


class Waiting:
    """Wakes the requests that wait for one of several partitions."""

    def __init__(self) -> None:
        self._waiters: dict[Partition, set[asyncio.Event]] = {}
        self._due: dict[asyncio.Event, None] = {}  # to be set in later turns, in this order
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
        if events := self._waiters.get(partition):
            self._wake(events)

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
        self._wake(event for events in self._waiters.values() for event in events)

    def _wake(self, events: Iterable[asyncio.Event]) -> None:
        """Set the first few events now, and the others a few at a time."""
        under_way = bool(self._due)
        self._due.update((event, None) for event in events if not event.is_set())
        if not under_way:
            self._wake_some()

    def _wake_some(self) -> None:
        for event in list(islice(self._due, AT_ONCE)):
            del self._due[event]
            event.set()
        if self._due:
            asyncio.get_running_loop().call_soon(self._wake_some)


async def woken(event: asyncio.Event, seconds: float) -> bool:
    """Wait for the event for up to `seconds`; return whether it was set."""
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return False
    return True
