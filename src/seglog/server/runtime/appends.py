"""Write path of an append through the server: a queue per partition, drained by a thread, with shared syncs.

An append is written directly if no other append waits and the log would not block: handing it to a thread takes longer
than the write. Otherwise it joins the partition's queue, and one call on a thread writes all queued appends. Those that
asked for "durable" then wait for one sync, shared by every request that arrived by then; appends continue meanwhile. An
answer is sent only when it is true. Batches and long values take a while and bypass the queue: they run on their own
threads and take the log's mutex when they commit. Appends with the same idempotency key wait for each other before they
get a thread.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from seglog.errors import Busy
from seglog.server.runtime.syncing import Syncing
from seglog.server.runtime.workers import Workers

if TYPE_CHECKING:
    from seglog.log.appends.group import Draft
    from seglog.log.log import Log
    from seglog.server.runtime.waiting import Waiting
    from seglog.server.settings import Limits
    from seglog.topic.layout.places import Partition
    from seglog.topic.partition_writer import PartitionWriter

THREADS = 4
SYNC_THREADS = 8


class Append(NamedTuple):
    """A record to append to a partition.

    Attributes:
        writer: The appends of the partition.
        record: The record.
        once: Its idempotency key, if any.
        durable: Whether it must survive power loss before the answer.
    """

    writer: PartitionWriter
    record: Draft
    once: str | None
    durable: bool

    def __call__(self) -> tuple[int, int]:
        """Append the record; return (partition, offset)."""
        return self.writer.append(self.record, self.once, durable=self.durable)


class _Entry(NamedTuple):
    append: Append
    future: asyncio.Future[Any]


_Waits = tuple[Any, "asyncio.Future[Any]"]
"""A result that waits for a sync, and the future that gets it then."""


class _Line:
    """The queue of one partition; it exists while an append or a sync waits in it."""

    def __init__(self, place: Partition, log: Log) -> None:
        self.place = place
        self.log = log
        self.entries: deque[_Entry] = deque()
        self.draining: asyncio.Task[None] | None = None
        self.unsynced: deque[_Waits] = deque()  # what is in it has been appended before
        self.in_sync: list[_Waits] = []
        self.syncing: asyncio.Task[None] | None = None


class Appends:
    """Appends to all partitions of all topics."""

    def __init__(self, limits: Limits, waiting: Waiting) -> None:
        """Take `waiting`, which is notified in the event loop of new records and of new durable ones."""
        self._most = limits.waiting
        self._appended = waiting.appended
        self._lines: dict[Log, _Line] = {}
        self._keys: WeakValueDictionary[tuple[str, str], asyncio.Lock] = WeakValueDictionary()
        self._writers = Workers("append", THREADS, limits.connections + limits.waiting)
        self._syncers = Workers("sync", SYNC_THREADS, limits.connections + limits.waiting)
        self._batches = Workers("batch", THREADS, limits.calls)
        self.syncing = Syncing(limits.sync_seconds, self._syncers, waiting.appended)

    def alone(self, topic: str, once: str | None) -> AbstractAsyncContextManager[None]:
        """Let one request at a time append under an idempotency key; the others wait here, without a thread."""
        if once is None:
            return nullcontext()
        lock = self._keys.get((topic, once))
        if lock is None:
            lock = self._keys[topic, once] = asyncio.Lock()
        return lock

    async def append(self, wanted: Append, length: int) -> tuple[int, int]:
        """Append a record, in order, and return (partition, offset). Raises Busy if too many wait.

        length: about its size in bytes, at least. If no other append waits and this one would not block, it runs
        immediately.
        """
        writer = wanted.writer
        line = self._lines.get(writer.log)
        if (line is None or line.draining is None) and writer.is_ready(length, wanted.once):
            result = wanted()
            self._note(writer.place, writer.log)
            if wanted.durable:
                await self.synced(writer.place, writer.log)
            return result
        line = self._line(writer.place, writer.log)
        if len(line.entries) >= self._most:
            topic, number = line.place
            raise Busy(f"{self._most} appends already wait for partition {number} of {topic}; retry in a moment")
        entry = _Entry(wanted, asyncio.get_running_loop().create_future())
        line.entries.append(entry)
        if line.draining is None:
            line.draining = asyncio.create_task(self._drain(line))
        stored: tuple[int, int] = await entry.future
        return stored

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
            self._note((topic, number), log)
        if durable:
            await asyncio.gather(*(self.synced((topic, number), log) for number, log in written))
        return result

    def batch_here(self, place: Partition, log: Log, call: Callable[[], Any]) -> Any:
        """Run `call`, which appends a few KiB to a partition that is ready for them: a thread would take longer."""
        result = call()
        self._note(place, log)
        return result

    def _note(self, place: Partition, log: Log) -> None:
        """Wake those that wait for new records of a partition, and sync these soon."""
        self._appended(place)
        self.syncing.appended(place, log)

    async def synced(self, place: Partition, log: Log) -> None:
        """Return when the records that were appended to a partition before are durable; all that wait share a sync."""
        future = asyncio.get_running_loop().create_future()
        self._await_sync(self._line(place, log), None, future)
        await future

    def _line(self, place: Partition, log: Log) -> _Line:
        """Return the queue of a partition, a new one if nothing waits in it."""
        line = self._lines.get(log)
        if line is None:
            line = self._lines[log] = _Line(place, log)
        return line

    def _drop_if_idle(self, line: _Line) -> None:
        if line.draining is None and line.syncing is None:
            self._lines.pop(line.log, None)

    async def _drain(self, line: _Line) -> None:
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
                self._note(line.place, line.log)
                for entry, result in zip(entries, results, strict=True):
                    self._settle(line, entry, result)
        finally:
            line.draining = None
            self._drop_if_idle(line)

    def _settle(self, line: _Line, entry: _Entry, result: Any) -> None:
        if entry.future.done():  # no request waits for it any more
            return
        if isinstance(result, Exception):
            entry.future.set_exception(result)
        elif entry.append.durable:
            self._await_sync(line, result, entry.future)
        else:
            entry.future.set_result(result)

    def _await_sync(self, line: _Line, result: Any, future: asyncio.Future[Any]) -> None:
        """Set the result when everything appended by now is on disk."""
        line.unsynced.append((result, future))
        if line.syncing is None:
            line.syncing = asyncio.create_task(self._sync(line))

    async def _sync(self, line: _Line) -> None:
        loop = asyncio.get_running_loop()
        try:
            while line.unsynced:
                try:
                    await self._syncers.run(partial(self._sync_rounds, line, loop))
                except Busy as error:
                    self._synced(line, _taken(line.unsynced), error)
        except asyncio.CancelledError:
            _cancel(future for _, future in (*line.in_sync, *line.unsynced))
            line.unsynced.clear()
            raise
        finally:
            line.syncing = None
            self._drop_if_idle(line)

    def _sync_rounds(self, line: _Line, loop: asyncio.AbstractEventLoop) -> None:
        """Sync, on a thread, while more waits for it, without a way to the event loop and back between two syncs."""
        while waiting := _taken(line.unsynced):
            line.in_sync = waiting
            failure = _failure_of(line.log.sync)
            loop.call_soon_threadsafe(self._synced, line, waiting, failure)
            if self._syncers.busy > SYNC_THREADS:  # other partitions wait for a thread
                return

    def _synced(self, line: _Line, waiting: list[_Waits], failure: Exception | None) -> None:
        """Answer those that waited for a sync."""
        self._appended(line.place)
        for result, future in waiting:
            if future.done():
                continue
            if failure is not None:
                future.set_exception(failure)
            else:
                future.set_result(result)

    def close(self) -> None:
        """Wait for running appends."""
        for workers in (self._batches, self._writers, self._syncers):
            workers.close()


def _taken(waiting: deque[_Waits]) -> list[_Waits]:
    """Return what waits now; another thread may add more."""
    return [waiting.popleft() for _ in range(len(waiting))]


def _cancel(futures: Iterable[asyncio.Future[Any]]) -> None:
    """Cancel requests whose outcome will stay unknown: the task that would settle them was cancelled."""
    for future in futures:
        future.cancel()


def _call_all(entries: list[_Entry]) -> list[Any]:
    return [_outcome(entry.append) for entry in entries]


def _outcome(append: Append) -> tuple[int, int] | Exception:
    try:
        return append()
    except Exception as error:  # noqa: BLE001 - the request that waits for it gets the error
        return error


def _failure_of(sync: Callable[[], None]) -> Exception | None:
    try:
        sync()
    except Exception as error:  # noqa: BLE001 - every request that waits for this sync gets the error
        return error
    return None
