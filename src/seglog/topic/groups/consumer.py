"""A consumer in the broker's process: reads a group's partitions and commits its positions.

`position` keeps its state, `Groups` assigns partitions; this module drives both and reads the logs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self

from seglog.clock import ticks
from seglog.errors import (
    GroupNotFound,
    InvalidArgument,
    LogClosed,
    NotDurableYet,
    OffsetOutOfRange,
    SeglogError,
    UnknownMember,
)
from seglog.log.log import Log
from seglog.log.tail import FIRST_WAIT, LONGEST_WAIT
from seglog.record import Timestamp, TopicRecord, checked_offset, checked_timestamp
from seglog.serializers import Deserialize, serializers_of
from seglog.topic.fetch import fetch_batches, fetch_records
from seglog.topic.groups.arguments import checked_timeout, checked_topics, checked_wait
from seglog.topic.groups.assignment import checked_share, shared
from seglog.topic.groups.deserializing import deserialized
from seglog.topic.groups.groups import Groups
from seglog.topic.groups.position import Cursor, Start
from seglog.topic.layout.names import checked_group
from seglog.topic.layout.places import Partition
from seglog.topic.positions import Positions
from seglog.topic.read_trace import passage_of, tell_how_to_go_on
from seglog.topic.topic import Topic
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import pyarrow as pa

MAX_RECORDS = 500
MAX_BYTES = 1024 * 1024


class Piece(NamedTuple):
    """One read of a partition: how many records, how many bytes, and the next offset."""

    found: list[Any]
    records: int
    bytes: int
    next_offset: int


Pieces = list[tuple["Partition", Piece]]
"""What one poll read."""

Read = Callable[["Log", int, int, int], Piece]
"""How a poll reads a log: from an offset, up to limits of records and bytes."""


class TopicBatch(NamedTuple):
    """Rows of one partition in Arrow; columns as in `Log.batches`."""

    topic: str
    partition: int
    batch: pa.RecordBatch


class Topics(Protocol):
    """What a consumer needs of its broker."""

    def topic(self, name: str) -> Topic:
        """Return the topic of this name. Raises TopicNotFound if there is none."""
        ...


class Consumer(Uncopied):
    """Reads topics for a group: each record at least once, and exactly once if every poll's records are committed
    before the next poll. A context manager for one thread. Get it from `Broker.consumer`.

    Its partitions change only inside `poll`, which is also its heartbeat: a consumer that does not poll for
    `session_timeout` loses them to other members, and `commit` raises UnknownMember; the next poll joins again.
    """

    def __init__(
        self,
        broker: Topics,
        groups: Groups,
        group: str,
        topics: Iterable[str],
        *,
        start: Start = "earliest",
        session_timeout: float = 30.0,
        share: tuple[int, int] | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> None:
        """Join the group.

        Args:
            broker: The broker with the topics.
            group: The group's name.
            topics: The topics to read.
            start: "earliest" or "latest": where to start in partitions without a committed offset.
            session_timeout: Seconds of silence until other members take over.
            share: (index, n): read every n-th partition instead of joining; commits need a group without members.
            key_deserializer, value_deserializer: A serializer of `seglog.serializers`, or a function of bytes, for
                `poll`; None: bytes.

        Raises:
            TopicNotFound: a topic does not exist.
        """
        if start not in ("earliest", "latest"):
            raise InvalidArgument(f'start is {start!r}; it must be "earliest" or "latest"')
        self._broker, self._groups, self._start = broker, groups, start
        self._group, self._topics = checked_group(group), checked_topics(topics)
        self._timeout = checked_timeout(session_timeout)
        self._serializers = serializers_of(None, None, key_deserializer, value_deserializer)
        self._cursor = Cursor(self._timeout)
        self._member: str | None = None
        self._closed = False
        if share is None:
            self._join()
        else:
            counts = {topic: broker.topic(topic).partitions for topic in self._topics}
            self._cursor.adopt(shared(checked_share(share), counts))

    # --- reading --------------------------------------------------------------------------------------------------

    def poll(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicRecord]:
        """Return the next records of one or more partitions. Consumers never skip records silently.

        Args:
            max_records: The most records to return.
            max_bytes: The most bytes of keys, values and headers; one record is returned whatever its size.
            timeout: Seconds to wait for the first record.

        Raises:
            OffsetOutOfRange: a partition does not hold the position; continue with `seek`. Has topic and partition.
            LogTruncated: records that this consumer read no longer belong to the partition. Has topic and partition.
            SerializationError: a deserializer refused the next record, after all before it were returned. Has topic,
                partition, offset, and the record with its bytes; `seek(topic, partition, offset + 1)` skips it.
        """
        return self._deserialized(records_in(self._poll(read_records, max_records, max_bytes, timeout)))

    def _deserialized(self, records: list[TopicRecord]) -> list[TopicRecord]:
        return deserialized(records, self._serializers, self._cursor)

    def poll_batches(
        self, *, max_records: int = MAX_RECORDS, max_bytes: int = MAX_BYTES, timeout: float = 0.0
    ) -> list[TopicBatch]:
        """Return the next records as Arrow, one or more batches per partition; as `poll`."""
        return batches_in(self._poll(read_batches, max_records, max_bytes, timeout))

    def _poll(self, read: Read, max_records: int, max_bytes: int, timeout: float) -> Pieces:
        deadline, wait = time.monotonic() + checked_wait(timeout), FIRST_WAIT
        while True:
            pieces = self._poll_once(read, max_records, max_bytes)
            left = deadline - time.monotonic()
            if pieces or left <= 0:
                return pieces
            time.sleep(min(wait, left))
            wait = min(wait * 2, LONGEST_WAIT)

    def _poll_once(self, read: Read, max_records: int, max_bytes: int) -> Pieces:
        """Poll without waiting."""
        self._check_open()
        self._beat()
        self._place()
        return self._read_round(read, max_records, max_bytes)

    def _give_back(self, pieces: Pieces) -> None:
        """Return to the positions before a poll whose records were not delivered."""
        for partition, _ in reversed(pieces):
            self._cursor.give_back(partition)

    def _read_round(self, read: Read, max_records: int, max_bytes: int) -> Pieces:
        """Read partition by partition, starting with the one whose turn it is, until the limits are reached."""
        pieces: Pieces = []
        for topic, of in self._cursor.wanted().items():
            for number, start in of.items():
                try:
                    piece = self._read_one(read, (topic, number), start, max_records, max_bytes)
                except SeglogError as error:
                    if pieces:  # deliver these first; the next poll reads this partition and raises
                        return pieces
                    error.add_note(f"partition {number} of topic {topic!r}, read by group {self._group!r}")
                    raise
                if piece.records:
                    pieces.append(((topic, number), piece))
                    max_records, max_bytes = max_records - piece.records, max_bytes - piece.bytes
                if max_records <= 0 or max_bytes <= 0:
                    return pieces
        return pieces

    def _read_one(self, read: Read, partition: Partition, start: int, max_records: int, max_bytes: int) -> Piece:
        """Read a piece of one partition and advance, if the log is still the one read before."""
        log = self._log(partition)
        view = log.view()  # before the read, as traces require
        try:
            piece = read(log, start, max_records, max_bytes)
        except NotDurableYet:  # it begins there once the writer has synced
            return Piece([], 0, 0, start)
        except OffsetOutOfRange as error:
            tell_how_to_go_on(error, partition)
            raise
        passage = passage_of(view, start, piece.next_offset)
        self._cursor.took(partition, piece.next_offset, piece.records > 0, passage=passage)
        return piece

    def _log(self, partition: Partition) -> Log:
        return self._broker.topic(partition[0]).partition(partition[1])

    # --- positions -----------------------------------------------------------------------------------------------

    @property
    def assignment(self) -> tuple[Partition, ...]:
        """The assigned (topic, partition) pairs, in order."""
        return self._cursor.assignment

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the next offset to read."""
        self._check_open()
        self._place()
        return self._cursor.positions

    def seek(self, topic: str, partition: int, offset: int) -> None:
        """Continue at another offset, which the next `commit` includes.

        Raises:
            NotAssigned: the partition is not assigned to this consumer.
            OffsetOutOfRange: the partition does not hold the offset.
        """
        self._check_open()
        where, offset = (topic, partition), checked_offset(offset)
        if where in self._cursor.assignment:
            lowest, end = self._bounds(where)
            if not lowest <= offset <= end:
                raise OffsetOutOfRange(offset, lowest, end)
        self._cursor.seek(where, offset)

    def seek_to_time(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> None:
        """Continue, in every assigned partition, at the first record at or after a time (us), or at the end.

        The time is given as to `Log.offset_at`.
        """
        self._check_open()
        moment = checked_timestamp(timestamp, force_timestamp=force_timestamp)
        for partition in self._cursor.assignment:
            log = self._log(partition)
            end = log.next_offset
            found = log.offset_at(moment, force_timestamp=True)
            self._cursor.seek(partition, end if found is None else found)

    def lag(self) -> dict[Partition, int]:
        """Return how many records remain in each assigned partition; an estimate if it is compacted."""
        return {
            (topic, number): self._log((topic, number)).records_from(position)
            for topic, of in self.positions.items()
            for number, position in of.items()
        }

    def _bounds(self, partition: Partition) -> tuple[int, int]:
        log = self._log(partition)
        return log.lowest_offset, log.next_offset

    def _place(self) -> None:
        """Set the start of new partitions: the group's committed offset, else `start`."""
        wanted = self._cursor.needs_position()
        if not wanted:
            return
        committed: Positions = {}
        with suppress(GroupNotFound):  # no member and no commit yet: the first static consumer
            committed = self._groups.committed(self._group)
        for topic, number in wanted:
            offset = committed.get(topic, {}).get(number)
            if offset is None:
                lowest, end = self._bounds((topic, number))
                self._cursor.place((topic, number), lowest if self._start == "earliest" else end)
            else:
                self._cursor.place((topic, number), offset, committed=True)

    # --- the group ------------------------------------------------------------------------------------------------

    def commit(self, offsets: Positions | None = None, *, durable: bool = False) -> None:
        """Commit the group's positions.

        Args:
            offsets: topic -> partition -> the next offset to read; default: everything that `poll` has returned.
            durable: Return when the commit survives power loss; otherwise kill -9.

        Raises:
            NotAssigned, UnknownMember: other members have taken over; nothing was committed. Poll to continue.
        """
        self._check_open()
        chosen = self._cursor.to_commit() if offsets is None else offsets
        if chosen or durable:
            self._groups.commit(self._group, chosen, member=self._member, durable=durable)
            self._cursor.committed(chosen)

    def _beat(self) -> None:
        if self._member is None:
            return
        try:
            answer = self._groups.heartbeat(self._group, self._member, self._cursor.generation)
        except UnknownMember:
            self._cursor.reset()
            self._join()
        else:
            self._cursor.adopt(answer.assignment, answer.generation, ticks())

    def _join(self) -> None:
        answer = self._groups.join(
            self._group, self._topics, member=self._member, session_timeout=self._timeout, local=True
        )
        self._member = answer.member
        self._cursor.adopt(answer.assignment, answer.generation, ticks())

    def close(self) -> None:
        """Leave the group, so that others continue immediately; commits nothing. A second call does nothing."""
        if self._closed:
            return
        self._closed = True
        if self._member is not None:
            with suppress(LogClosed):  # the broker was closed first: local members end with it
                self._groups.leave(self._group, self._member)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Consumer of {self._group!r} {'closed' if self._closed else list(self.assignment)}>"

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"the consumer of group {self._group!r} is closed; create another one")


