"""A topic on a server: the calls of `seglog.topic.Topic` over HTTP. Thin: the requests are in calls and flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import chain
from typing import TYPE_CHECKING, Any, TypeVar

from seglog.client import flows, full_values
from seglog.client.models import Ack, Bounds, Page, PartitionInfo, PartitionState, TopicInfo
from seglog.client.requests import append_calls, topic_calls
from seglog.client.requests.call import Call
from seglog.client.requests.topic_calls import MIRROR_SECONDS
from seglog.client.retrying import Retries, retrying
from seglog.client.upload import upload
from seglog.config import Expose
from seglog.record import Header, Record, Share, Timestamp, TopicRecord, checked_share
from seglog.serializers import AnyRecord, Serializers

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.client.driver import Driver

T = TypeVar("T")

BATCH_BYTES = 16 * 1024 * 1024


class RemoteTopic:
    """A topic on a server, from `Client.topic`. Thread-safe.

    Arguments of all appends:
        once: An idempotency key, 1 to 200 printable ASCII characters: an append repeated with the same key is stored
        once.
            By default each call has its own key, for its own retries. The first record of an append carries the key in
            its header "seglog-once".
        ack: "appended": return when readers can see it; "durable": when it survives power loss; "archived": when the
            server's archive has it, too; "mirrored": when `copies` copies of the server have it on their disks, too.
        copies, wait: With "mirrored": how many copies, and seconds (up to 60) to wait for them; after that NotMirrored
            is raised, and the record stays. A repetition with the same `once` waits again.

    Every call raises TopicNotFound and the errors of `Client`. With deserializers, `read`, `records`, `follow` and
    `with_key` raise SerializationError for a record that they refuse; continue at its `offset` + 1 to skip it.

    expose, of all that reads: "appended", all records; "durable", those that survive power loss: `read` of another one
    raises NotDurableYet, a range ends before it, `follow` waits for the sync.
    """

    def __init__(
        self,
        name: str,
        driver: Driver,
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

    def append(
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
        """Append one record and return (partition, offset), as Topic.append does.

        Args:
            value: The value; None for a tombstone.
            key: The key, which determines the partition.
            timestamp: Microseconds since the epoch, or a datetime with a time zone; default: the server's time.
            force_timestamp: Take a number that looks like seconds or milliseconds as it is; see Log.append.
            headers: (name, value) pairs.
            partition: Overrides the key's partition.
            expected_offset: Append only at this offset; needs `partition` unless the topic has one only.
            once: See the class.
            ack, copies, wait: See the class.

        Raises:
            OffsetConflict: the next offset is not expected_offset.
            OnceConflict: `once` was used for another payload.
            KeyRequired: the topic is compacted by key, and there is no key.
            RecordTooLarge: the record does not fit a segment.
            SerializationError: a serializer refused the key or value; nothing was sent.
        """
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
        return self._call(call)

    def append_stream(
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
        """Append one record whose value is streamed, and return (partition, offset).

        After a lost connection, a seekable file, a list or a tuple is sent again; for any other source ConnectionFailed
        is raised.

        Args:
            chunks: An iterable of bytes, or a binary file, read from its position.
            key, timestamp, force_timestamp, headers, partition, once, ack, copies, wait: As in `append`.
            limit: The most bytes.

        Raises:
            StreamOverflow: the value is longer than limit; nothing is stored.
            ConnectionFailed: the connection was lost and the source cannot be read again.
        """
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
        return self._call(call)

    def append_batch(
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
        """Append rows and return partition -> their offsets, as Topic.append_batch does.

        Rows are sent in requests of up to `batch_bytes`, one after another; the part of a request for one partition is
        appended completely or not at all. With several requests, records of others may be in between: a range is first
        to last offset.

        Args:
            data: Rows with the columns of Log.append_batch.
            partition: The partition of all rows; default: by key.
            once, ack, copies, wait: See the class.
            batch_bytes: The most bytes of one request.
            force_timestamp: As in `append`, for int64 timestamps.

        Raises:
            InvalidType, InvalidArgument: the data has no column `value`, or columns that do not belong in a batch.
        """
        once = self._once() if once is None else once
        asked = topic_calls.acknowledgement(ack, copies, wait)
        options: dict[str, Any] = {"partition": partition, "once": once, "ack": asked, "most": batch_bytes}
        options["force_timestamp"] = force_timestamp
        return self._driver.run(flows.append_batch(self.name, data, **options, retries=self._retries))

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, partition: int, offset: int) -> Record:
        """Return one record.

        Raises:
            OffsetOutOfRange: the partition does not hold the offset.
            OffsetCompacted: a compaction removed the record.
            NotDurableYet: the record is not synced, and the topic shows only synced ones.
        """
        record = self._driver.run(full_values.read(self.name, partition, offset, self._retries, self.expose))
        return self._deserialized(record, partition)

    def records(self, partition: int, start: int | None = None, stop: int | None = None) -> Iterator[Record]:
        """Iterate over a range of a partition, page by page; by default over everything present now.

        Raises:
            SnapshotExpired: As in `pages`.
        """
        from seglog.client import arrow  # noqa: PLC0415 - imports pyarrow only when needed

        for batch in self.batches(partition, start, stop):
            for record in arrow.records(batch):
                yield self._deserialized(record, partition)

    def batches(self, partition: int, start: int | None = None, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        """Iterate over a range as Arrow batches; columns as in `Log.batches`, plain binary. Errors as `pages`."""
        for page in self.pages(partition, start, stop):
            yield from page.batches

    def pages(self, partition: int, start: int | None = None, stop: int | None = None) -> Iterator[Page]:
        """Iterate over a range, one page per request, each with the identity and epoch of its log.

        Raises:
            SnapshotExpired: the range changed meanwhile, and the server no longer keeps it as it was; read it again.
        """
        return self._pages(partition, start, stop)

    def _begin(self, partition: int) -> flows.Begun | None:
        """Read the first record of a partition, and let the server keep the rest as it is; None if there is none."""
        return self._driver.run(flows.begin(self.name, partition, None, None, self._retries, self.expose, most=(1, 1)))

    def _pages(self, partition: int, start: int | None, stop: int | None, snapshot: str = "") -> Iterator[Page]:
        """Iterate over a range as a snapshot shows it, by default the present one."""
        return self._driver.iterate(
            flows.pages(self.name, partition, start, stop, self._retries, self.expose, snapshot)
        )

    def to_arrow(self, partition: int, start: int | None = None, stop: int | None = None) -> pa.Table:
        """Return a range as one table. Errors as `pages`."""
        from seglog.client import arrow  # noqa: PLC0415 - as above

        return arrow.joined(list(self.batches(partition, start, stop)))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export the records that are there now as an Arrow stream, partition by partition, with a column `partition`.

        As `Topic.__arrow_c_stream__`: so that polars, DuckDB and pyarrow read a topic on a server directly. Pages of up
        to 8 MiB are fetched as the stream is taken. Not while the stream is read: `Client.close`.
        """
        from seglog.topic.arrow_stream import stream  # noqa: PLC0415 - pyarrow loads when it is needed

        return stream([self._begun(number) for number in sorted(self.bounds())], requested_schema)

    def _begun(self, partition: int) -> Iterator[pa.RecordBatch]:
        """Return the batches of a partition as it is at this call; all but its first record are read when asked."""
        begun = self._begin(partition)
        if begun is None:
            return iter(())
        rest = self._pages(partition, begun.page.next_offset, begun.stop, begun.snapshot)
        return chain(begun.page.batches, chain.from_iterable(page.batches for page in rest))

    def follow(
        self,
        partition: int | None = None,
        start: str | int | Mapping[int, int] = "latest",
        *,
        share: Share | None = None,
    ) -> Iterator[TopicRecord]:
        """Iterate over records as they are appended, forever, across lost connections.

        Args:
            partition: The partition; default: all.
            start: "latest" (the end at the first iteration), "earliest", partition -> offset, or with `partition` an
                offset.
            share: (i, n): only the records whose offset % n is i; see Log.follow.

        Raises:
            OffsetOutOfRange: records that were not returned yet are gone.
            LogTruncated: returned records no longer belong to the topic: it was truncated, or deleted and created
                again.
        """
        flow = flows.follow(self.name, partition, start, self._retries, self.expose, checked_share(share))
        for records in self._driver.iterate(flow):
            for record in records:
                yield self._deserialized(record, record.partition)

    def offset_at(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> dict[int, int | None]:
        """Return partition -> the first offset at or after a time, None if there is none; as Log.offset_at."""
        return self._call(topic_calls.offset_at(self.name, timestamp, self.expose, force_timestamp=force_timestamp))

    def with_key(self, key: Any, max_records: int = 100) -> list[Record]:
        """Return the last records of a key, newest last; the server reads the key's whole partition."""
        if self._serializers is not None:
            key = self._serializers.serialized_key(self.name, key)
        found = self._driver.run(full_values.with_key(self.name, key, max_records, self._retries, self.expose))
        return [self._deserialized(record, partition) for partition, record in found]

    # --- facts and maintenance ------------------------------------------------------------------------------------

    def info(self) -> TopicInfo:
        """Return the topic's description. Raises TopicNotFound."""
        return self._call(topic_calls.topic(self.name))

    def bounds(self) -> dict[int, Bounds]:
        """Return partition -> its lowest, next and durable offset."""
        return self._call(topic_calls.bounds(self.name))

    def states(self) -> dict[int, PartitionState]:
        """Return partition -> its bounds, and the identity and version of its log."""
        return self._call(topic_calls.states(self.name))

    def partition(self, number: int) -> PartitionInfo:
        """Return one partition and its segments at one moment."""
        return self._call(topic_calls.partition(self.name, number))

    def truncate(self, partition: int, offset: int) -> int:
        """Remove a partition's records from `offset` on; return its next offset."""
        return self._call(topic_calls.truncate(self.name, partition, offset))

    def delete_before(self, partition: int, offset: int) -> int:
        """Delete a partition's records before `offset`, as Log.delete_before does; return where it begins then.

        Args:
            partition: The partition.
            offset: Offset of the first record to keep, up to the next offset.

        Raises:
            OffsetOutOfRange: the offset is larger.
        """
        return self._call(topic_calls.delete_before(self.name, partition, offset))

    def compact(self, partition: int | None = None) -> dict[int, Any]:
        """Compact one partition by key, or all of them, now; return by partition what was done."""
        return self._call(topic_calls.care(self.name, "compact", partition))

    def expire(self, partition: int | None = None) -> dict[int, Any]:
        """Delete what retention no longer keeps, in one partition or in all; return by partition what was done."""
        return self._call(topic_calls.care(self.name, "expire", partition))

    def _call(self, call: Call[T]) -> T:
        return self._driver.run(retrying(call, self._retries))

    def _deserialized(self, record: AnyRecord, partition: int) -> AnyRecord:
        if self._serializers is None:
            return record
        return self._serializers.deserialized(record, self.name, partition)

    def __repr__(self) -> str:
        return f"RemoteTopic({self.name!r})"
