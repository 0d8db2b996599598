"""The producer of `AsyncClient`: like `producer`, with a task instead of the thread. See `producing`."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seglog.client.producing import Deliverer, Entry, Outbox, Outcome, Tally, checked_linger, ended, entry
from seglog.client.retrying import Retries
from seglog.errors import LogClosed, SeglogError
from seglog.record import Header, Timestamp, checked_timestamp
from seglog.serializers import Serializers
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from seglog.client.aio.driver import AsyncDriver
from seglog.client.requests.topic_calls import Acknowledgement


class AsyncProducer(Uncopied):
    """Appends single records in the background, many per request; as `Producer`. Get it from `AsyncClient.producer`."""

    def __init__(
        self,
        topic: str,
        driver: AsyncDriver,
        once: Callable[[], str],
        *,
        batch_bytes: int,
        batch_records: int,
        linger: float,
        queue_bytes: int,
        delivery_timeout: float,
        ack: Acknowledgement,
        serializers: Serializers | None = None,
    ) -> None:
        """Take the arguments of `Producer`."""
        self._driver, self._once, self._linger = driver, once, checked_linger(linger)
        self._outbox = Outbox(batch_bytes=batch_bytes, batch_records=batch_records, queue_bytes=queue_bytes)
        self._deliverer = Deliverer(topic, ack=ack, retries=Retries(None, delivery_timeout))
        self._tally = Tally()
        self._settled = asyncio.Condition()
        self._now = asyncio.Event()
        self._hurry = 0
        self._topic, self._serializers = topic, serializers
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def send(
        self,
        value: Any,
        *,
        key: Any = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        partition: int | None = None,
    ) -> asyncio.Future[tuple[int, int]]:
        """Queue a record; return a future of its (partition, offset). Waits while the queue is full.

        Args:
            value, key, timestamp, force_timestamp, headers, partition: As in RemoteTopic.append.

        Raises:
            LogClosed: the producer is closed.
            SerializationError: a serializer refused the key or value; nothing is queued.
        """
        future: asyncio.Future[tuple[int, int]] = asyncio.get_running_loop().create_future()
        if self._serializers is not None:
            key, value = self._serializers.serialized(self._topic, key, value, partition)
        moment = None if timestamp is None else checked_timestamp(timestamp, force_timestamp=force_timestamp)
        one = entry(value, key=key, timestamp=moment, headers=headers, partition=partition, future=future)
        size = one.size
        if not self._outbox.has_room(size):
            async with self._settled:
                await self._settled.wait_for(lambda: self._closed or self._outbox.has_room(size))
        if self._closed:
            raise LogClosed("the producer is closed; create another one")
        self._outbox.put(one, size, time.monotonic())
        self._tally.sent += 1
        if self._outbox.is_full:
            self._now.set()
        self._begin()
        return future

    def _begin(self) -> None:
        """Start a sending task if there is none, or if the program has cancelled it."""
        if self._outbox and (self._task is None or self._task.done()):
            self._task = asyncio.create_task(self._run())

    async def flush(self) -> None:
        """Wait until every queued record is stored or has failed; raise the first failure since the last flush."""
        self._hurry = goal = self._tally.sent
        self._now.set()
        self._begin()
        async with self._settled:
            await self._settled.wait_for(lambda: self._tally.done >= goal)
        self._tally.raise_failure()

    async def close(self) -> None:
        """Send what is queued, like `flush`, and accept no more. Closing twice is harmless."""
        self._closed = True
        async with self._settled:
            self._settled.notify_all()  # wake tasks that wait for space in the queue
        await self.flush()

    async def _run(self) -> None:
        """Send while records wait."""
        try:
            while self._outbox:
                await self._linger_a_while()
                taken = self._outbox.take()
                await self._deliver([one for one in taken if not one.future.cancelled()], len(taken))
        finally:
            self._task = None

    async def _linger_a_while(self) -> None:
        """Wait until a batch is full, old enough, or requested by flush."""
        self._now.clear()
        left = self._outbox.oldest + self._linger - time.monotonic()
        if left > 0 and not (self._outbox.is_full or self._hurry > self._tally.done or self._closed):
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._now.wait(), left)

    async def _deliver(self, batch: list[Entry], taken: int) -> None:
        try:
            outcomes = await self._driver.run(self._deliverer.deliver(batch, self._once())) if batch else []
        except Exception as error:  # noqa: BLE001 - any failure goes to the records' futures; the next batch is sent
            outcomes = [ended(error)] * len(batch)
        except BaseException as error:
            await self._settle(batch, [ended(error)] * len(batch), taken)
            raise
        await self._settle(batch, outcomes, taken)

    async def _settle(self, batch: list[Entry], outcomes: list[Outcome], taken: int) -> None:
        for one, outcome in zip(batch, outcomes, strict=True):
            if one.future.cancelled():
                continue
            if isinstance(outcome, SeglogError):
                one.future.set_exception(outcome)
                one.future.exception()  # `flush` reports it too, so asyncio need not
            else:
                one.future.set_result(outcome)
        async with self._settled:
            self._tally.settle(outcomes)
            self._tally.done += taken - len(batch)  # the cancelled ones
            self._settled.notify_all()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