def records_in(pieces: Pieces) -> list[TopicRecord]:
    """Return the records of a poll that used `read_records`."""
    return [TopicRecord(*partition, *record) for partition, piece in pieces for record in piece.found]


def batches_in(pieces: Pieces) -> list[TopicBatch]:
    """Return the batches of a poll that used `read_batches`."""
    return [TopicBatch(*partition, batch) for partition, piece in pieces for batch in piece.found]


def read_records(log: Log, start: int, max_records: int, max_bytes: int) -> Piece:
    """Read a piece of a log as records."""
    found, next_offset = fetch_records(log, start, max_records=max_records, max_bytes=max_bytes)
    size = sum(
        len(one.key or b"") + len(one.value or b"") + sum(len(name) + len(value or b"") for name, value in one.headers)
        for one in found
    )
    return Piece(found, len(found), size, next_offset)


def read_batches(log: Log, start: int, max_records: int, max_bytes: int) -> Piece:
    """Read a piece of a log as Arrow batches."""
    from seglog.topic.row_sizes import row_bytes  # noqa: PLC0415 - imports pyarrow and numba when first used

    found, next_offset = fetch_batches(log, start, max_records=max_records, max_bytes=max_bytes)
    size = sum(int(row_bytes(batch).sum()) for batch in found)
    return Piece(found, sum(batch.num_rows for batch in found), size, next_offset)
