"""The client of asyncio programs: `async with seglog.AsyncClient(url) as client`. As `client`, every call awaited."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from seglog.client import calls, flows, group_calls
from seglog.client.async_consumer import AsyncRemoteConsumer
from seglog.client.async_driver import AsyncDriver
from seglog.client.async_producer import AsyncProducer
from seglog.client.async_topic import AsyncRemoteTopic
from seglog.client.origin import Origin, Verify
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from types import TracebackType

    import httpx

    from seglog.client.call import Call
    from seglog.client.facts import Ack, TopicInfo
    from seglog.config import LogConfig, Retention
    from seglog.topic.groups import GroupState
    from seglog.topic.groups.consumer import TopicBatch
    from seglog.topic.groups.position import Start
    from seglog.topic.positions import Positions

T = TypeVar("T")


class AsyncClient(Uncopied):
    """A `seglog serve` somewhere, for asyncio; as `Client`. Any number of tasks of one event loop may use it."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:3000",
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 8,
        verify: Verify = True,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """timeout: seconds for connecting and for each wait for bytes. verify: for https; False, a file, an SSLContext.

        transport: another of httpx's, e.g. httpx.AsyncHTTPTransport(proxy=...). InvalidArgument. Nothing is sent yet.
        """
        self._driver = AsyncDriver(Origin(url, token=token, timeout=timeout), verify=verify, transport=transport)
        self._retries = flows.Retries(retries)
        self._once = flows.once_keys()

    # --- topics -------------------------------------------------------------------------------------------------

    async def health(self) -> dict[str, Any]:
        """Return how the server is: {"status": "ok", ...}."""
        return await self._call(calls.health())

    async def topics(self) -> list[TopicInfo]:
        """Return all topics that the token has a right on, but for those in `failed_topics`."""
        return await self._call(calls.topics())

    async def failed_topics(self) -> dict[str, str]:
        """Return the topics that the server cannot open, damaged ones say: name -> why."""
        return await self._call(calls.failed_topics())

    async def create_topic(
        self, name: str, *, partitions: int = 1, config: LogConfig | None = None
    ) -> AsyncRemoteTopic:
        """Create a topic and return it. TopicExists."""
        await self._call(calls.create_topic(name, partitions, config))
        return self.topic(name)

    def topic(self, name: str) -> AsyncRemoteTopic:
        """Return a topic, whether it is there or not: its calls raise TopicNotFound."""
        return AsyncRemoteTopic(name, self._driver, self._retries, self._once)

    async def alter_retention(self, name: str, retention: Retention) -> TopicInfo:
        """Give a topic another retention and return the topic as it is now. TopicNotFound."""
        return await self._call(calls.alter_retention(name, retention))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records. TopicNotFound."""
        await self._call(calls.delete_topic(name))

    async def fetch(
        self,
        positions: Positions,
        *,
        max_records: int = 1000,
        max_bytes: int = 1024 * 1024,
        wait: float = 0.0,
    ) -> tuple[list[TopicBatch], dict[str, dict[int, int]]]:
        """Read from several partitions: return batches, and where to go on (topic -> partition -> offset).

        positions: as what is returned; wait: up to 60 seconds for the first record. OffsetOutOfRange, with topic and
        partition, for a position that is not, or no longer, in its partition.
        """
        options = {"max_records": max_records, "max_bytes": max_bytes}
        return await self._driver.run(flows.fetch(positions, **options, wait=wait, retries=self._retries))

    # --- groups -------------------------------------------------------------------------------------------------

    async def groups(self) -> list[str]:
        """Return the names of all consumer groups whose topics the token may read."""
        return await self._call(group_calls.groups())

    async def group(self, name: str) -> GroupState:
        """Return a group's members, committed offsets and lag. GroupNotFound."""
        return await self._call(group_calls.group(name))

    async def delete_group(self, name: str) -> None:
        """Forget a group. GroupNotFound; GroupConflict while it has members."""
        await self._call(group_calls.delete_group(name))

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        """Return what a group has committed: topic -> partition -> offset to be read next. GroupNotFound."""
        return await self._call(group_calls.committed(group))

    async def commit(self, group: str, offsets: Positions, *, ack: Ack = "appended") -> None:
        """Commit offsets for a group without members, all or none. GroupConflict, OffsetOutOfRange."""
        await self._call(group_calls.commit(group, offsets, member=None, ack=ack))

    # --- streams ------------------------------------------------------------------------------------------------

    def producer(
        self,
        topic: str,
        *,
        batch_bytes: int = 1024 * 1024,
        batch_records: int = 10_000,
        linger: float = 0.005,
        queue_bytes: int = 64 * 1024 * 1024,
        delivery_timeout: float = 120.0,
        ack: Ack = "appended",
    ) -> AsyncProducer:
        """Return a producer: single records, sent together in the background. See `Producer`."""
        return AsyncProducer(
            topic,
            self._driver,
            self._once,
            batch_bytes=batch_bytes,
            batch_records=batch_records,
            linger=linger,
            queue_bytes=queue_bytes,
            delivery_timeout=delivery_timeout,
            ack=ack,
        )

    async def consumer(
        self,
        group: str,
        topics: Iterable[str],
        *,
        start: Start = "earliest",
        session_timeout: float = 30.0,
        share: tuple[int, int] | None = None,
        max_poll_interval: float = 300.0,
    ) -> AsyncRemoteConsumer:
        """Return a consumer that reads topics for a group. See `AsyncRemoteConsumer`."""
        return await AsyncRemoteConsumer.begun(
            self._driver,
            self._retries,
            group,
            topics,
            start=start,
            session_timeout=session_timeout,
            share=share,
            max_poll_interval=max_poll_interval,
        )

    # --- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End all connections; what is under way gets LogClosed. Close producers and consumers before."""
        await self._driver.close()

    async def _call(self, call: Call[T]) -> T:
        return await self._driver.run(flows.retrying(call, self._retries))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
