"""One transactional id: its producer, the state of its transaction, and the sequences of what it has staged."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from seglog.kafka.faults import Fenced
from seglog.kafka.producers.remembered import Place
from seglog.kafka.producers.sequences import SEQUENCES, Appended, Producer, Range
from seglog.topic.layout.places import Partition

if TYPE_CHECKING:
    from seglog.kafka.records.layout import Head
    from seglog.topic.transactions.journal import Journal


class State(Enum):
    """What the last transaction of an id is.

    empty      none since the producer got its epoch
    open       records and offsets are staged
    decided    committed; it is being published
    committed, aborted
    """

    EMPTY = "empty"
    OPEN = "open"
    DECIDED = "decided"
    COMMITTED = "committed"
    ABORTED = "aborted"


@dataclass(slots=True)
class Line:
    """What a producer sent to a partition. producer: None before its first batch.

    staged: records of the open transaction. floor: the least offset that its next record is announced with.
    """

    producer: Producer | None
    staged: int = 0
    floor: int = 0

    def check(self, head: Head) -> int | None:
        """Return the announced offset of a batch that was staged before, None for the next one.

        Raises OldProducerEpoch or OutOfOrderSequence for any other.
        """
        if self.producer is None:
            return None
        sent = Range.of(head.sequence, head.records)
        self.producer.check(head.producer_epoch, sent)
        return self.producer.offset_of(head.producer_epoch, sent, head.checksum)

    def announce(self, end: int) -> int:
        """Return the offset that the next batch is announced with. end: of the log now."""
        return max(end + self.staged, self.floor)

    def note(self, epoch: int, sequence: int, rows: int, appended: Appended) -> None:
        """Note a staged batch."""
        if self.producer is None:
            self.producer = Producer(epoch)
        self.producer.note(epoch, Range.of(sequence, rows), appended)
        self.staged += rows
        self.floor = appended.offset + rows

    @property
    def following(self) -> int:
        """The next sequence."""
        assert self.producer is not None  # noqa: S101 - of a line with a batch
        return (self.producer.last_sequence + 1) % SEQUENCES


class Size(NamedTuple):
    """What an open transaction holds: bytes of its journal; batches, offsets and groups in memory."""

    bytes: int
    parts: int


NO_SIZE = Size(0, 0)


@dataclass(slots=True, eq=False)
class Transactional:
    """A transactional id.

    Attributes:
        name: The id.
        owner: The name of the token that may use it.
        payer: Whose share it counts against, see `Shares`: that of the caller that has begun the last transaction.
        timeout: Seconds after which an open transaction is aborted.
        used_at: When it was used last, in microseconds.
        transaction: The name of the journal of the last transaction.
        aborted: The next sequence of partitions whose last batches were aborted, which no log knows.
        partitions, groups: Of the open transaction.
        lock: Held by one request at a time.
        staging: Bytes of offsets that it has when those are written that are on their way to a thread; 0: none are.
        growing: What else is on its way to a thread.
    """

    name: str
    owner: str
    producer_id: int
    epoch: int
    timeout: float
    state: State = State.EMPTY
    used_at: int = 0
    transaction: str = ""
    payer: str = ""
    aborted: dict[Place, int] = field(default_factory=dict)
    lines: dict[Place, Line] = field(default_factory=dict)
    partitions: set[Partition] = field(default_factory=set)
    groups: set[str] = field(default_factory=set)
    journal: Journal | None = None
    timer: asyncio.TimerHandle | None = None
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    staging: int = 0
    growing: Size = NO_SIZE

    @property
    def size(self) -> Size:
        """What its journal has, or will have."""
        has = NO_SIZE if self.journal is None else Size(self.journal.size, self.journal.parts)
        return Size(has.bytes + self.growing.bytes, has.parts + self.growing.parts)

    @property
    def about(self) -> dict[str, object]:
        """What its journal has, to identify whose transaction it is."""
        return {"id": self.name, "producer": self.producer_id, "epoch": self.epoch}

    @property
    def offset_bytes(self) -> int:
        """About what the offsets of the open transaction take in memory, with those that are being staged."""
        return max(self.staging, 0 if self.journal is None else self.journal.offset_bytes)

    def check_epoch(self, epoch: int) -> None:
        """Raise Fenced unless a request comes from the present producer."""
        if epoch != self.epoch:
            raise Fenced(
                f"the transactional id {self.name!r} has a producer of epoch {self.epoch}; a request has {epoch}"
            )

    def line(self, place: Place, stored: Producer | None) -> Line:
        """Return what was sent to a partition. stored: as the log knows it, for one that is not in memory."""
        found = self.lines.get(place)
        if found is None:
            following = self.aborted.get(place)
            if following is not None:
                last = (following - 1) % SEQUENCES
                stored = Producer(self.epoch, {Range(last, last): None})
            found = self.lines[place] = Line(stored)
        return found

    def resume(self, journal: Journal) -> None:
        """Take over the open transaction that an earlier process has left in a journal."""
        self.journal = journal
        for note in journal.notes:
            self.partitions |= {(topic, number) for topic, number in note.get("partitions", ())}
            self.groups |= set(note.get("groups", ()))
        for batch in journal.batches:
            line = self.lines.setdefault((batch.topic_id, batch.partition), Line(None))
            appended = Appended(batch.about["offset"], batch.about["checksum"])
            line.note(self.epoch, batch.about["sequence"], batch.rows, appended)

    def end(self, state: State) -> None:
        """End the transaction."""
        self.state = state
        for batch in () if self.journal is None else self.journal.batches:
            place = (batch.topic_id, batch.partition)
            if state is State.ABORTED:
                self.aborted[place] = self.lines[place].following
            else:
                self.aborted.pop(place, None)
        for line in self.lines.values():
            line.staged = 0
        self.partitions, self.groups, self.journal = set(), set(), None
        self.stop_timer()

    def stop_timer(self) -> None:
        """Abort no transaction for its age any more."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None

    def pending(self, group: str, place: Partition) -> bool:
        """Whether the transaction would commit an offset of a group for a partition."""
        staged = None if self.journal is None else self.journal.offsets.get(group)
        return staged is not None and place in staged.offsets
