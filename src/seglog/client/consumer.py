"""The consumer of `Client`: drives `consuming`; a thread sends heartbeats between polls."""

from __future__ import annotations

import threading
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
    from seglog.client.driver import Driver
    from seglog.topic.groups.consumer import TopicBatch


class RemoteConsumer(Uncopied):
    """Reads topics for a group, like `seglog.topic.groups.consumer.Consumer`. Get it from `Client.consumer`.

    A context manager for one thread. Its partitions change only in `poll`. Between polls a background thread sends
    heartbeats for up to `max_poll_interval` seconds; then the group considers the consumer dead. After lost connections
    and server restarts requests are retried. After a lost session `poll` rejoins and continues at this consumer's
    position in partitions for which no other member has committed meanwhile.
    """

    def __init__(
        self,
        driver: Driver,
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
    ) -> None:
        """Join the group.

        Args:
            start: "earliest" or "latest": where to start in partitions without a committed offset.
            session_timeout: Seconds of silence (1 up) until other members take over.
            share: (index, n): read every n-th partition of each topic instead of joining.
            max_poll_interval: Seconds between polls after which heartbeats stop.
            expose: "durable": deliver only records that survive power loss.
            serializers: For the records of `poll`; None: bytes.

        Raises:
            TopicNotFound: a topic does not exist.
        """
        self._driver = driver
        self._reading = Reading(
            group,
            topics,
            start=start,
            session_timeout=session_timeout,
            share=share,
            max_poll_interval=max_poll_interval,
            expose=expose,
            retries=retries,
        )
        self._serializers = serializers
        self._ending = threading.Event()
        self._keeper: threading.Thread | None = None
        driver.run(self._reading.begin())
        if share is None:
            self._keep()

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The assigned (topic, partition) pairs, in order."""
        return self._reading.cursor.assignment

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the next offset to read."""
        return self._reading.cursor.positions

    def poll(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicRecord]:
        """Return the next records of one or more partitions.

        Returns early, with no records, if the group is about to take partitions with uncommitted records away: commit,
        or poll again. Consumers never skip records silently.

        Args:
            max_records: The most records to return.
            max_bytes: About the most bytes of records to return.
            timeout: Seconds to wait for the first record.

        Raises:
            OffsetOutOfRange: a partition does not hold the position; continue with `seek`. Has topic and partition.
            LogTruncated: records that this consumer read no longer belong to the partition. Has topic and partition.
            ConnectionFailed, Busy: all tries failed; poll again.
            SerializationError: a deserializer refused the next record, after all before it were returned. Has topic,
                partition, offset, and the record with its bytes; `seek(topic, partition, offset + 1)` skips it.
        """
        from seglog.client import arrow  # noqa: PLC0415 - imports pyarrow only when needed

        batches = self.poll_batches(max_records=max_records, max_bytes=max_bytes, timeout=timeout)
        records = [record for batch in batches for record in arrow.topic_records(batch)]
        return deserialized(records, self._serializers, self._reading.cursor)

    def poll_batches(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicBatch]:
        """Return the next records as Arrow, one or more batches per partition; as `poll`."""
        if self._keeper is not None and not self._keeper.is_alive():
            self._keep()
        return self._driver.run(self._reading.poll(max_records, max_bytes, timeout))

    def commit(self, offsets: Positions | None = None, *, durable: bool = False) -> None:
        """Commit offsets, all or none.

        Args:
            offsets: topic -> partition -> the next offset to read; default: everything poll has returned.
            durable: Return when the commit survives power loss.

        Raises:
            NotAssigned, UnknownMember: other members have taken over what is uncommitted; poll and continue.
        """
        self._driver.run(self._reading.commit(offsets, "durable" if durable else "appended"))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at another offset, which the next commit includes.

        Raises:
            NotAssigned: the partition is not assigned to this consumer.
            OffsetOutOfRange: the partition does not hold the offset.
        """
        self._driver.run(self._reading.seek(topic, partition, offset))

    def seek_to_time(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> None:
        """Continue, in every assigned partition, at the first record at or after a time (us), or at the end."""
        self._driver.run(self._reading.seek_to_time(timestamp, force_timestamp=force_timestamp))

    def lag(self) -> dict[Partition, int]:
        """Return how many records remain in each assigned partition."""
        return self._driver.run(self._reading.lag())

    def close(self) -> None:
        """Leave the group, so that others continue immediately; commits nothing. Closing twice is harmless."""
        if self._reading.closed:
            return
        self._ending.set()
        try:
            self._driver.run(self._reading.leave())
        finally:
            if self._keeper is not None:
                self._keeper.join()

    def _keep(self) -> None:
        self._keeper = threading.Thread(target=self._keep_alive, name="seglog-consumer", daemon=True)
        self._keeper.start()

    def _keep_alive(self) -> None:
        while (silence := self._reading.silence()) is not None and not self._ending.wait(silence):
            try:
                self._driver.run(self._reading.keep_alive())
            except SeglogError:
                continue  # the next poll gets the same error and can handle it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
