"""Periodic syncs: records acknowledged as "appended" become durable soon without a client asking for it.

Runs in the event loop, except the syncs themselves. A log whose sync fails is poisoned; `/health` reports it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from seglog.errors import SeglogError

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.server.runtime.workers import Workers
    from seglog.topic.layout.places import Partition


class Syncing:
    """The partitions with unsynced records that this server appended."""

    def __init__(self, seconds: float, workers: Workers, synced: Callable[[Partition], None]) -> None:
        """seconds: between two syncs of a partition. synced: called in the event loop after each sync.

        It is also called if the log itself has synced meanwhile (flush_interval, a roll).
        """
        self._seconds = seconds
        self._workers = workers
        self._synced = synced
        self._unsynced: dict[Partition, Log] = {}
        self._watched: dict[Partition, Log] = {}
        self._next_at = monotonic() + seconds
        self._running: asyncio.Task[None] | None = None

    @property
    def unsynced(self) -> int:
        """How many partitions wait for the next sync."""
        return len(self._unsynced)

    def appended(self, place: Partition, log: Log) -> None:
        """Note that a partition has new records."""
        self._unsynced[place] = log

    def watch(self, place: Partition, log: Log) -> None:
        """Sync a log too to which others append than this server's requests: what consumer groups keep."""
        self._watched[place] = log

    def tick(self) -> None:
        """Begin to sync if it is time; called several times a second."""
        if monotonic() < self._next_at or not (self._running is None or self._running.done()):
            return
        watched = {place: log for place, log in self._watched.items() if log.durable_offset < log.next_offset}
        if watched or self._unsynced:
            unsynced, self._unsynced = {**self._unsynced, **watched}, {}
            self._running = asyncio.create_task(self._sync_all(unsynced))

    async def _sync_all(self, unsynced: dict[Partition, Log]) -> None:
        for place, log in unsynced.items():
            try:
                if log.durable_offset < log.next_offset:
                    await self._workers.run(log.sync)
                self._synced(place)
            except (SeglogError, OSError):  # closed in the meantime, or poisoned
                continue
        self._next_at = monotonic() + self._seconds
