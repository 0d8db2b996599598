"""A broker with awaited calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from seglog.aio.consumer import AsyncConsumer
from seglog.aio.jobs import Job, Parameters, Result, outcome, run_on, writing_thread
from seglog.aio.log import AsyncLog
from seglog.aio.opening import open_patiently
from seglog.aio.topic import AsyncTopic
from seglog.clock import Clock, system_clock
from seglog.config import Expose, LogConfig
from seglog.deprecated import TopicsAlteredByName
from seglog.errors import LogClosed, LogPoisoned, SeglogError
from seglog.format.manifest import Role
from seglog.policies import Policies
from seglog.serializers import Deserialize, Serialize, serializers_of
from seglog.storage import Storage
from seglog.topic.broker import Broker
from seglog.topic.groups import Groups
from seglog.topic.groups.position import Start
from seglog.topic.topic import Topic
from seglog.uncopied import Uncopied


class AsyncBroker(TopicsAlteredByName, Uncopied):
    """Topics and consumer groups below one directory; the calls of `Broker`, awaited, with the same errors.

    `async with await AsyncBroker.open(root) as broker`. `broker` is the underlying broker.
    """

    def __init__(self, broker: Broker, *, thread: ThreadPoolExecutor | None = None) -> None:
        """thread: makes the calls of the broker; None: a new one."""
        self.broker = broker
        self._thread = writing_thread() if thread is None else thread
        self._topics: dict[str, AsyncTopic] = {}
        self._closing: Job[None] | None = None

    @classmethod
    async def open(
        cls,
        root: str | os.PathLike[str] | Storage,
        *,
        mode: Literal["a", "r"] = "a",
        expose: Expose = "appended",
        clock: Clock = system_clock,
        wait: float | None = None,
        archive: str | None = None,
    ) -> Self:
        """Open a directory of topics; arguments and errors as of `Broker`. A cancelled call leaves none open."""
        thread = writing_thread()
        broker = await open_patiently(
            thread, partial(Broker, root, mode=mode, expose=expose, clock=clock, archive=archive), wait
        )
        return cls(broker, thread=thread)

    @property
    def root(self) -> Path:
        """The directory."""
        return self.broker.root

    @property
    def recovered(self) -> tuple[str, ...]:
        """What opening had to correct, as text; empty after a clean shutdown."""
        return self.broker.recovered

    # --- topics ---------------------------------------------------------------------------------------------------

    async def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        return await self._run(self.broker.topics)

    async def topic(
        self,
        name: str,
        *,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> AsyncTopic:
        """Return a topic; without serializers the same object until it is closed or deleted; as Broker.topic."""
        serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        topic = self._awaited(await self._run(self.broker.topic, name))
        return topic if serializers is None else topic.with_serializers(**serializers._asdict())

    def if_open(self, name: str) -> AsyncTopic | None:
        """Return a topic that is already open, else None; as Broker.if_open."""
        topic = self.broker.if_open(name)
        return None if topic is None else self._awaited(topic)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        config: LogConfig | None = None,
        policies: Policies | None = None,
    ) -> AsyncTopic:
        """Create a topic durably and return it; as Broker.create_topic."""
        create = partial(self.broker.create_topic, name, partitions=partitions, config=config, policies=policies)
        return self._awaited(await self._run(create))

    async def add_partitions(self, name: str, partitions: int) -> None:
        """Raise the number of a topic's partitions, durably; as Broker.add_partitions."""
        await self._run(self.broker.add_partitions, name, partitions)

    async def alter_topic(self, /, name: str, **changes: Any) -> None:
        """Change settings of a topic by one commit; as Broker.alter_topic."""
        await self._run(partial(self.broker.alter_topic, name, **changes))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and committed offsets; as Broker.delete_topic."""
        await self._run(self.broker.delete_topic, name)
        gone = self._topics.get(name)
        if gone is not None and gone.topic.closed:
            del self._topics[name]
            gone._close_soon()  # ends its threads; what waits gets LogClosed

    def _awaited(self, topic: Topic) -> AsyncTopic:
        known = self._topics.get(topic.name)
        if known is None or known.topic is not topic or known.closed:
            if known is not None:
                known._close_soon()
            known = self._topics[topic.name] = AsyncTopic(topic)
        return known

    # --- groups ---------------------------------------------------------------------------------------------------

    @property
    def lineage(self) -> tuple[str, Role]:
        """The id of the log of groups, which copies of this directory share, and its role; as Broker.lineage."""
        return self.broker.lineage

    @property
    async def groups(self) -> Groups:
        """The consumer groups, whose calls block; awaited, since a reading broker loads them: `await broker.groups`."""
        return await self._run(lambda: self.broker.groups)

    async def consumer(
        self,
        group: str,
        topics: Iterable[str],
        *,
        start: Start = "earliest",
        session_timeout: float = 30.0,
        share: tuple[int, int] | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> AsyncConsumer:
        """Return a consumer of topics for a group; as Broker.consumer."""
        self._check_open()
        make = partial(
            self.broker.consumer,
            group,
            topics,
            start=start,
            session_timeout=session_timeout,
            share=share,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )
        thread = writing_thread()
        consumer = await open_patiently(thread, make, None)  # a cancelled call leaves the group again
        return AsyncConsumer(consumer, thread=thread)

    # --- all of it ------------------------------------------------------------------------------------------------

    async def logs(self) -> dict[str, AsyncLog]:
        """Return every log by name; as Broker.logs."""
        found = await self._run(self.broker.logs)
        logs: dict[str, AsyncLog] = {}
        for name, log in found.items():
            topic, _, number = name.partition("/")
            logs[name] = self._awaited(self.broker.topic(topic)).partition(int(number)) if number else AsyncLog(log)
        return logs

    async def free_bytes(self) -> int:
        """Return the free bytes on the file system of the topics."""
        return await self._run(self.broker.free_bytes)

    @property
    def failed(self) -> dict[str, SeglogError]:
        """The topics that could not be opened at the last try, with the error."""
        return self.broker.failed

    @property
    def poisoned(self) -> dict[str, LogPoisoned]:
        """The logs that reject writes until they are opened again, by the names of `logs`, with the error."""
        return self.broker.poisoned

    @property
    def unpublished(self) -> dict[str, SeglogError]:
        """The committed transactions whose records cannot be appended, by their files, with the error."""
        return self.broker.unpublished

    async def sync(self) -> None:
        """Make everything that was appended and committed so far durable."""
        await self._run(self.broker.sync)

    async def close(self) -> None:
        """Write what waits, sync and close every topic and the groups; all are closed even if one fails.

        A cancelled call stops waiting; the broker is closed nevertheless.
        """
        if self._closing is None:
            parts = [topic._close_soon() for topic in self._topics.values()]
            self._closing = self._thread.submit(self._close_after, parts)
            self._thread.shutdown(wait=False)
        await outcome(self._closing)

    def _close_after(self, parts: list[Job[None]]) -> None:
        wait_for(parts)
        self.broker.close()
        for part in parts:
            part.result()

    async def _run(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        self._check_open()
        return await run_on(self._thread, call, *args, **options)

    def _check_open(self) -> None:
        if self._closing is not None:
            raise LogClosed(f"{self.root}: the broker is closed; open it again")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncBroker of {self.broker!r}>"
