"""Logs for asyncio: `async with await seglog.aio.open(path) as log`.

One thread writes the appends of many tasks together, and under a flush policy they share one sync, so that a task waits
about as long as the disk takes, not as long as all the others. Reads run on threads; the event loop never blocks.

Writing and closing use callbacks, not tasks: a program that cancels all tasks, as asyncio.run does at its end, does not
cancel them.
"""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from types import TracebackType
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar

from seglog.config import Expose, LogConfig
from seglog.errors import InvalidType, LogClosed, LogLocked, StreamOverflow
from seglog.log.appends.group import Appended, Draft
from seglog.log.locks.wait import Patience
from seglog.log.log import Log
from seglog.log.opening import Mode, open_log
from seglog.log.tail import FIRST_WAIT, LONGEST_WAIT
from seglog.record import Header, Record, checked_bytes, checked_offset
from seglog.storage import Storage
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import pyarrow as pa

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Waiting = tuple[Draft, asyncio.Future[int]]
"""A record to append, and the future of the task that waits for its offset."""

SPOOL_BYTES = 1024 * 1024
SCAN_RECORDS = 256


async def open(  # noqa: A001 - seglog.aio.open reads as seglog.open
    place: str | os.PathLike[str] | Storage,
    config: LogConfig | None = None,
    *,
    mode: Mode = "a",
    expose: Expose = "appended",
    wait: float | None = None,
) -> AsyncLog:
    """Open a log as `seglog.open` does. A call that is cancelled leaves no log open, also while it waits."""
    attempt = partial(open_log, place, config, mode=mode, expose=expose)
    patience = Patience(wait)
    while True:
        try:
            return AsyncLog(await _opened(attempt))
        except LogLocked:
            pause = patience.pause()
            if pause is None:
                raise
        await asyncio.sleep(pause)


async def _opened(attempt: Callable[[], Log]) -> Log:
    """Open on a thread; close the log again if the caller was cancelled meanwhile."""
    opening = asyncio.get_running_loop().run_in_executor(None, attempt)
    try:
        return await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_unwanted)
        raise


