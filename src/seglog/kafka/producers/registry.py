"""The sequence numbers of all partitions to which idempotent producers have sent something. Event loop only."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple
from weakref import WeakValueDictionary

from seglog.kafka.producers.remembered import FROM_LOG, Entry, Place, Remembered, Who
from seglog.kafka.producers.sequences import Producer, Sequences
from seglog.kafka.records.layout import Head
from seglog.log.log import Log
from seglog.server.runtime.workers import Workers

ID_BITS = 62
MOST_PARTITIONS = 10_000
PRODUCER_BYTES = 2048
"""What a partition remembers of a producer, about."""


def new_producer() -> int:
    """Return the id of a new producer: random, so none is given twice, also after a restart, and none is stored."""
    return secrets.randbits(ID_BITS)


@dataclass(slots=True)
class Turn:
    """A batch that may be appended now.

    offset: of one that was appended before; to be set when it is appended. owner: of its idempotency key.
    """

    offset: int | None
    owner: str


class KnownProducer(NamedTuple):
    """A producer as a partition knows it. timestamp: as in `Producer`; -1 for one of transactions."""

    producer: int
    epoch: int
    last_sequence: int
    timestamp: int = -1


class Producers:
    """What is known of producers, by partition."""

    def __init__(self, workers: Workers, most_bytes: int) -> None:
        """workers: for reading the end of a log. most_bytes: that all producers may take in memory."""
        self._workers = workers
        self._known: dict[Place, Sequences] = {}
        self._remembered: Remembered[Entry] = Remembered(most_bytes // PRODUCER_BYTES)
        self._locks: WeakValueDictionary[Entry, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, place: Place, log: Log, head: Head, owner: str, payer: str) -> AsyncIterator[Turn]:
        """Let a batch be appended within the context, one of a producer and partition at a time.

        Args:
            place: The partition.
            log: Of the partition.
            head: Of the batch.
            owner: Of the producer, see `Who`.
            payer: Whose share the producer counts against, if it has no owner.

        Raises:
            OldProducerEpoch, OutOfOrderSequence: It is neither the next batch nor one of the last.
        """
        key = Entry(place, Who(owner, head.producer_id))
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            sequences = await self._sequences(place, log)
            sequences.check(key.who, head)
            turn = Turn(sequences.offset_of(key.who, head), sequences.key_owner(key.who, head))
            yield turn
            if turn.offset is not None:
                self._note(place, sequences, key, payer, (head, turn.offset))

    def _note(self, place: Place, sequences: Sequences, entry: Entry, payer: str, appended: tuple[Head, int]) -> None:
        """Remember a batch, at its offset, and forget what there is no more room for."""
        for who in sequences.note(entry.who, *appended, payer):
            self._remembered.forget(Entry(place, who))
        if self._known.get(place) is sequences:
            self._forget(self._remembered.use(entry.who.payer(payer), entry))

    def _forget(self, entries: list[Entry]) -> None:
        for one in entries:
            self._known[one.place].forget(one.who)

    def counts(self) -> tuple[int, int]:
        """Return how many producers are remembered, each counted per partition; in how many partitions."""
        return len(self._remembered), len(self._known)

    async def stored(self, place: Place, log: Log, who: Who) -> Producer | None:
        """Return what a partition's log knows of a producer, to continue it; None if that is nothing."""
        sequences = await self._sequences(place, log)
        return sequences.producer(who)

    async def of(self, place: Place, log: Log) -> list[KnownProducer]:
        """Return all that a partition remembers, the one that has sent the latest batch last."""
        sequences = await self._sequences(place, log)
        return [KnownProducer(one.id, each.epoch, each.last_sequence, each.timestamp) for one, each in sequences]

    async def _sequences(self, place: Place, log: Log) -> Sequences:
        """Return those of a partition, read again if its log was truncated."""
        found = self._known.get(place)
        if found is None or found.epoch != log.view().manifest.epoch:
            made = await self._workers.run(partial(Sequences, log))
            present = self._known.get(place)
            if present is None or present is found:
                self._drop(place)
                self._known[place] = made
                for who, _ in [*made]:
                    self._forget(self._remembered.use(who.payer(FROM_LOG), Entry(place, who)))
                if len(self._known) > MOST_PARTITIONS:  # the oldest is read again when it is needed
                    self._drop(next(iter(self._known)))
            found = self._known[place]
        return found

    def _drop(self, place: Place) -> None:
        """Forget all producers of a partition."""
        for who, _ in self._known.pop(place, ()):
            self._remembered.forget(Entry(place, who))
