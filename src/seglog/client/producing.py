"""Batching of single records: the queue they wait in, and the delivery of a batch. No I/O, no threads.

One request is sent at a time, so records of a key keep their order; meanwhile the next batch grows. The client assigns
records to partitions itself, with the server's partitioner: so it knows the offset of each record, and what a refused
batch left undone.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from seglog.client.requests import append_calls, topic_calls
from seglog.client.requests.call import Flow
from seglog.client.requests.topic_calls import Acknowledgement
from seglog.client.retrying import Retries, retrying
from seglog.errors import (
    InvalidArgument,
    KeyRequired,
    RecordTooLarge,
    SeglogError,
    ServerError,
    StreamOverflow,
    TopicNotFound,
)
from seglog.record import Header, checked_bytes, checked_headers, checked_key, checked_offset

_RECORD_BYTES = 32
_ABOUT_CONTENT = (InvalidArgument, KeyRequired, RecordTooLarge, StreamOverflow)

Outcome = tuple[int, int] | SeglogError
"""The outcome of a record: (partition, offset), or the error."""


class Entry(NamedTuple):
    """A queued record. future: what its sender waits for."""

    value: bytes | None
    key: bytes | None
    timestamp: int | None
    headers: tuple[Header, ...]
    partition: int | None
    future: Any

    @property
    def size(self) -> int:
        """About how many bytes it takes."""
        size = _RECORD_BYTES + len(self.value or b"") + len(self.key or b"")
        for name, value in self.headers:
            size += len(name) + len(value or b"")
        return size


def entry(
    value: bytes | None,
    *,
    key: bytes | None,
    timestamp: int | None,
    headers: Iterable[Header],
    partition: int | None,
    future: Any,
) -> Entry:
    """Return a record ready to send; raise what a local append would raise. timestamp: checked."""
    return Entry(
        None if value is None else checked_bytes(value, "value"),
        checked_key(key),
        timestamp,
        checked_headers(headers) if headers else (),
        None if partition is None else checked_offset(partition, "partition"),
        future,
    )


def checked_linger(linger: float) -> float:
    """Return the linger time in seconds. Raises InvalidArgument for an invalid number."""
    if isinstance(linger, bool) or not isinstance(linger, (int, float)) or not linger >= 0:
        raise InvalidArgument(f"linger is {linger!r}; it must be a number of seconds, 0 or more")
    return linger


def ended(error: BaseException) -> SeglogError:
    """Return the error for all records still waiting when the producer itself fails."""
    failure = ServerError(f"the producer failed before the fate of this record was known: {error!r}", status=0)
    failure.__cause__ = error
    return failure


class Outbox:
    """The queued records, in order, up to a limit of bytes."""

    def __init__(self, *, batch_bytes: int, batch_records: int, queue_bytes: int) -> None:
        for name, value in {
            "batch_bytes": batch_bytes,
            "batch_records": batch_records,
            "queue_bytes": queue_bytes,
        }.items():
            if checked_offset(value, name) < 1:
                raise InvalidArgument(f"{name} is {value}; it must be at least 1")
        self._batch_bytes, self._batch_records, self._queue_bytes = batch_bytes, batch_records, queue_bytes
        self._entries: deque[tuple[Entry, int, float]] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def has_room(self, size: int) -> bool:
        """Whether a record of this size may be queued; one larger than the queue waits until it is empty."""
        return not self._entries or self._bytes + size <= self._queue_bytes

    @property
    def is_full(self) -> bool:
        """Whether a full batch is queued."""
        return len(self._entries) >= self._batch_records or self._bytes >= self._batch_bytes

    @property
    def oldest(self) -> float:
        """When the oldest queued record arrived."""
        return self._entries[0][2]

    def put(self, one: Entry, size: int, now: float) -> None:
        """Queue a record."""
        self._entries.append((one, size, now))
        self._bytes += size

    def take(self) -> list[Entry]:
        """Return the next batch: in order, within its limits, at least one record if there is one."""
        batch: list[Entry] = []
        left = self._batch_bytes
        while self._entries and len(batch) < self._batch_records:
            one, size, _ = self._entries[0]
            if batch and size > left:
                break
            self._entries.popleft()
            self._bytes -= size
            left -= size
            batch.append(one)
        return batch


class Tally:
    """How many records were sent and finished, and the failures since the last query."""

    def __init__(self) -> None:
        self.sent = 0
        self.done = 0
        self._failed = 0
        self._first: SeglogError | None = None

    def settle(self, outcomes: Sequence[Outcome]) -> None:
        """Count the outcomes of records."""
        self.done += len(outcomes)
        for outcome in outcomes:
            if isinstance(outcome, SeglogError):
                self._failed += 1
                self._first = self._first or outcome

    def raise_failure(self) -> None:
        """Raise the first failure since the last call, if there was one."""
        first, failed, self._first, self._failed = self._first, self._failed, None, 0
        if first is not None:
            first.add_note(f"{failed} records failed or have an unknown outcome; their futures have the errors")
            raise first


class Deliverer:
    """Delivers the batches of one producer, one after another."""

    def __init__(self, topic: str, *, ack: Acknowledgement, retries: Retries) -> None:
        self._topic, self._ack, self._retries = topic, ack, retries
        self._partitions = 0  # not known yet
        self._turn = 0

    def deliver(self, batch: Sequence[Entry], once: str) -> Flow[list[Outcome]]:
        """Append a batch and return the outcome of each record. once: an unused idempotency key.

        A request carries records of one partition: these are stored completely or not at all, so a refused request can
        be split without storing a record twice.
        """
        try:
            if not self._partitions:
                self._partitions = yield from self._count()
        except SeglogError as error:
            return [error] * len(batch)
        outcomes: dict[int, Outcome] = {}
        for place, rows in self._dealt(batch).items():
            got = yield from self._send([batch[row] for row in rows], place, f"{once}-{place}")
            outcomes.update(zip(rows, got, strict=True))
        if any(isinstance(outcome, SeglogError) for outcome in outcomes.values()):
            self._partitions = 0  # the topic may have been recreated
        return [outcomes[row] for row in range(len(batch))]

    def _count(self) -> Flow[int]:
        """Return the number of partitions, by a request that needs no right to read."""
        for info in (yield from retrying(topic_calls.topics(), self._retries)):
            if info.name == self._topic:
                return info.partitions
        raise TopicNotFound(self._topic)

    def _dealt(self, batch: Sequence[Entry]) -> dict[int, list[int]]:
        """Return partition -> rows: the record's own partition, its key's, or the next in turn."""
        if self._partitions == 1:
            numbers = [0] * len(batch)
        else:
            from seglog.client import arrow  # noqa: PLC0415 - imports pyarrow with the first batch

            numbers = arrow.partitions_of_keys([one.key for one in batch], self._partitions)
        dealt: dict[int, list[int]] = {}
        for row, one in enumerate(batch):
            place = numbers[row] if one.partition is None else one.partition
            if place < 0:
                place, self._turn = self._turn, (self._turn + 1) % self._partitions
            dealt.setdefault(place, []).append(row)
        return dealt

    def _send(self, batch: Sequence[Entry], place: int, once: str) -> Flow[list[Outcome]]:
        """Send records of one partition; split a refused request until only invalid records fail."""
        try:
            return (yield from self._append(batch, place, once))
        except SeglogError as error:
            parts = _taken_apart(batch, error)
            if not parts:
                return [error] * len(batch)
        outcomes: dict[int, Outcome] = {}
        for number, rows in enumerate(parts):
            got = yield from self._send([batch[row] for row in rows], place, f"{once}.{number}")
            outcomes.update(zip(rows, got, strict=True))
        return [outcomes[row] for row in range(len(batch))]

    def _append(self, batch: Sequence[Entry], place: int, once: str) -> Flow[list[Outcome]]:
        from seglog.client import arrow  # noqa: PLC0415 - as above

        data = arrow.batch_of(
            [one.value for one in batch],
            [one.key for one in batch],
            [one.timestamp for one in batch],
            [one.headers for one in batch],
        )
        call = append_calls.append_batch(self._topic, arrow.stream_of(data), partition=place, once=once, ack=self._ack)
        offsets = yield from retrying(call, self._retries)
        if len(offsets.get(place, ())) != len(batch):
            raise ServerError(f"the server stored other records than those sent: {offsets}", status=200)
        return [(place, offset) for offset in offsets[place]]


def _taken_apart(batch: Sequence[Entry], error: SeglogError) -> list[list[int]]:
    """Return the parts of a refused batch to send again, as rows; none if that is pointless."""
    rows = range(len(batch))
    if not isinstance(error, _ABOUT_CONTENT):
        return []
    if isinstance(error, KeyRequired):
        keyed = [row for row in rows if batch[row].key is not None]
        return [[row for row in rows if batch[row].key is None], keyed] if keyed else []
    half = len(batch) // 2
    return [[*rows[:half]], [*rows[half:]]] if half else []