def _close_unwanted(opening: asyncio.Future[Log]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        opening.result().close()


class AsyncLog(Uncopied):
    """A log with awaited calls. `log` is the underlying log."""

    def __init__(self, log: Log) -> None:
        self.log = log
        self._writer = ThreadPoolExecutor(max_workers=1, thread_name_prefix="seglog-append")
        self._waiting: list[Waiting] = []
        self._loop: asyncio.AbstractEventLoop | None = None  # the loop in which a write is running
        self._closed = False
        self._closing: asyncio.Future[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- writing ------------------------------------------------------------------------------------------------

    async def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset; arguments and errors as in Log.append."""
        self._check_open()
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._waiting.append((Draft(value, key, timestamp, headers, expected_offset), future))
        if not self._is_writing():
            self._loop = asyncio.get_running_loop()
            self._loop.call_soon(self._write_waiting)  # together with what other tasks append by then
        return await future

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"{self.log.path}: the log is closed; open it again")

    def _is_writing(self) -> bool:
        return self._loop is not None and not self._loop.is_closed()

    def _write_waiting(self) -> None:
        """Pass the waiting records to the writing thread; called again after each write until none waits."""
        waiting, self._waiting, self._loop = self._waiting, [], None
        batch = [one for one in waiting if not one[1].done() and not one[1].get_loop().is_closed()]
        if batch:
            self._loop = asyncio.get_running_loop()
            drafts = [draft for draft, _ in batch]
            writing = self._loop.run_in_executor(self._writer, self._append_each, drafts)
            writing.add_done_callback(partial(self._written, batch))
        elif self._closing is not None:
            self._close_log(self._closing)

    def _written(self, batch: list[Waiting], writing: asyncio.Future[Sequence[Appended | BaseException]]) -> None:
        for (_, future), result in zip(batch, writing.result(), strict=True):
            if future.done():  # its task was cancelled
                continue
            if isinstance(result, BaseException):
                future.set_exception(result)
            else:
                future.set_result(result)
        self._write_waiting()

    def _append_each(self, drafts: list[Draft]) -> Sequence[Appended | BaseException]:
        try:
            return self.log.append_each(drafts)
        except BaseException as error:  # noqa: BLE001 - every task gets the error: none is acknowledged
            return [error] * len(drafts)

    async def append_stream(
        self,
        chunks: AsyncIterable[bytes] | Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
    ) -> int:
        """Append one record whose value comes in chunks, also from async sources; as Log.append_stream.

        The chunks are spooled (in memory up to 1 MiB, then in a temporary file), so that a slow sender never blocks
        others.
        """
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            spooled = await self._spool(chunks, spool, limit)
            length = spooled if length is None else length
            pieces = iter(partial(spool.read, SPOOL_BYTES), b"")
            options = {"key": key, "timestamp": timestamp, "headers": headers, "limit": limit, "length": length}
            return await self._run(partial(self.log.append_stream, pieces, **options))  # type: ignore[arg-type] # a dict of many kinds

    async def _spool(self, chunks: AsyncIterable[bytes] | Iterable[bytes], spool: Any, limit: int | None) -> int:
        most = self.log.config.store_limit if limit is None else checked_offset(limit, "limit")
        length = 0
        async for chunk in _as_async(chunks):
            length += len(checked_bytes(chunk, "a chunk of the stream"))
            if length > most:
                raise StreamOverflow(most)
            spool.write(chunk)
        spool.seek(0)
        return length

    async def append_batch(self, data: Any) -> range:
        """Append Arrow data and return its offsets; as Log.append_batch."""
        return await self._run(self.log.append_batch, data)

    async def sync(self) -> None:
        """Return once every appended record survives power loss. Concurrent callers share one sync."""
        await asyncio.to_thread(self.log.sync)

    async def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; as Log.truncate."""
        await self._run(self.log.truncate, offset)

    async def expire(self) -> int:
        """Delete what retention no longer keeps; as Log.expire."""
        return await self._run(self.log.expire)

    async def _run(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        self._check_open()
        return await asyncio.get_running_loop().run_in_executor(self._writer, partial(call, *args, **options))

    # --- reading ------------------------------------------------------------------------------------------------

    @property
    def lowest_offset(self) -> int:
        """The first offset that the log still holds."""
        return self.log.lowest_offset

    @property
    def next_offset(self) -> int:
        """The offset that the next append gets."""
        return self.log.next_offset

    @property
    def durable_offset(self) -> int:
        """The offset before which every record survives power loss."""
        return self.log.durable_offset

    async def read(self, offset: int) -> Record:
        """Return the record at `offset`; as Log.read."""
        return await asyncio.to_thread(self.log.read, offset)

    async def offset_at(self, timestamp: int) -> int | None:
        """Return the first offset at or after a time; as Log.offset_at."""
        return await asyncio.to_thread(self.log.offset_at, timestamp)

    async def to_arrow(self, start: int | None = None, stop: int | None = None) -> pa.Table:
        """Return a range as an Arrow table; as Log.to_arrow."""
        return await asyncio.to_thread(self.log.to_arrow, start, stop)

    async def scan(self, start: int | None = None, stop: int | None = None) -> AsyncIterator[Record]:
        """Iterate over a range; as Log.scan."""
        records = self.log.scan(start, stop)
        while piece := await asyncio.to_thread(_take, records, SCAN_RECORDS):
            for record in piece:
                yield record

    async def follow(self, start: int | None = None) -> AsyncIterator[Record]:
        """Iterate over the records from `start` (default: the present end) on, and wait for more, forever."""
        tail, wait = self.log.tail(start), FIRST_WAIT
        while True:
            piece = await asyncio.to_thread(tail.poll, SCAN_RECORDS)
            for record in piece:
                yield record
            if piece:
                wait = FIRST_WAIT
            else:
                await asyncio.sleep(wait)
                wait = min(wait * 2, LONGEST_WAIT)

    async def close(self) -> None:
        """Write the waiting records, sync, and release lock and files. Further calls wait for the same.

        A cancelled call stops waiting; the log is closed nevertheless.
        """
        self._closed = True
        if self._closing is None or self._closing.get_loop().is_closed():
            self._closing = asyncio.get_running_loop().create_future()
            if not self._is_writing():
                self._write_waiting()
        await asyncio.shield(self._closing)

    def _close_log(self, closing: asyncio.Future[None]) -> None:
        ended = asyncio.get_running_loop().run_in_executor(self._writer, self.log.close)
        ended.add_done_callback(partial(self._ended, closing))

    def _ended(self, closing: asyncio.Future[None], ended: asyncio.Future[None]) -> None:
        self._writer.shutdown(wait=False)
        error = ended.exception()
        if error is None:
            closing.set_result(None)
        else:
            closing.set_exception(error)


def _take(records: Iterator[Record], most: int) -> list[Record]:
    return list(islice(records, most))


async def _as_async(chunks: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield chunk
    elif isinstance(chunks, Iterable):
        for chunk in chunks:
            yield chunk
    else:
        raise InvalidType(f"append_stream takes an iterable of bytes, not {type(chunks).__name__}")
