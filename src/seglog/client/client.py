"""The client as programs hold it: `with seglog.Client(url) as client`. Thin: every call is a flow that is driven."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from seglog.client import calls, flows, group_calls
from seglog.client.consumer import RemoteConsumer
from seglog.client.driver import Driver
from seglog.client.origin import Origin, Verify
from seglog.client.producer import Producer
from seglog.client.topic import RemoteTopic
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


class Client(Uncopied):
    """A `seglog serve` somewhere. A context manager, safe for threads; connections are kept and shared.

    What is refused raises the same error as without a server, with the same attributes. A lost connection, a server
    that restarts or has no room are met by trying again, `retries` times with growing pauses (about 10 s in all), then
    ConnectionFailed or Busy is raised; an append that is tried again is stored once. Unauthorized, Forbidden.
    """

    def __init__(
        self,
        url: str = "http://127.0.0.1:3000",
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retries: int = 8,
        verify: Verify = True,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """timeout: seconds for connecting and for each wait for bytes. verify: for https; False, a file, an SSLContext.

        transport: another of httpx's, e.g. httpx.HTTPTransport(proxy=...). InvalidArgument. Nothing is sent yet.
        """
        self._driver = Driver(Origin(url, token=token, timeout=timeout), verify=verify, transport=transport)
        self._retries = flows.Retries(retries)
        self._once = flows.once_keys()

    # --- topics -------------------------------------------------------------------------------------------------

    def health(self) -> dict[str, Any]:
        """Return how the server is: {"status": "ok", ...}."""
        return self._call(calls.health())

    def topics(self) -> list[TopicInfo]:
        """Return all topics that the token has a right on, but for those in `failed_topics`."""
        return self._call(calls.topics())

    def failed_topics(self) -> dict[str, str]:
        """Return the topics that the server cannot open, damaged ones say: name -> why."""
        return self._call(calls.failed_topics())

    def create_topic(self, name: str, *, partitions: int = 1, config: LogConfig | None = None) -> RemoteTopic:
        """Create a topic and return it. TopicExists."""
        self._call(calls.create_topic(name, partitions, config))
        return self.topic(name)

    def topic(self, name: str) -> RemoteTopic:
        """Return a topic, whether it is there or not: its calls raise TopicNotFound."""
        return RemoteTopic(name, self._driver, self._retries, self._once)

    def alter_retention(self, name: str, retention: Retention) -> TopicInfo:
        """Give a topic another retention and return the topic as it is now. TopicNotFound."""
        return self._call(calls.alter_retention(name, retention))

    def delete_topic(self, name: str) -> None:
        """Delete a topic with all its records. TopicNotFound."""
        self._call(calls.delete_topic(name))

    def fetch(
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
        return self._driver.run(flows.fetch(positions, **options, wait=wait, retries=self._retries))

    # --- groups -------------------------------------------------------------------------------------------------

    def groups(self) -> list[str]:
        """Return the names of all consumer groups whose topics the token may read."""
        return self._call(group_calls.groups())

    def group(self, name: str) -> GroupState:
        """Return a group's members, committed offsets and lag. GroupNotFound."""
        return self._call(group_calls.group(name))

    def delete_group(self, name: str) -> None:
        """Forget a group. GroupNotFound; GroupConflict while it has members."""
        self._call(group_calls.delete_group(name))

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        """Return what a group has committed: topic -> partition -> offset to be read next. GroupNotFound."""
        return self._call(group_calls.committed(group))

    def commit(self, group: str, offsets: Positions, *, ack: Ack = "appended") -> None:
        """Commit offsets for a group without members, all or none. GroupConflict, OffsetOutOfRange."""
        self._call(group_calls.commit(group, offsets, member=None, ack=ack))

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
    ) -> Producer:
        """Return a producer: single records, sent together in the background. See `Producer`."""
        return Producer(
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

    def consumer(
        self,
        group: str,
        topics: Iterable[str],
        *,
        start: Start = "earliest",
        session_timeout: float = 30.0,
        share: tuple[int, int] | None = None,
        max_poll_interval: float = 300.0,
    ) -> RemoteConsumer:
        """Return a consumer that reads topics for a group. See `RemoteConsumer`."""
        return RemoteConsumer(
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

    def close(self) -> None:
        """End all connections; what is under way gets LogClosed. Close producers and consumers before."""
        self._driver.close()

    def _call(self, call: Call[T]) -> T:
        return self._driver.run(flows.retrying(call, self._retries))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
