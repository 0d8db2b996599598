"""A log with awaited calls. Its records are appended by `appends`, on a thread of its own."""

from __future__ import annotations

import os
import tempfile
import threading
import time
from collections.abc import AsyncIterable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seglog.aio.appends import Appends
from seglog.aio.jobs import Job, Parameters, Result, outcome, run_on, writing_thread
from seglog.aio.loops import Future, running_loop
from seglog.aio.reading import AsyncReadableLog
from seglog.aio.spool import SPOOL_BYTES, spool_chunks
from seglog.config import Compression
from seglog.deprecated import AlteredByName
from seglog.errors import LogClosed, LogPoisoned, NotMirrored
from seglog.log.appends.group import Appended, Draft
from seglog.log.info import CompactionReport, CompressionReport
from seglog.log.log import Log
from seglog.log.mirroring import FOREVER, checked_timeout
from seglog.log.staging import StagedSegment
from seglog.log.tail import FIRST_WAIT, LONGEST_WAIT
from seglog.record import Header, Record, Timestamp, checked_offset
from seglog.storage import Storage

if TYPE_CHECKING:
    from seglog.compaction.plan import CompactionPlan
    from seglog.compaction.rewrite import Outcome
    from seglog.compaction.schedule import Standing
    from seglog.log.backup import BackupReport
    from seglog.log.repair.repair import RepairReport
    from seglog.log.repair.verify import Progress


@contextmanager
def _aborting(abort: Callable[[], bool] | None) -> Iterator[Callable[[], bool]]:
    """Give an `abort` that is also true once the call is over, however it ended. Anything else is returned as it is."""
    over = threading.Event()

    def aborted() -> bool:
        return over.is_set() or (abort is not None and abort())

    try:
        yield aborted if abort is None or callable(abort) else abort
    finally:
        over.set()


