"""The client for asyncio: `async with seglog.AsyncClient(url) as client`. Like `client`, with awaited calls."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import httpx

from seglog.client import flows
from seglog.client.aio.consumer import AsyncRemoteConsumer
from seglog.client.aio.driver import AsyncDriver
from seglog.client.aio.producer import AsyncProducer
from seglog.client.aio.topic import AsyncRemoteTopic
from seglog.client.endpoint import Origin, Verify
from seglog.client.models import Ack, TopicInfo
from seglog.client.requests import group_calls, kafka_calls, topic_calls
from seglog.client.requests.call import Call
from seglog.client.retrying import Retries, once_keys, retrying
from seglog.config import Expose, LogConfig
from seglog.deprecated import TopicsAlteredByName
from seglog.policies import Policies
from seglog.serializers import Deserialize, Serialize, serializers_of
from seglog.topic.groups import GroupState
from seglog.topic.groups.position import Start
from seglog.topic.positions import Positions
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from seglog.topic.groups.consumer import TopicBatch

T = TypeVar("T")


class AsyncClient(TopicsAlteredByName, Uncopied):
    """A client of `seglog serve` for asyncio; as `Client`. Any number of tasks of one event loop may use it."""

    def __init__(
        self,
        url: str = "http://127.0.0.1:3000",
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 8,
        verify: Verify = True,
        expose: Expose = "appended",
        term: str | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        """Create a client; nothing is sent yet. Arguments and errors as in `Client`.

        Args:
            url: The server's address.
            expose: Which records topics, consumers and `fetch` of this client read: "appended", all of them;
                "durable", only those that survive power loss.
            token: A bearer token, if the server requires one.
            timeout: Seconds to connect, and for each wait for bytes.
            retries: How often to retry a request.
            verify: How to check an https certificate: False, a CA file, or an ssl.SSLContext.
            term: The highest term that is known, from `term` of another client: a server that has a lower one was
                replaced as leader, and stops accepting records when it sees this one.
            transport: Another httpx transport, e.g. httpx.AsyncHTTPTransport(proxy=...).

        Raises:
            InvalidArgument: the URL, token or timeout is invalid.
        """
        self._driver = AsyncDriver(
            Origin(url, token=token, timeout=timeout, term=term), verify=verify, transport=transport
        )
        self._retries = Retries(retries)
        self._once = once_keys()
        self._expose = topic_calls.checked_expose(expose)

    @property
    def term(self) -> str | None:
        """The highest term that answers of the server, or `term`, had; None before a promotion.

        Every request carries it. Pass it to clients of other servers of the same topics.
        """
        return self._driver.term

    # --- topics -------------------------------------------------------------------------------------------------

    async def health(self) -> dict[str, Any]:
        """Return the server's health: {"status": "ok", ...}."""
        return await self._call(topic_calls.health())

    async def topics(self) -> list[TopicInfo]:
        """Return all topics that the token has a right on, except those in `failed_topics`."""
        return await self._call(topic_calls.topics())

    async def failed_topics(self) -> dict[str, str]:
        """Return the topics that the server cannot open, e.g. damaged ones: name -> reason."""
        return await self._call(topic_calls.failed_topics())

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        config: LogConfig | None = None,
        policies: Policies | None = None,
    ) -> AsyncRemoteTopic:
        """Create a topic and return it; as Client.create_topic."""
        await self._call(topic_calls.create_topic(name, partitions, config, policies))
        return self.topic(name)

    def topic(
        self,
        name: str,
        *,
        expose: Expose | None = None,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> AsyncRemoteTopic:
        """Return a topic, which may not exist: its calls raise TopicNotFound.

        Args:
            name: The topic's name.
            expose: Which records to read; None: as the client.
            key_serializer, value_serializer: A serializer of `seglog.serializers`, or a function that returns bytes,
                for what is appended; None: bytes.
            key_deserializer, value_deserializer: A serializer, or a function of bytes, for records that are read one by
                one; None: bytes. Batches, pages and tables keep bytes.
        """
        serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        return AsyncRemoteTopic(name, self._driver, self._retries, self._once, self._shown(expose), serializers)

    async def alter_topic(self, name: str, **changes: Any) -> TopicInfo:
        """Change settings of a topic and return its new state; as Client.alter_topic."""
        return await self._call(topic_calls.alter_topic(name, changes))

    async def add_partitions(self, name: str, partitions: int) -> TopicInfo:
        """Raise a topic's number of partitions and return its new state; as Client.add_partitions."""
        return await self._call(topic_calls.add_partitions(name, partitions))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records; as Client.delete_topic."""
        await self._call(topic_calls.delete_topic(name))

    async def fetch(
        self,
        positions: Positions,
        *,
        max_records: int = 1000,
        max_bytes: int = 1024 * 1024,
        wait: float = 0.0,
        expose: Expose | None = None,
    ) -> tuple[list[TopicBatch], dict[str, dict[int, int]]]:
        """Read from several partitions; return batches and the next positions; as Client.fetch.

        Args:
            positions: topic -> partition -> the next offset to read, as returned.
            max_records: The most records to return.
            max_bytes: About the most bytes of records to return.
            wait: Seconds, up to 60, to wait for the first record.
            expose: Which records to read; None: as the client.

        Raises:
            OffsetOutOfRange: a partition does not hold the position; the error has `topic` and `partition`.
        """
        options = {"max_records": max_records, "max_bytes": max_bytes}
        shown = self._shown(expose)
        flow = flows.fetch(positions, **options, wait=wait, retries=self._retries, expose=shown)
        return await self._driver.run(flow)

    # --- groups -------------------------------------------------------------------------------------------------

    async def groups(self) -> list[str]:
        """Return the names of all consumer groups that the token may use."""
        return await self._call(group_calls.groups())

    async def group(self, name: str) -> GroupState:
        """Return a group's members, committed offsets and lag; as Client.group."""
        return await self._call(group_calls.group(name))

    async def delete_group(self, name: str) -> None:
        """Delete a group and its committed offsets; as Client.delete_group."""
        await self._call(group_calls.delete_group(name))

    async def committed(self, group: str) -> dict[str, dict[int, int]]:
        """Return a group's committed offsets: topic -> partition -> the next offset to read; as Client.committed."""
        return await self._call(group_calls.committed(group))

    async def commit(self, group: str, offsets: Positions, *, ack: Ack = "appended") -> None:
        """Commit offsets for a group without members, all or none; as Client.commit."""
        await self._call(group_calls.commit(group, offsets, member=None, ack=ack))

    # --- for operators ------------------------------------------------------------------------------------------

    async def copies(self) -> dict[str, Any]:
        """Return the copies of the server's topics, with what each lacks, and what the server copies itself."""
        return await self._call(topic_calls.copies())

    async def kafka_connections(self, *, after: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Return a page of the connections of Kafka's clients; needs admin on all topics."""
        return await self._call(kafka_calls.listed("connections", after, limit))

    async def kafka_groups(self, *, after: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Return a page of the groups with members that are Kafka's clients; as `kafka_connections`."""
        return await self._call(kafka_calls.listed("groups", after, limit))

    async def kafka_producers(self, *, after: str | None = None, limit: int = 50) -> dict[str, Any]:
        """Return a page of the transactional ids, open transactions first; as `kafka_connections`."""
        return await self._call(kafka_calls.listed("producers", after, limit))

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
        copies: int = 1,
        wait: float = topic_calls.MIRROR_SECONDS,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
    ) -> AsyncProducer:
        """Return a producer, which batches single records in the background. See `Producer` for the arguments."""
        return AsyncProducer(
            topic,
            self._driver,
            self._once,
            batch_bytes=batch_bytes,
            batch_records=batch_records,
            linger=linger,
            queue_bytes=queue_bytes,
            delivery_timeout=delivery_timeout,
            ack=topic_calls.acknowledgement(ack, copies, wait),
            serializers=serializers_of(key_serializer, value_serializer),
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
        expose: Expose | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> AsyncRemoteConsumer:
        """Return a consumer that reads topics for a group; see `AsyncRemoteConsumer`. expose: None: as the client's."""
        return await AsyncRemoteConsumer.begun(
            self._driver,
            self._retries,
            group,
            topics,
            start=start,
            session_timeout=session_timeout,
            share=share,
            max_poll_interval=max_poll_interval,
            expose=self._shown(expose),
            serializers=serializers_of(None, None, key_deserializer, value_deserializer),
        )

    # --- the end ------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Close all connections; running calls raise LogClosed. Close producers and consumers first."""
        await self._driver.close()

    async def _call(self, call: Call[T]) -> T:
        return await self._driver.run(retrying(call, self._retries))

    def _shown(self, expose: Expose | None) -> Expose:
        return self._expose if expose is None else topic_calls.checked_expose(expose)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
