"""The consumer of `Client`: drives `consuming`, and a thread that keeps its place in the group meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING, Self

from seglog.client.consuming import MAX_BYTES, MAX_RECORDS, Reading
from seglog.errors import SeglogError
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from types import TracebackType

    from seglog.client.driver import Driver
    from seglog.client.flows import Retries
    from seglog.record import TopicRecord
    from seglog.topic.groups.consumer import TopicBatch
    from seglog.topic.groups.position import Start
    from seglog.topic.places import Partition
    from seglog.topic.positions import Positions


class RemoteConsumer(Uncopied):
    """Reads topics for a group; as `seglog.topic.groups.consumer.Consumer`. Get it from `Client.consumer`.

    A context manager; one thread at a time. Its partitions change only inside `poll`. Between two polls a thread of its
    own tells the group that it is there, for `max_poll_interval` seconds; then the group takes it for dead. Lost
    connections and restarts of the server are met by trying again. After a lost session `poll` joins anew and goes on
    where this consumer stood, in partitions for which nobody else has committed anything meanwhile.
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
    ) -> None:
        """start: "earliest" or "latest": where a partition begins of which the group has committed nothing.

        session_timeout: seconds of silence (1 up) until others take over. share: (index, n) reads every n-th partition
        of each topic instead of joining. TopicNotFound.
        """
        self._driver = driver
        self._reading = Reading(
            group,
            topics,
            start=start,
            session_timeout=session_timeout,
            share=share,
            max_poll_interval=max_poll_interval,
            retries=retries,
        )
        self._ending = threading.Event()
        self._keeper: threading.Thread | None = None
        driver.run(self._reading.begin())
        if share is None:
            self._keep()

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """What is read now: (topic, partition), in order."""
        return self._reading.cursor.assignment

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the offset to be read next."""
        return self._reading.cursor.positions

    def poll(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicRecord]:
        """Return the next records, of one or more partitions; waits up to `timeout` seconds for the first.

        Empty a little earlier where the group takes partitions away of which something is uncommitted: commit, or poll
        on. OffsetOutOfRange where a position is no longer, or not yet, in its partition; LogTruncated where what this
        consumer read of a partition is no longer part of it; both with topic and partition. Nothing is skipped in
        silence; `seek` says where to go on. ConnectionFailed, Busy: all tries failed; poll again.
        """
        from seglog.client import arrow  # noqa: PLC0415 - pyarrow loads when it is needed

        batches = self.poll_batches(max_records=max_records, max_bytes=max_bytes, timeout=timeout)
        return [record for batch in batches for record in arrow.topic_records(batch)]

    def poll_batches(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicBatch]:
        """Return the same in Arrow, a batch or more of each partition."""
        if self._keeper is not None and not self._keeper.is_alive():
            self._keep()
        return self._driver.run(self._reading.poll(max_records, max_bytes, timeout))

    def commit(self, offsets: Positions | None = None, *, durable: bool = False) -> None:
        """Commit offsets, topic -> partition -> offset to be read next; by default of all that poll has returned.

        All or none. NotAssigned, UnknownMember: others have taken over what is not committed; poll and go on.
        """
        self._driver.run(self._reading.commit(offsets, "durable" if durable else "appended"))

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Go on at another offset, which the next commit includes. NotAssigned, OffsetOutOfRange."""
        self._driver.run(self._reading.seek(topic, partition, offset))

    def seek_to_time(self, timestamp: int) -> None:
        """Go on, in every assigned partition, at the first record of that time (us) or later, or at its end."""
        self._driver.run(self._reading.seek_to_time(timestamp))

    def lag(self) -> dict[Partition, int]:
        """Return how many records each assigned partition has from here on."""
        return self._driver.run(self._reading.lag())

    def close(self) -> None:
        """Leave the group, so that others go on at once; commits nothing. Closing twice is harmless."""
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
                continue  # the next poll meets the same, and can do something about it

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