class AsyncLog(AlteredByName, AsyncReadableLog):
    """A log whose calls are awaited: those of `Log`, with the same arguments and errors. `log` is the underlying log.

    A call that is cancelled before it began changes nothing; one that has begun goes to its end.
    """

    def __init__(self, log: Log, *, thread: ThreadPoolExecutor | None = None, own: bool = True) -> None:
        """thread: makes the calls that change the log; None: a new one. own: whether it ends with the log."""
        super().__init__(log)
        self._thread = writing_thread() if thread is None else thread
        self._owns_thread = own
        self._appends = Appends(log, self._thread)
        self._closed = False
        self._closing: Job[None] | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # --- appending ------------------------------------------------------------------------------------------------

    async def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset; arguments and errors as in Log.append."""
        offset: int = await self._queued(Draft(value, key, timestamp, headers, expected_offset, force_timestamp))
        return offset

    def _queued(self, draft: Draft) -> Future:
        """Queue a record; return the future of its offset."""
        self._check_open()
        return self._appends.append(draft)

    async def append_each(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append many records; return for each its offset or its error; as Log.append_each."""
        return await self._write(self.log.append_each, drafts)

    async def append_at(self, offset: int, record: Record) -> int:
        """Append a record of another log at its own offset; as Log.append_at."""
        return await self._write(self.log.append_at, offset, record)

    async def append_stream(
        self,
        chunks: AsyncIterable[bytes] | Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
    ) -> int:
        """Append one record whose value comes in chunks, also from async sources; as Log.append_stream.

        The chunks are spooled (in memory up to 1 MiB, then in a temporary file), so that a slow sender never blocks
        others.
        """
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            spooled = await spool_chunks(chunks, spool, limit, self.log.config.store_limit)
            length = spooled if length is None else length
            pieces = iter(partial(spool.read, SPOOL_BYTES), b"")
            append: Any = self.log.append_stream
            times = {"timestamp": timestamp, "force_timestamp": force_timestamp}
            options = {"key": key, "headers": headers, "limit": limit, "length": length, **times}
            offset: int = await self._write(partial(append, pieces, **options))
            return offset

    async def append_batch(self, data: Any, *, force_timestamp: bool = False) -> range:
        """Append Arrow data and return its offsets; as Log.append_batch."""
        return await self._write(self.log.append_batch, data, force_timestamp=force_timestamp)

    def is_ready(self, length: int) -> bool:
        """Whether an append of `length` bytes could begin at once; as Log.is_ready."""
        return self.log.is_ready(length)

    @property
    def failure(self) -> LogPoisoned | None:
        """The error that stopped writing until the log is opened again; else None."""
        return self.log.failure

    # --- staged segments ------------------------------------------------------------------------------------------

    async def publish(self, staged: Sequence[StagedSegment], *, query: str, batch: int) -> range | None:
        """Add segments that a `Stage` wrote, atomically; as Log.publish."""
        return await self._write(self.log.publish, staged, query=query, batch=batch)

    async def check_staged(self, staged: Sequence[StagedSegment]) -> None:
        """Check that segments can be published; as Log.check_staged."""
        await self._write(self.log.check_staged, staged)

    async def published(self, query: str) -> int | None:
        """Return the number of the last published batch of a query; as Log.published."""
        return await self._read(self.log.published, query)

    # --- durability and the end -----------------------------------------------------------------------------------

    async def flush(self) -> None:
        """Write the records that `buffer_bytes` holds back to the store; as Log.flush."""
        await self._write(self.log.flush)

    async def sync(self) -> None:
        """Return once every appended record survives power loss. Concurrent callers share one sync."""
        await self._read(self.log.sync)

    async def mirrored(
        self, offset: int, copies: int = 1, *, timeout: float | None = None, epoch: int | None = None
    ) -> None:
        """Return once the record at `offset`, and all before it, are on the disks of this log and of copies.

        As Log.mirrored. A task that waits holds no thread.
        """
        seconds, wait = checked_timeout(timeout), FIRST_WAIT
        until = time.monotonic() + (FOREVER if seconds is None else seconds)
        since = await self._read(self.log._mirrored_since, checked_offset(offset), epoch)
        while True:
            left = until - time.monotonic()
            try:
                return await self._read(self.log.mirrored, offset, copies, timeout=0, epoch=epoch)
            except NotMirrored as error:
                if left <= 0:
                    raise NotMirrored.of(self.log.path, offset, error.copies, copies, seconds or 0) from None
            epoch = since  # from now on the record must be the one that was there at first
            await running_loop().sleep(min(wait, left))
            wait = min(wait * 2, LONGEST_WAIT)

    async def mirrored_offset(self, copies: int = 1) -> int:
        """Return the offset before which every record is on the disks of copies, too; as Log.mirrored_offset."""
        return await self._read(self.log.mirrored_offset, copies)

    async def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; as Log.truncate."""
        await self._write(self.log.truncate, offset)

    async def remove(self) -> None:
        """Close the log and remove its directory with all content; as Log.remove."""
        await self._write(self._remove)
        await self.close()

    def _remove(self) -> None:
        self.log.remove()
        self._closed = True

    # --- retention and compaction ---------------------------------------------------------------------------------

    async def expire(self) -> int:
        """Delete what retention no longer keeps; as Log.expire."""
        return await self._write(self.log.expire)

    async def delete_before(self, offset: int) -> int:
        """Delete the records before an offset; as Log.delete_before."""
        return await self._write(self.log.delete_before, offset)

    async def alter(self, **changes: Any) -> None:
        """Change settings of the log by one commit; as Log.alter."""
        await self._write(partial(self.log.alter, **changes))

    async def standing(self) -> Standing:
        """Return the state of compaction by key, and of compression; as Log.standing."""
        return await self._read(self.log.standing)

    async def compact(
        self,
        *,
        roll: bool = False,
        generational: bool = False,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompactionReport:
        """Keep only the latest record of each key; as Log.compact. Appends and readers continue meanwhile.

        progress and abort are called on a thread. A cancelled call aborts the compaction, which changes nothing.
        """
        with _aborting(abort) as aborted:
            return await self._read(
                self.log.compact,
                roll=roll,
                generational=generational,
                progress=progress,
                abort=aborted,
                bytes_per_second=bytes_per_second,
            )

    async def plan_compaction(self, *, generational: bool = False) -> CompactionPlan:
        """Return what `compact` would do now; as Log.plan_compaction."""
        return await self._write(self.log.plan_compaction, generational=generational)

    async def finish_compaction(self, plan: CompactionPlan, outcome: Outcome, directory: str) -> CompactionReport:
        """Replace a plan's sources by what `rewrite` wrote; as Log.finish_compaction."""
        return await self._write(self.log.finish_compaction, plan, outcome, directory)

    async def compress(
        self,
        codec: Compression | None = None,
        *,
        max_bytes: int | None = None,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompressionReport:
        """Store the sealed segments as the config requires; as Log.compress. Appends and readers continue meanwhile.

        progress and abort are called on a thread. A cancelled call aborts the pass.
        """
        with _aborting(abort) as aborted:
            return await self._read(
                self.log.compress,
                codec,
                max_bytes=max_bytes,
                progress=progress,
                abort=aborted,
                bytes_per_second=bytes_per_second,
            )

    # --- followers and operators ----------------------------------------------------------------------------------

    @property
    async def pins(self) -> dict[str, int]:
        """The followers registered with `pin`, as Log.pins; awaited, since it reads files: `await log.pins`."""
        return await self._read(lambda: self.log.pins)

    @property
    async def table_offset(self) -> int | None:
        """As Log.table_offset; awaited, since it reads files: `await log.table_offset`."""
        return await self._read(lambda: self.log.table_offset)

    async def pin(self, name: str, offset: int) -> None:
        """Register a follower or update its position, durably; as Log.pin."""
        await self._read(self.log.pin, name, offset)

    async def unpin(self, name: str) -> None:
        """Remove a follower; as Log.unpin."""
        await self._read(self.log.unpin, name)

    async def backup(
        self, place: str | os.PathLike[str] | Storage, *, share: bool = True, wait: float | None = None
    ) -> BackupReport:
        """Copy the log, as it is at this moment, to a directory; as Log.backup."""
        return await self._read(self.log.backup, place, share=share, wait=wait)

    async def repair(self, progress: Progress | None = None) -> RepairReport:
        """Move damage to quarantine/ and continue with everything readable; as Log.repair."""
        return await self._write(self.log.repair, progress)

    async def fence(self, term: int) -> None:
        """Accept no more changes, durably; as Log.fence."""
        await self._write(self.log.fence, term)

    # --- the end --------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Write the waiting records, sync, and release lock and files. Further calls wait for the same.

        A cancelled call stops waiting; the log is closed nevertheless.
        """
        await outcome(self._close_soon())

    def _close_soon(self) -> Job[None]:
        """Have the thread write what is waiting and close the log, whatever happens to tasks and loops meanwhile."""
        self._closed = True
        if self._closing is None:
            self._closing = self._appends.finish(self.log.close)
            if self._owns_thread:
                self._thread.shutdown(wait=False)
        return self._closing

    async def _write(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        """Make a call that changes the log, after the appends that were submitted before."""
        self._check_open()
        return await run_on(self._thread, call, *args, **options)

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"{self.log.path}: the log is closed; open it again")
