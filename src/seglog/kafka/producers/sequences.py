"""The sequence numbers of one partition's producers, read from its log and continued in memory.

A batch of an idempotent producer is appended with the idempotency key
`kafka <partition> <producer> <epoch> <sequence> @<owner>`, which the log stores with the first record
(topic/idempotency). So a repeated batch is stored once, also after a crash that left only part of it. The key of a
batch of a transaction ends with the transaction's id, so that no other append has it. This module decides only which
batch may be next.

A producer chooses its id, and others can see it. So the same id of another token is another producer: `owner` is
derived from the token's name. It is missing on a server without tokens, and in the keys of earlier versions.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from seglog.kafka.faults import OldProducerEpoch, OutOfOrderSequence
from seglog.kafka.producers.remembered import FROM_LOG, Remembered, Who
from seglog.kafka.records.layout import Head
from seglog.log.log import Log
from seglog.topic.idempotency.marks import read_mark

KEY = re.compile(r"kafka [0-9]{1,5} ([0-9]{1,19}) ([0-9]{1,5}) ([0-9]{1,10})(?: @([0-9a-f]{16}))?(?: [0-9a-f]{16})?")
NO_OWNER = ""
"""Of all producers, on a server without tokens."""
SEQUENCES = 2**31
REMEMBERED = 5
"""How many of its last batches a producer may repeat, as with Kafka."""
MOST_PRODUCERS = 10_000
"""Producers that a partition remembers, see `Shares`; of others any sequence is accepted, as of those that Kafka has
expired."""
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
    last batch, in ms; -1 if that was read from the log. heirs: of one without an owner: the owners that continue it.
    """

    epoch: int
    batches: dict[Range, Appended | None] = field(default_factory=dict)
    timestamp: int = -1
    heirs: frozenset[str] = frozenset()

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
        self._producers: OrderedDict[Who, Producer] = OrderedDict()
        self._remembered: Remembered[Who] = Remembered(MOST_PRODUCERS)
        if log.next_offset > log.lowest_offset:
            self._read(log)

    def _read(self, log: Log) -> None:
        from seglog.topic.idempotency.tail_search import marks_at_end  # noqa: PLC0415 - reads only logs with records

        for offset, value in marks_at_end(log, WINDOW_BYTES, WINDOW_MARKS):
            found = read_mark(value, 0, offset)
            key = None if found is None else KEY.fullmatch(found[0])
            if found is not None and key is not None:
                producer, epoch, sequence = map(int, key.group(1, 2, 3))
                who = Who(key[4] or NO_OWNER, producer)
                self._note(who, epoch, Range.of(sequence, found[1].rows), None)
                self._count(who, FROM_LOG)

    def __len__(self) -> int:
        """Return how many producers are remembered."""
        return len(self._producers)

    def key_owner(self, who: Who, head: Head) -> str:
        """Return the owner in the key of a batch: none if an earlier version has stored the same batch."""
        earlier, known = self._earlier(who), self._known(who)
        is_repeated = earlier is not None and earlier.epoch == head.producer_epoch and _sent(head) in earlier.batches
        return NO_OWNER if is_repeated and (known is None or _sent(head) in known.batches) else who.owner

    def check(self, who: Who, head: Head) -> None:
        """Raise OldProducerEpoch or OutOfOrderSequence unless a batch may be appended; the first of a producer may."""
        known = self._known(who)
        if known is not None:
            known.check(head.producer_epoch, _sent(head))

    def offset_of(self, who: Who, head: Head) -> int | None:
        """Return the offset of a batch that was appended completely, None if that is not known."""
        known = self._producers.get(who)
        return None if known is None else known.offset_of(head.producer_epoch, _sent(head), head.checksum)

    def _earlier(self, who: Who) -> Producer | None:
        """Return what was stored before producers had an owner, of a producer that has one."""
        return self._producers.get(Who(NO_OWNER, who.id)) if who.owner else None

    def _known(self, who: Who) -> Producer | None:
        """Return a producer, None if nothing is known of it; what is without an owner is known of every owner.

        Each owner continues that once: one that was forgotten since may send any sequence, as any that was forgotten.
        """
        earlier = self._earlier(who)
        inherits = earlier is not None and who.owner not in earlier.heirs
        return self._producers.get(who) or (earlier if inherits else None)

    def __iter__(self) -> Iterator[tuple[Who, Producer]]:
        """Return the producers, the one that has sent the latest batch last."""
        return iter(self._producers.items())

    def producer(self, who: Who) -> Producer | None:
        """Return a copy of what is known of a producer, None if that is nothing."""
        known = self._known(who)
        return None if known is None else Producer(known.epoch, dict(known.batches))

    def note(self, who: Who, head: Head, offset: int, payer: str) -> list[Who]:
        """Remember a batch that was appended, at its offset; return the producers that are forgotten for it.

        payer: whose share of the partition's producers it counts against.
        """
        self._note(who, head.producer_epoch, _sent(head), Appended(offset, head.checksum))
        self._producers[who].timestamp = head.max_timestamp
        return self._count(who, payer)

    def _count(self, who: Who, payer: str) -> list[Who]:
        forgotten = self._remembered.use(who.payer(payer), who)
        for one in forgotten:
            del self._producers[one]
        return forgotten

    def forget(self, who: Who) -> None:
        """Accept any sequence of a producer from now on."""
        self._producers.pop(who, None)
        self._remembered.forget(who)

    def _note(self, who: Who, epoch: int, sent: Range, appended: Appended | None) -> None:
        known = self._producers.get(who)
        if known is None:
            known = self._producers[who] = self._begun(who, epoch)
        else:
            self._producers.move_to_end(who)
        known.note(epoch, sent, appended)

    def _begun(self, who: Who, epoch: int) -> Producer:
        """Return a producer before its first batch, which continues what was stored before it had an owner."""
        earlier, inherited = self._earlier(who), self._known(who)
        if earlier is not None:
            earlier.heirs |= {who.owner}
        continues = inherited is not None and inherited.epoch <= epoch
        return Producer(inherited.epoch, dict(inherited.batches)) if inherited and continues else Producer(epoch)


def _sent(head: Head) -> Range:
    return Range.of(head.sequence, head.records)


def key_of(partition: int, head: Head, owner: str) -> str:
    """Return the idempotency key of a batch: a topic's keys are those of all its partitions, sequences are not."""
    key = f"kafka {partition} {head.producer_id} {head.producer_epoch} {head.sequence}"
    return f"{key} @{owner}" if owner else key
