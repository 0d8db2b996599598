"""A consumer of a broker in this process, with awaited calls."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Self

from seglog.aio.jobs import Job, Parameters, Result, outcome, run_on, writing_thread
from seglog.aio.loops import running_loop
from seglog.errors import LogClosed
from seglog.log.tail import FIRST_WAIT, LONGEST_WAIT
from seglog.record import Timestamp, TopicRecord
from seglog.topic.groups.arguments import checked_wait
from seglog.topic.groups.consumer import (
    MAX_BYTES,
    MAX_RECORDS,
    Consumer,
    Pieces,
    Read,
    TopicBatch,
    batches_in,
    read_batches,
    read_records,
    records_in,
)
from seglog.topic.layout.places import Partition
from seglog.topic.positions import Positions
from seglog.uncopied import Uncopied


class AsyncConsumer(Uncopied):
    """Reads topics for a group; as `Consumer`, with awaited calls. Get it from `AsyncBroker.consumer`.

    An async context manager, for one task at a time. Records that a cancelled `poll` has read are read again by the
    next one, and no commit includes them.
    """

    def __init__(self, consumer: Consumer, *, thread: ThreadPoolExecutor | None = None) -> None:
        """thread: makes the calls of the consumer; None: a new one."""
        self.consumer = consumer
        self._thread = writing_thread() if thread is None else thread
        self._closing: Job[None] | None = None

    async def poll(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicRecord]:
        """Return the next records of one or more partitions; as Consumer.poll."""
        return self.consumer._deserialized(records_in(await self._poll(read_records, max_records, max_bytes, timeout)))

    async def poll_batches(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicBatch]:
        """Return the next records as Arrow; as Consumer.poll_batches."""
        return batches_in(await self._poll(read_batches, max_records, max_bytes, timeout))

    async def _poll(self, read: Read, max_records: int, max_bytes: int, timeout: float) -> Pieces:
        self._check_open()
        deadline, wait = time.monotonic() + checked_wait(timeout), FIRST_WAIT
        while True:
            pieces = await self._poll_once(read, max_records, max_bytes)
            left = deadline - time.monotonic()
            if pieces or left <= 0:
                return pieces
            await running_loop().sleep(min(wait, left))
            wait = min(wait * 2, LONGEST_WAIT)

    async def _poll_once(self, read: Read, max_records: int, max_bytes: int) -> Pieces:
        self._check_open()
        job = self._thread.submit(self.consumer._poll_once, read, max_records, max_bytes)
        try:
            return await outcome(job)
        except BaseException:
            if not job.cancel():  # it has begun: what it reads is for the next poll
                with suppress(RuntimeError):  # closed meanwhile
                    self._thread.submit(self._give_back, job)
            raise

    def _give_back(self, job: Job[Pieces]) -> None:
        """Undo a poll whose task was cancelled; on the thread, after it and before any other call."""
        if job.exception() is None:
            self.consumer._give_back(job.result())

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The assigned (topic, partition) pairs, in order."""
        return self.consumer.assignment

    @property
    async def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the next offset to read; awaited, since it may ask the group."""
        return await self._run(lambda: self.consumer.positions)

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at another offset, which the next `commit` includes; as Consumer.seek."""
        await self._run(self.consumer.seek, topic, partition, offset)

    async def seek_to_time(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> None:
        """Continue at the first record at or after a time; as Consumer.seek_to_time."""
        await self._run(self.consumer.seek_to_time, timestamp, force_timestamp=force_timestamp)

    async def lag(self) -> dict[Partition, int]:
        """Return how many records remain in each assigned partition; as Consumer.lag."""
        return await self._run(self.consumer.lag)

    async def commit(self, offsets: Positions | None = None, *, durable: bool = False) -> None:
        """Commit the group's positions; as Consumer.commit."""
        await self._run(self.consumer.commit, offsets, durable=durable)

    async def close(self) -> None:
        """Leave the group, so that others continue immediately; as Consumer.close. A cancelled call leaves, too."""
        if self._closing is None:
            self._closing = self._thread.submit(self.consumer.close)
            self._thread.shutdown(wait=False)
        await outcome(self._closing)

    async def _run(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        self._check_open()
        return await run_on(self._thread, call, *args, **options)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise LogClosed("the consumer is closed; create another one")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncConsumer of {self.consumer!r}>"
