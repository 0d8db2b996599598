"""A topic with awaited calls. Each partition has its own queue of appends; a few threads share them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seglog.aio.jobs import Job, Parameters, Result, outcome, run_on, writing_thread
from seglog.aio.log import AsyncLog
from seglog.aio.loops import running_loop
from seglog.aio.opening import open_patiently
from seglog.aio.spool import SPOOL_BYTES, spool_chunks
from seglog.clock import Clock
from seglog.config import Expose, LogConfig
from seglog.deprecated import AlteredByName
from seglog.errors import LogClosed
from seglog.log.appends.group import Draft
from seglog.log.staging import StagedSegment
from seglog.policies import Policies
from seglog.record import Header, Record, Timestamp
from seglog.serializers import Deserialize, Serialize, serializers_of
from seglog.storage import Storage
from seglog.topic.idempotency.memory import WINDOW, OnceWindow
from seglog.topic.layout.places import Partition
from seglog.topic.opening import Mode
from seglog.topic.partition_writer import PartitionWriter
from seglog.topic.topic import Topic
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import pyarrow as pa

WRITING_THREADS = 8
"""Partitions that are written at the same time, each by a thread."""


class AsyncTopic(AlteredByName, Uncopied):
    """A topic whose calls are awaited: those of `Topic`, with the same arguments and errors.

    `topic` is the underlying topic. Get it from `AsyncTopic.create`, `AsyncTopic.open` or an `AsyncBroker`. An async
    context manager. A call that is cancelled before it began changes nothing; one that has begun goes to its end.
    """

    def __init__(self, topic: Topic) -> None:
        self.topic = topic
        self._parts = _Parts(topic)

    @classmethod
    async def create(
        cls,
        path: str | os.PathLike[str] | Storage,
        *,
        partitions: int,
        config: LogConfig | None = None,
        policies: Policies | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        once_window: OnceWindow = WINDOW,
        wait: float | None = None,
        archive: str | None = None,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> Self:
        """Create a topic and open it for writing; as Topic.create. A cancelled call leaves it closed."""
        options: dict[str, Any] = {
            "config": config,
            "policies": policies,
            "name": name,
            "clock": clock,
            "once_window": once_window,
            "archive": archive,
        }
        serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        topic = await _opened(partial(Topic.create, path, partitions=partitions, **options), wait)
        return cls(topic if serializers is None else topic.with_serializers(**serializers._asdict()))

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str] | Storage,
        *,
        mode: Mode = "a",
        expose: Expose = "appended",
        clock: Clock | None = None,
        once_window: OnceWindow = WINDOW,
        wait: float | None = None,
        archive: str | None = None,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> Self:
        """Open an existing topic; as Topic.open. A cancelled call leaves it closed."""
        options: dict[str, Any] = {
            "mode": mode,
            "expose": expose,
            "clock": clock,
            "once_window": once_window,
            "archive": archive,
        }
        serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        topic = await _opened(partial(Topic.open, path, **options), wait)
        return cls(topic if serializers is None else topic.with_serializers(**serializers._asdict()))

    def with_serializers(
        self,
        *,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> AsyncTopic:
        """Return this topic with other serializers; as Topic.with_serializers."""
        twin = object.__new__(type(self))
        twin._parts = self._parts
        twin.topic = self.topic.with_serializers(
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )
        return twin

    # --- facts ----------------------------------------------------------------------------------------------------

    @property
    def path(self) -> Path:
        """The topic's directory."""
        return self.topic.path

    @property
    def name(self) -> str:
        """The topic's name."""
        return self.topic.name

    @property
    def id(self) -> str:
        """The topic's identity: 32 hex digits, random, set at its creation."""
        return self.topic.id

    @property
    def policies(self) -> Policies:
        """What the topic wants of requests; as Topic.policies."""
        return self.topic.policies

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return self.topic.partitions

    @property
    def closed(self) -> bool:
        """Whether the topic is closed."""
        return self._parts.closing is not None or self.topic.closed

    def partition(self, number: int) -> AsyncLog:
        """Return the log of a partition; the same object at each call. Errors as Topic.partition."""
        return self._parts.partition(number)

    def writer(self, number: int) -> AsyncPartitionWriter:
        """Return the appends of a partition, for callers that keep it; as Topic.writer."""
        return AsyncPartitionWriter(self.topic.writer(number), self)

    def route(self, key: Any, once: str | None = None) -> int:
        """Return the partition for a record; as Topic.route."""
        return self.topic.route(key, once)

    def is_ready(self, partition: int, length: int, once: str | None = None) -> bool:
        """Whether an append of `length` bytes would not block; as Topic.is_ready."""
        return self.topic.is_ready(partition, length, once)

    # --- writing --------------------------------------------------------------------------------------------------

    async def append(
        self,
        value: Any,
        *,
        key: Any = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        expected_offset: int | None = None,
        once: str | None = None,
    ) -> tuple[int, int]:
        """Append one record and return (partition, offset); arguments and errors as in Topic.append."""
        self._check_open()
        draft = Draft(value, key, timestamp, headers, expected_offset, force_timestamp)
        routed = None if once is not None else self.topic._routed(draft, partition)
        if routed is None:
            return await self._run(self.topic.append, **draft._asdict(), partition=partition, once=once)
        number, draft = routed
        return number, await self.partition(number)._queued(draft)

    async def append_stream(
        self,
        chunks: AsyncIterable[bytes] | Iterable[bytes],
        *,
        key: Any = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
        partition: int | None = None,
        once: str | None = None,
        digest: int | None = None,
    ) -> tuple[int, int]:
        """Append one record whose value comes in chunks, also from async sources; as Topic.append_stream.

        The chunks are spooled, as in AsyncLog.append_stream.
        """
        with tempfile.SpooledTemporaryFile(max_size=SPOOL_BYTES) as spool:
            most = self.topic.partition(0).config.store_limit
            spooled = await spool_chunks(chunks, spool, limit, most)
            options: dict[str, Any] = {
                "key": key,
                "timestamp": timestamp,
                "force_timestamp": force_timestamp,
                "headers": headers,
                "limit": limit,
                "length": spooled if length is None else length,
                "partition": partition,
                "once": once,
                "digest": digest,
            }
            return await self._run(self.topic.append_stream, iter(partial(spool.read, SPOOL_BYTES), b""), **options)

    async def append_batch(
        self,
        data: pa.Table | pa.RecordBatch,
        *,
        partition: int | None = None,
        once: str | None = None,
        force_timestamp: bool = False,
    ) -> dict[int, range]:
        """Append rows and return partition -> their offsets; as Topic.append_batch."""
        options: dict[str, Any] = {"partition": partition, "once": once, "force_timestamp": force_timestamp}
        return await self._run(self.topic.append_batch, data, **options)

    # --- reading --------------------------------------------------------------------------------------------------

    async def read(self, partition: int, offset: int) -> Record:
        """Return one record of a partition, deserialized; as Topic.read."""
        return await running_loop().run_in_thread(partial(self.topic.read, partition, offset))

    async def read_many(self, partition: int, offsets: Iterable[int], *, skip_compacted: bool = False) -> list[Record]:
        """Return the records of a partition at these offsets, deserialized; as Topic.read_many."""
        read = partial(self.topic.read_many, partition, offsets, skip_compacted=skip_compacted)
        return await running_loop().run_in_thread(read)

    async def read_keys(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Return the newest record of each key; as Topic.read_keys."""
        return await running_loop().run_in_thread(partial(self.topic.read_keys, keys))

    async def records(self, partition: int, start: int | None = None, stop: int | None = None) -> AsyncIterator[Record]:
        """Iterate over a range of a partition, deserialized; as Topic.records."""
        async for record in self.partition(partition).scan(start, stop):
            yield self.topic._deserialized(record, partition)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export all records as an Arrow stream; blocks while it is read, as it does for `Topic`."""
        return self.topic.__arrow_c_stream__(requested_schema)

    async def publish(
        self, staged: Mapping[int, Sequence[StagedSegment]], *, query: str, batch: int
    ) -> dict[int, range] | None:
        """Add a batch of staged segments atomically; as Topic.publish."""
        return await self._run(self.topic.publish, staged, query=query, batch=batch)

    async def check_staged(self, staged: Mapping[int, Sequence[StagedSegment]]) -> None:
        """Raise, without any change, if any partition would refuse the batch; as Topic.check_staged."""
        await self._run(self.topic.check_staged, staged)

    async def published(self, query: str) -> int | None:
        """Return the number of the last batch published for a query; as Topic.published."""
        return await running_loop().run_in_thread(partial(self.topic.published, query))

    async def add_partitions(self, partitions: int) -> None:
        """Raise the number of partitions, durably; as Topic.add_partitions."""
        await self._run(self.topic.add_partitions, partitions)

    async def alter(self, **changes: Any) -> None:
        """Change settings of every partition by one commit; as Topic.alter."""
        await self._run(partial(self.topic.alter, **changes))

    async def sync(self) -> None:
        """Make everything appended so far durable, in every partition."""
        await running_loop().run_in_thread(self.topic.sync)

    # --- the end --------------------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Write what is waiting, sync and close every partition; all are closed even if one fails.

        A cancelled call stops waiting; the topic is closed nevertheless.
        """
        await outcome(self._close_soon())

    def _close_soon(self) -> Job[None]:
        return self._parts.close_soon()

    async def _run(
        self, call: Callable[Parameters, Result], *args: Parameters.args, **options: Parameters.kwargs
    ) -> Result:
        self._check_open()
        return await run_on(self._parts.thread, call, *args, **options)

    def _check_open(self) -> None:
        if self._parts.closing is not None:
            raise LogClosed(f"{self.topic.path}: the topic is closed; open it again")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"<AsyncTopic of {self.topic!r}>"


class _Parts:
    """The threads and logs of a topic, which all objects of it share."""

    def __init__(self, topic: Topic) -> None:
        self.thread = writing_thread()  # for calls that concern several partitions
        self.closing: Job[None] | None = None
        self._topic = topic
        self._threads = [writing_thread() for _ in range(min(topic.partitions, WRITING_THREADS))]
        self._logs: dict[int, AsyncLog] = {}

    def partition(self, number: int) -> AsyncLog:
        """Return the log of a partition, always the same object."""
        log = self._topic.partition(number)
        found = self._logs.get(number)
        if found is None:
            found = AsyncLog(log, thread=self._threads[number % len(self._threads)], own=False)
            self._logs[number] = found
        return found

    def close_soon(self) -> Job[None]:
        """Have the threads close everything, whatever happens to tasks and loops meanwhile."""
        if self.closing is None:
            parts = [log._close_soon() for log in self._logs.values()]
            self.closing = self.thread.submit(self._close_after, parts)
            for thread in (self.thread, *self._threads):
                thread.shutdown(wait=False)
        return self.closing

    def _close_after(self, parts: list[Job[None]]) -> None:
        wait_for(parts)
        self._topic.close()
        for part in parts:
            part.result()


class AsyncPartitionWriter:
    """The appends of a partition; see `AsyncTopic.writer`.

    Attributes:
        place: Name of the topic, and number of the partition.
        log: The partition's log.
    """

    def __init__(self, writer: PartitionWriter, topic: AsyncTopic) -> None:
        self.place: Partition = writer.place
        self.log = topic.partition(writer.place[1])
        self._writer = writer
        self._topic = topic

    def is_ready(self, length: int, once: str | None = None) -> bool:
        """Whether `append` of `length` bytes would not block; as PartitionWriter.is_ready."""
        return self._writer.is_ready(length, once)

    async def append(self, draft: Draft, once: str | None = None, *, durable: bool = False) -> tuple[int, int]:
        """Append one record and return (partition, offset); as PartitionWriter.append."""
        self._topic._check_open()
        return await run_on(self.log._thread, self._writer.append, draft, once, durable=durable)

    async def sync(self) -> None:
        """Return once every record of the partition survives power loss."""
        await self.log.sync()


async def _opened(attempt: Callable[[], Topic], wait: float | None) -> Topic:
    """Open a topic on a thread, which is not used afterwards."""
    thread: ThreadPoolExecutor = writing_thread()
    try:
        return await open_patiently(thread, attempt, wait)
    finally:
        thread.shutdown(wait=False)
