"""Write path of an append through the server: a queue per partition, drained by a thread, with shared syncs.

An append is written directly if no other append waits and the log would not block: handing it to a thread takes longer
than the write. Otherwise it joins the partition's queue, and one call on a thread writes all queued appends. Those that
asked for "durable" then wait for one sync, shared by every request that arrived by then; appends continue meanwhile. An
answer is sent only when it is true. Batches and long values take a while and bypass the queue: they run on their own
threads and take the log's mutex when they commit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from seglog.errors import Busy
from seglog.server.runtime.syncing import Syncing
from seglog.server.runtime.workers import Workers

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.server.runtime.waiting import Waiting
    from seglog.server.settings import Limits
    from seglog.topic.layout.places import Partition

THREADS = 4
SYNC_THREADS = 8


class _Entry(NamedTuple):
    call: Callable[[], Any]
    durable: bool
    future: asyncio.Future[Any]


class _Line:
    """The queue of one partition."""

    def __init__(self, place: Partition, log: Log) -> None:
        self.place = place
        self.log = log
        self.entries: deque[_Entry] = deque()
        self.draining: asyncio.Task[None] | None = None
        self.unsynced: list[tuple[Any, asyncio.Future[Any]]] = []
        self.syncing: asyncio.Task[None] | None = None


class Appends:
    """Appends to all partitions of all topics."""

    def __init__(self, limits: Limits, waiting: Waiting) -> None:
        """Take `waiting`, which is notified in the event loop of new records and of new durable ones."""
        self._most = limits.waiting
        self._appended = waiting.appended
        self._lines: dict[Partition, _Line] = {}
        self._writers = Workers("append", THREADS, limits.connections + limits.waiting)
        self._syncers = Workers("sync", SYNC_THREADS, limits.connections + limits.waiting)
        self._batches = Workers("batch", THREADS, limits.calls)
        self.syncing = Syncing(limits.sync_seconds, self._syncers, waiting.appended)

    async def append(
        self, place: Partition, log: Log, call: Callable[[], Any], *, durable: bool, ready: Callable[[], bool]
    ) -> Any:
        """Run `call`, which appends to this log, in order, and return its result. Raises Busy if too many wait.

        ready: whether the call would not block; if no other append waits, it then runs immediately.
        """
        line = self._lines.get(place)
        if line is None or line.log is not log:
            line = self._lines[place] = _Line(place, log)
        if line.draining is None and ready():
            result = call()
            self._appended(place)
            self.syncing.appended(place, log)
            return await self._synced(line, result) if durable else result
        if len(line.entries) >= self._most:
            raise Busy(f"{self._most} appends already wait for partition {place[1]} of {place[0]}; retry in a moment")
        entry = _Entry(call, durable, asyncio.get_running_loop().create_future())
        line.entries.append(entry)
        if line.draining is None:
            line.draining = asyncio.create_task(self._drain(place, line))
        return await entry.future

    async def batch(
        self,
        topic: str,
        logs: Callable[[Any], Iterable[tuple[int, Log]]],
        call: Callable[[], Any],
        *,
        durable: bool,
        first: Callable[[], Awaitable[object]] | None = None,
    ) -> Any:
        """Run `call`, which appends a batch, on its own thread.

        logs(its result): number and log of the partitions it wrote to. first: awaited before the call.
        """
        result = await self._batches.run(call, first)
        written = list(logs(result))
        for number, log in written:
            self._appended((topic, number))
            self.syncing.appended((topic, number), log)
        if durable:
            await asyncio.gather(*(self._syncers.run(log.sync) for _, log in written))
            for number, _ in written:
                self._appended((topic, number))
        return result

    async def _drain(self, place: Partition, line: _Line) -> None:
        try:
            while line.entries:
                entries = [*line.entries]
                line.entries.clear()
                try:
                    results = await self._writers.run(partial(_call_all, entries))
                except Exception as error:  # noqa: BLE001 - no thread available: the waiting requests fail
                    results = [error] * len(entries)
                except asyncio.CancelledError:
                    _cancel(entry.future for entry in (*entries, *line.entries))
                    line.entries.clear()
                    raise
                self._appended(place)
                self.syncing.appended(place, line.log)
                for entry, result in zip(entries, results, strict=True):
                    self._settle(line, entry, result)
        finally:
            line.draining = None

    def _settle(self, line: _Line, entry: _Entry, result: Any) -> None:
        if entry.future.done():  # no request waits for it any more
            return
        if isinstance(result, Exception):
            entry.future.set_exception(result)
        elif entry.durable:
            self._await_sync(line, result, entry.future)
        else:
            entry.future.set_result(result)

    async def _synced(self, line: _Line, result: Any) -> Any:
        future = asyncio.get_running_loop().create_future()
        self._await_sync(line, result, future)
        return await future

    def _await_sync(self, line: _Line, result: Any, future: asyncio.Future[Any]) -> None:
        """Set the result when everything appended by now is on disk."""
        line.unsynced.append((result, future))
        if line.syncing is None:
            line.syncing = asyncio.create_task(self._sync(line))

    async def _sync(self, line: _Line) -> None:
        try:
            while line.unsynced:
                waiting, line.unsynced = line.unsynced, []
                try:
                    failure = await self._syncers.run(partial(_failure_of, line.log.sync))
                except Busy as error:
                    failure = error
                except asyncio.CancelledError:
                    _cancel(future for _, future in (*waiting, *line.unsynced))
                    line.unsynced.clear()
                    raise
                self._appended(line.place)
                for result, future in waiting:
                    if future.done():
                        continue
                    if failure is not None:
                        future.set_exception(failure)
                    else:
                        future.set_result(result)
        finally:
            line.syncing = None

    def close(self) -> None:
        """Wait for running appends."""
        for workers in (self._batches, self._writers, self._syncers):
            workers.close()


def _cancel(futures: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel requests whose outcome will stay unknown: the task that would settle them was cancelled."""
    for future in futures:
        future.cancel()


def _call_all(entries: list[_Entry]) -> list[Any]:
    return [_outcome(entry.call) for entry in entries]


def _outcome(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # noqa: BLE001 - the request that waits for it gets the error
        return error


def _failure_of(sync: Callable[[], None]) -> Exception | None:
    try:
        sync()
    except Exception as error:  # noqa: BLE001 - every request that waits for this sync gets the error
        return error
    return None
