"""The sequence numbers of one partition's producers, read from its log and continued in memory.

A batch of an idempotent producer is appended with the idempotency key
`kafka <partition> <producer> <epoch> <sequence>`, which the log stores with the first record (topic/idempotency). So a
repeated batch is stored once, also after a crash that left only part of it. The key of a batch of a transaction ends
with the transaction's id, so that no other append has it. This module decides only which batch may be next.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from seglog.kafka.faults import OldProducerEpoch, OutOfOrderSequence
from seglog.kafka.records.layout import Head
from seglog.log.log import Log
from seglog.topic.idempotency.marks import read_mark

KEY = re.compile(r"kafka [0-9]{1,5} ([0-9]{1,19}) ([0-9]{1,5}) ([0-9]{1,10})(?: [0-9a-f]{16})?")
SEQUENCES = 2**31
REMEMBERED = 5
"""How many of its last batches a producer may repeat, as with Kafka."""
MOST_PRODUCERS = 10_000
"""Producers that a partition remembers; of others any sequence is accepted, as of those that Kafka has expired."""
WINDOW_BYTES, WINDOW_MARKS = 64 * 1024 * 1024, 100_000


class Range(NamedTuple):
    """The sequence numbers of a batch: the first and the last, which may have wrapped around."""

    first: int
    last: int

    @classmethod
    def of(cls, first: int, count: int) -> Range:
        """Return those of `count` records."""
        return cls(first, (first + count - 1) % SEQUENCES)


class Appended(NamedTuple):
    """A batch that was appended completely: its first offset, and the checksum with which it came."""

    offset: int
    checksum: int


@dataclass(slots=True)
class Producer:
    """The epoch of a producer, and its last batches, the latest last.

    batches: None for those that were read from the log, of which a part may be missing. timestamp: the latest of the
    last batch, in ms; -1 if that was read from the log.
    """

    epoch: int
    batches: dict[Range, Appended | None] = field(default_factory=dict)
    timestamp: int = -1

    @property
    def last_sequence(self) -> int:
        """The last one of its last batch; every known producer has one."""
        return next(reversed(self.batches)).last

    def check(self, epoch: int, sent: Range) -> None:
        """Raise unless a batch is the next one, or one of the last."""
        if epoch < self.epoch:
            raise OldProducerEpoch(f"the producer has the epoch {self.epoch}; a batch has {epoch}")
        if epoch > self.epoch:
            if sent.first:
                raise OutOfOrderSequence(f"the first sequence of a new epoch is {sent.first}; it must be 0")
            return
        following = (self.last_sequence + 1) % SEQUENCES
        if sent.first != following and sent not in self.batches:
            raise OutOfOrderSequence(f"the sequence {sent.first} does not follow: {following} is next")

    def offset_of(self, epoch: int, sent: Range, checksum: int) -> int | None:
        """Return the offset of a batch that was appended completely, None if that is not known."""
        known = self.batches.get(sent) if epoch == self.epoch else None
        return None if known is None or known.checksum != checksum else known.offset

    def note(self, epoch: int, sent: Range, appended: Appended | None) -> None:
        """Remember a batch."""
        if epoch > self.epoch:
            self.epoch, self.batches = epoch, {}
        if appended is not None or sent not in self.batches:
            self.batches[sent] = appended
        while len(self.batches) > REMEMBERED:
            del self.batches[next(iter(self.batches))]


class Sequences:
    """The producers of one partition."""

    def __init__(self, log: Log) -> None:
        """Read the end of the log."""
        self.epoch = log.view().manifest.epoch
        self._producers: OrderedDict[int, Producer] = OrderedDict()
        if log.next_offset > log.lowest_offset:
            self._read(log)

    def _read(self, log: Log) -> None:
        from seglog.topic.idempotency.tail_search import marks_at_end  # noqa: PLC0415 - reads only logs with records

        for offset, value in marks_at_end(log, WINDOW_BYTES, WINDOW_MARKS):
            found = read_mark(value, 0, offset)
            key = None if found is None else KEY.fullmatch(found[0])
            if found is not None and key is not None:
                producer, epoch, sequence = map(int, key.groups())
                self._note(producer, epoch, Range.of(sequence, found[1].rows), None)

    def __len__(self) -> int:
        """Return how many producers are remembered."""
        return len(self._producers)

    def check(self, head: Head) -> None:
        """Raise OldProducerEpoch or OutOfOrderSequence unless a batch may be appended; the first of a producer may."""
        known = self._producers.get(head.producer_id)
        if known is not None:
            known.check(head.producer_epoch, Range.of(head.sequence, head.records))

    def offset_of(self, head: Head) -> int | None:
        """Return the offset of a batch that was appended completely, None if that is not known."""
        known, sent = self._producers.get(head.producer_id), Range.of(head.sequence, head.records)
        return None if known is None else known.offset_of(head.producer_epoch, sent, head.checksum)

    def __iter__(self) -> Iterator[tuple[int, Producer]]:
        """Return the producers, by id."""
        return iter(self._producers.items())

    def producer(self, producer: int) -> Producer | None:
        """Return a copy of what is known of a producer, None if that is nothing."""
        known = self._producers.get(producer)
        return None if known is None else Producer(known.epoch, dict(known.batches))

    def note(self, head: Head, offset: int) -> None:
        """Remember a batch that was appended, at its offset."""
        sent = Range.of(head.sequence, head.records)
        self._note(head.producer_id, head.producer_epoch, sent, Appended(offset, head.checksum))
        self._producers[head.producer_id].timestamp = head.max_timestamp

    def _note(self, producer: int, epoch: int, sent: Range, appended: Appended | None) -> None:
        known = self._producers.get(producer)
        if known is None:
            known = self._producers[producer] = Producer(epoch)
            if len(self._producers) > MOST_PRODUCERS:
                self._producers.popitem(last=False)
        else:
            self._producers.move_to_end(producer)
        known.note(epoch, sent, appended)


def key_of(partition: int, head: Head) -> str:
    """Return the idempotency key of a batch: a topic's keys are those of all its partitions, sequences are not."""
    return f"kafka {partition} {head.producer_id} {head.producer_epoch} {head.sequence}"
