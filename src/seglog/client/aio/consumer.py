"""The consumer of `AsyncClient`: like `consumer`, with a task instead of the thread."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from seglog.client.consuming import MAX_BYTES, MAX_RECORDS, Reading
from seglog.client.retrying import Retries
from seglog.config import Expose
from seglog.errors import SeglogError
from seglog.record import Timestamp, TopicRecord
from seglog.serializers import Serializers
from seglog.topic.groups.deserializing import deserialized
from seglog.topic.groups.position import Start
from seglog.topic.layout.places import Partition
from seglog.topic.positions import Positions
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from seglog.client.aio.driver import AsyncDriver
    from seglog.topic.groups.consumer import TopicBatch


class AsyncRemoteConsumer(Uncopied):
    """Reads topics for a group; as `RemoteConsumer`. Get it from `AsyncClient.consumer`; one task at a time."""

    def __init__(self, driver: AsyncDriver, reading: Reading, serializers: Serializers | None = None) -> None:
        self._driver, self._reading, self._serializers = driver, reading, serializers
        self._keeper: asyncio.Task[None] | None = None

    @classmethod
    async def begun(
        cls,
        driver: AsyncDriver,
        retries: Retries,
        group: str,
        topics: Iterable[str],
        *,
        start: Start,
        session_timeout: float,
        share: tuple[int, int] | None,
        max_poll_interval: float,
        expose: Expose = "appended",
        serializers: Serializers | None = None,
    ) -> Self:
        """Join the group and return the consumer; arguments and errors as in `RemoteConsumer`."""
        reading = Reading(
            group,
            topics,
            start=start,
            session_timeout=session_timeout,
            share=share,
            max_poll_interval=max_poll_interval,
            expose=expose,
            retries=retries,
        )
        await driver.run(reading.begin())
        consumer = cls(driver, reading, serializers)
        if share is None:
            consumer._keeper = asyncio.create_task(consumer._keep_alive())
        return consumer

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The assigned (topic, partition) pairs, in order."""
        return self._reading.cursor.assignment

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the next offset to read."""
        return self._reading.cursor.positions

    async def poll(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicRecord]:
        """Return the next records; as RemoteConsumer.poll."""
        from seglog.client import arrow  # noqa: PLC0415 - imports pyarrow only when needed

        batches = await self.poll_batches(max_records=max_records, max_bytes=max_bytes, timeout=timeout)
        records = [record for batch in batches for record in arrow.topic_records(batch)]
        return deserialized(records, self._serializers, self._reading.cursor)

    async def poll_batches(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicBatch]:
        """Return the next records as Arrow, one or more batches per partition."""
        if self._keeper is not None and self._keeper.done():
            self._keeper = asyncio.create_task(self._keep_alive())
        return await self._driver.run(self._reading.poll(max_records, max_bytes, timeout))

    async def commit(self, offsets: Positions | None = None, *, durable: bool = False) -> None:
        """Commit offsets, by default of everything poll has returned; as RemoteConsumer.commit."""
        await self._driver.run(self._reading.commit(offsets, "durable" if durable else "appended"))

    async def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at another offset of an assigned partition; as RemoteConsumer.seek."""
        await self._driver.run(self._reading.seek(topic, partition, offset))

    async def seek_to_time(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> None:
        """Continue at the first record at or after a time; as RemoteConsumer.seek_to_time."""
        await self._driver.run(self._reading.seek_to_time(timestamp, force_timestamp=force_timestamp))

    async def lag(self) -> dict[Partition, int]:
        """Return how many records remain in each assigned partition."""
        return await self._driver.run(self._reading.lag())

    async def close(self) -> None:
        """Leave the group, so that others continue immediately; commits nothing. Closing twice is harmless."""
        if self._reading.closed:
            return
        if self._keeper is not None:
            self._keeper.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._keeper
        await self._driver.run(self._reading.leave())

    async def _keep_alive(self) -> None:
        while (silence := self._reading.silence()) is not None:
            await asyncio.sleep(silence)
            with contextlib.suppress(SeglogError):  # the next poll gets the same error and can handle it
                await self._driver.run(self._reading.keep_alive())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
