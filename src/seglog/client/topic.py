"""A topic on a server: the calls of `seglog.topic.Topic` that HTTP has. Thin: what they send is in calls and flows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from seglog.client import append_calls, calls, flows, whole
from seglog.client.upload import upload

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.client.call import Call
    from seglog.client.driver import Driver
    from seglog.client.facts import Ack, Bounds, Page, PartitionInfo, PartitionState, TopicInfo
    from seglog.record import Header, Record, TopicRecord

T = TypeVar("T")

BATCH_BYTES = 16 * 1024 * 1024


class RemoteTopic:
    """A topic on a server. Get it from `Client.topic`; safe for threads.

    once, of the appends: an idempotency key, 1 to 200 characters of printable ASCII: an append that is repeated with
    the same one is stored once; without it each call has its own, for its own retries. The first record of an append
    bears it in a header "seglog-once". ack: "appended", readers can see it; "durable", it survives power loss.
    """

    def __init__(self, name: str, driver: Driver, retries: flows.Retries, once: Callable[[], str]) -> None:
        self.name = name
        self._driver, self._retries, self._once = driver, retries, once

    # --- appending ------------------------------------------------------------------------------------------------

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        expected_offset: int | None = None,
        once: str | None = None,
        ack: Ack = "appended",
    ) -> tuple[int, int]:
        """Append one record and return (partition, offset); as Topic.append. value None: a tombstone."""
        call = append_calls.append(
            self.name,
            value,
            key=key,
            timestamp=timestamp,
            headers=headers,
            partition=partition,
            expected_offset=expected_offset,
            once=self._once() if once is None else once,
            ack=ack,
        )
        return self._call(call)

    def append_stream(
        self,
        chunks: Any,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        partition: int | None = None,
        once: str | None = None,
        ack: Ack = "appended",
    ) -> tuple[int, int]:
        """Append one record whose value is sent as it comes: an iterable of bytes, or a binary file from its position.

        A file that can seek, a list and a tuple are sent again after a lost connection; with anything else
        ConnectionFailed is raised. limit: StreamOverflow beyond so many bytes; nothing is stored.
        """
        call = append_calls.append_stream(
            self.name,
            upload(chunks, limit=limit),
            key=key,
            timestamp=timestamp,
            headers=headers,
            partition=partition,
            once=self._once() if once is None else once,
            ack=ack,
        )
        return self._call(call)

    def append_batch(
        self,
        data: pa.Table | pa.RecordBatch,
        *,
        partition: int | None = None,
        once: str | None = None,
        ack: Ack = "appended",
        batch_bytes: int = BATCH_BYTES,
    ) -> dict[int, range]:
        """Append rows and return the offsets they got, by partition; as Topic.append_batch.

        Sent in requests of at most `batch_bytes`, one after another; each partition's share of a request is appended
        whole or not at all. If there are several, others' records may stand between: a range goes from first to last.
        """
        once = self._once() if once is None else once
        options: dict[str, Any] = {"partition": partition, "once": once, "ack": ack, "most": batch_bytes}
        return self._driver.run(flows.append_batch(self.name, data, **options, retries=self._retries))

    # --- reading --------------------------------------------------------------------------------------------------

    def read(self, partition: int, offset: int) -> Record:
        """Return one record. OffsetOutOfRange, OffsetCompacted."""
        return self._driver.run(whole.read(self.name, partition, offset, self._retries))

    def records(self, partition: int, start: int | None = None, stop: int | None = None) -> Iterator[Record]:
        """Iterate over a range of a partition, by default all that is there now; read page by page."""
        from seglog.client import arrow  # noqa: PLC0415 - pyarrow loads when it is needed

        for batch in self.batches(partition, start, stop):
            yield from arrow.records(batch)

    def batches(self, partition: int, start: int | None = None, stop: int | None = None) -> Iterator[pa.RecordBatch]:
        """Iterate over the same in Arrow; columns as `Log.batches`, plain binary."""
        for page in self.pages(partition, start, stop):
            yield from page.batches

    def pages(self, partition: int, start: int | None = None, stop: int | None = None) -> Iterator[Page]:
        """Iterate over the same by the request, each page with the log and the epoch that it is of."""
        return self._driver.iterate(flows.pages(self.name, partition, start, stop, self._retries))

    def to_arrow(self, partition: int, start: int | None = None, stop: int | None = None) -> pa.Table:
        """Return a range as one table."""
        from seglog.client import arrow  # noqa: PLC0415 - as above

        return arrow.joined(list(self.batches(partition, start, stop)))

    def follow(
        self, partition: int | None = None, start: str | int | Mapping[int, int] = "latest"
    ) -> Iterator[TopicRecord]:
        """Iterate over what is appended, for ever, across lost connections.

        start: "latest" (the end when the first record is asked for), "earliest", partition -> offset, or with
        `partition` an offset. OffsetOutOfRange where records that were to come are gone, LogTruncated where some that
        came are no longer part of the topic: it was truncated, or deleted and created anew.
        """
        for records in self._driver.iterate(flows.follow(self.name, partition, start, self._retries)):
            yield from records

    def offset_at(self, timestamp: int) -> dict[int, int | None]:
        """Return by partition the first offset of that time (microseconds) or later, None where there is none."""
        return self._call(calls.offset_at(self.name, timestamp))

    def with_key(self, key: bytes, max_records: int = 100) -> list[Record]:
        """Return the last records of a key, the newest last; the server reads the key's whole partition for it."""
        return self._driver.run(whole.with_key(self.name, key, max_records, self._retries))

    # --- facts and care -------------------------------------------------------------------------------------------

    def info(self) -> TopicInfo:
        """Return what there is to know of the topic. TopicNotFound."""
        return self._call(calls.topic(self.name))

    def bounds(self) -> dict[int, Bounds]:
        """Return by partition its lowest, next and durable offset."""
        return self._call(calls.bounds(self.name))

    def states(self) -> dict[int, PartitionState]:
        """Return by partition its bounds, and of which state of which log they are."""
        return self._call(calls.states(self.name))

    def partition(self, number: int) -> PartitionInfo:
        """Return one partition with its segments, all of one moment."""
        return self._call(calls.partition(self.name, number))

    def truncate(self, partition: int, offset: int) -> int:
        """Remove a partition's records from `offset` on; return its next offset."""
        return self._call(calls.truncate(self.name, partition, offset))

    def compact(self) -> dict[int, Any]:
        """Compact every partition by key, now; return by partition what was done."""
        return self._call(calls.care(self.name, "compact"))

    def expire(self) -> dict[int, Any]:
        """Let go of what retention no longer keeps, now; return by partition what was done."""
        return self._call(calls.care(self.name, "expire"))

    def _call(self, call: Call[T]) -> T:
        return self._driver.run(flows.retrying(call, self._retries))

    def __repr__(self) -> str:
        return f"RemoteTopic({self.name!r})"
