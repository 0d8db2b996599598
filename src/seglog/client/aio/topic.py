"""A topic on a server, for asyncio: like `topic`, with awaited calls."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from seglog.client import flows, full_values
from seglog.client.models import Ack, Bounds, Page, PartitionInfo, PartitionState, TopicInfo
from seglog.client.requests import append_calls, topic_calls
from seglog.client.requests.call import Call
from seglog.client.requests.topic_calls import MIRROR_SECONDS
from seglog.client.retrying import Retries, retrying
from seglog.client.topic import BATCH_BYTES
from seglog.client.upload import upload
from seglog.config import Expose
from seglog.record import Header, Record, Share, Timestamp, TopicRecord, checked_share
from seglog.serializers import AnyRecord, Serializers

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.client.aio.driver import AsyncDriver

T = TypeVar("T")


class AsyncRemoteTopic:
    """A topic on a server, for asyncio; as `RemoteTopic`. Get it from `AsyncClient.topic`."""

    def __init__(
        self,
        name: str,
        driver: AsyncDriver,
        retries: Retries,
        once: Callable[[], str],
        expose: Expose = "appended",
        serializers: Serializers | None = None,
    ) -> None:
        self.name = name
        self.expose: Expose = topic_calls.checked_expose(expose)
        self._driver, self._retries, self._once = driver, retries, once
        self._serializers = serializers

    # --- appending ------------------------------------------------------------------------------------------------

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
        ack: Ack = "appended",
        copies: int = 1,
        wait: float = MIRROR_SECONDS,
    ) -> tuple[int, int]:
        """Append one record and return (partition, offset); as RemoteTopic.append. value None: a tombstone."""
        if self._serializers is not None:
            key, value = self._serializers.serialized(self.name, key, value, partition)
        call = append_calls.append(
            self.name,
            value,
            key=key,
            timestamp=timestamp,
            force_timestamp=force_timestamp,
            headers=headers,
            partition=partition,
            expected_offset=expected_offset,
            once=self._once() if once is None else once,
            ack=topic_calls.acknowledgement(ack, copies, wait),
        )
        return await self._call(call)

    async def append_stream(
        self,
        chunks: Any,
        *,
        key: Any = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        partition: int | None = None,
        once: str | None = None,
        ack: Ack = "appended",
        copies: int = 1,
        wait: float = MIRROR_SECONDS,
    ) -> tuple[int, int]:
        """Append one record with a streamed value; as RemoteTopic.append_stream, also from async sources."""
        if self._serializers is not None:
            key = self._serializers.serialized_key(self.name, key, partition)
        call = append_calls.append_stream(
            self.name,
            upload(chunks, limit=limit),
            key=key,
            timestamp=timestamp,
            force_timestamp=force_timestamp,
            headers=headers,
            partition=partition,
            once=self._once() if once is None else once,
            ack=topic_calls.acknowledgement(ack, copies, wait),
        )
        return await self._call(call)

    async def append_batch(
        self,
        data: pa.Table | pa.RecordBatch,
        *,
        partition: int | None = None,
        once: str | None = None,
        ack: Ack = "appended",
        copies: int = 1,
        wait: float = MIRROR_SECONDS,
        batch_bytes: int = BATCH_BYTES,
        force_timestamp: bool = False,
    ) -> dict[int, range]:
        """Append rows and return partition -> their offsets; as RemoteTopic.append_batch."""
        once = self._once() if once is None else once
        asked = topic_calls.acknowledgement(ack, copies, wait)
        options: dict[str, Any] = {"partition": partition, "once": once, "ack": asked, "most": batch_bytes}
        options["force_timestamp"] = force_timestamp
        return await self._driver.run(flows.append_batch(self.name, data, **options, retries=self._retries))

    # --- reading --------------------------------------------------------------------------------------------------

    async def read(self, partition: int, offset: int) -> Record:
        """Return one record; as RemoteTopic.read. Raises OffsetOutOfRange, OffsetCompacted, NotDurableYet."""
        record = await self._driver.run(full_values.read(self.name, partition, offset, self._retries, self.expose))
        return self._deserialized(record, partition)

    async def records(self, partition: int, start: int | None = None, stop: int | None = None) -> AsyncIterator[Record]:
        """Iterate over a range of a partition, page by page; by default over everything present now."""
        from seglog.client import arrow  # noqa: PLC0415 - imports pyarrow only when needed

        async for batch in self.batches(partition, start, stop):
            for record in arrow.records(batch):
                yield self._deserialized(record, partition)

    async def batches(
        self, partition: int, start: int | None = None, stop: int | None = None
    ) -> AsyncIterator[pa.RecordBatch]:
        """Iterate over a range as Arrow batches; columns as in `Log.batches`, plain binary."""
        async for page in self.pages(partition, start, stop):
            for batch in page.batches:
                yield batch

    def pages(self, partition: int, start: int | None = None, stop: int | None = None) -> AsyncIterator[Page]:
        """Iterate over a range, one page per request, each with the identity and epoch of its log."""
        return self._driver.iterate(flows.pages(self.name, partition, start, stop, self._retries, self.expose))

    async def to_arrow(self, partition: int, start: int | None = None, stop: int | None = None) -> pa.Table:
        """Return a range as one table."""
        from seglog.client import arrow  # noqa: PLC0415 - as above

        return arrow.joined([batch async for batch in self.batches(partition, start, stop)])

    async def follow(
        self,
        partition: int | None = None,
        start: str | int | Mapping[int, int] = "latest",
        *,
        share: Share | None = None,
    ) -> AsyncIterator[TopicRecord]:
        """Iterate over records as they are appended, forever, across lost connections; as RemoteTopic.follow."""
        flow = flows.follow(self.name, partition, start, self._retries, self.expose, checked_share(share))
        async for records in self._driver.iterate(flow):
            for record in records:
                yield self._deserialized(record, record.partition)

    async def offset_at(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> dict[int, int | None]:
        """Return partition -> the first offset at or after a time, None if there is none; as Log.offset_at."""
        return await self._call(
            topic_calls.offset_at(self.name, timestamp, self.expose, force_timestamp=force_timestamp)
        )

    async def with_key(self, key: Any, max_records: int = 100) -> list[Record]:
        """Return the last records of a key, newest last; the server reads the key's whole partition."""
        if self._serializers is not None:
            key = self._serializers.serialized_key(self.name, key)
        found = await self._driver.run(full_values.with_key(self.name, key, max_records, self._retries, self.expose))
        return [self._deserialized(record, partition) for partition, record in found]

    # --- facts and maintenance ------------------------------------------------------------------------------------

    async def info(self) -> TopicInfo:
        """Return the topic's description. Raises TopicNotFound."""
        return await self._call(topic_calls.topic(self.name))

    async def bounds(self) -> dict[int, Bounds]:
        """Return partition -> its lowest, next and durable offset."""
        return await self._call(topic_calls.bounds(self.name))

    async def states(self) -> dict[int, PartitionState]:
        """Return partition -> its bounds, and the identity and version of its log."""
        return await self._call(topic_calls.states(self.name))

    async def partition(self, number: int) -> PartitionInfo:
        """Return one partition and its segments at one moment."""
        return await self._call(topic_calls.partition(self.name, number))

    async def truncate(self, partition: int, offset: int) -> int:
        """Remove a partition's records from `offset` on; return its next offset."""
        return await self._call(topic_calls.truncate(self.name, partition, offset))

    async def delete_before(self, partition: int, offset: int) -> int:
        """Delete a partition's records before `offset`; as RemoteTopic.delete_before."""
        return await self._call(topic_calls.delete_before(self.name, partition, offset))

    async def compact(self, partition: int | None = None) -> dict[int, Any]:
        """Compact one partition by key, or all of them, now; return by partition what was done."""
        return await self._call(topic_calls.care(self.name, "compact", partition))

    async def expire(self, partition: int | None = None) -> dict[int, Any]:
        """Delete what retention no longer keeps, in one partition or in all; return by partition what was done."""
        return await self._call(topic_calls.care(self.name, "expire", partition))

    async def _call(self, call: Call[T]) -> T:
        return await self._driver.run(retrying(call, self._retries))

    def _deserialized(self, record: AnyRecord, partition: int) -> AnyRecord:
        if self._serializers is None:
            return record
        return self._serializers.deserialized(record, self.name, partition)

    def __repr__(self) -> str:
        return f"AsyncRemoteTopic({self.name!r})"
