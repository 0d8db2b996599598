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

from seglog.kafka.producers.sequences import Producer, Sequences
from seglog.kafka.records.layout import Head
from seglog.log.log import Log
from seglog.server.runtime.workers import Workers

ID_BITS = 62
MOST_PARTITIONS = 10_000
Place = tuple[str, int]  # a topic's id, and the number of the partition


def new_producer() -> int:
    """Return the id of a new producer: random, so none is given twice, also after a restart, and none is stored."""
    return secrets.randbits(ID_BITS)


@dataclass(slots=True)
class Turn:
    """A batch that may be appended now. offset: of one that was appended before; to be set when it is appended."""

    offset: int | None


class KnownProducer(NamedTuple):
    """A producer as a partition knows it. timestamp: as in `Producer`; -1 for one of transactions."""

    producer: int
    epoch: int
    last_sequence: int
    timestamp: int = -1


class Producers:
    """What is known of producers, by partition."""

    def __init__(self, workers: Workers) -> None:
        """workers: for reading the end of a log."""
        self._workers = workers
        self._known: dict[Place, Sequences] = {}
        self._locks: WeakValueDictionary[tuple[Place, int], asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, place: Place, log: Log, head: Head) -> AsyncIterator[Turn]:
        """Let a batch be appended within the context, one of a producer and partition at a time.

        Raises:
            OldProducerEpoch, OutOfOrderSequence: It is neither the next batch nor one of the last.
        """
        key = (place, head.producer_id)
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            sequences = await self._sequences(place, log)
            sequences.check(head)
            turn = Turn(sequences.offset_of(head))
            yield turn
            if turn.offset is not None:
                sequences.note(head, turn.offset)

    def counts(self) -> tuple[int, int]:
        """Return how many producers are remembered, each counted per partition; in how many partitions."""
        return sum(map(len, self._known.values())), len(self._known)

    async def stored(self, place: Place, log: Log, producer: int) -> Producer | None:
        """Return what a partition's log knows of a producer, to continue it; None if that is nothing."""
        return (await self._sequences(place, log)).producer(producer)

    async def of(self, place: Place, log: Log) -> list[KnownProducer]:
        """Return all that a partition remembers, the one that has sent the latest batch last."""
        sequences = await self._sequences(place, log)
        return [KnownProducer(one, each.epoch, each.last_sequence, each.timestamp) for one, each in sequences]

    async def _sequences(self, place: Place, log: Log) -> Sequences:
        """Return those of a partition, read again if its log was truncated."""
        found = self._known.get(place)
        if found is None or found.epoch != log.view().manifest.epoch:
            made = await self._workers.run(partial(Sequences, log))
            present = self._known.get(place)
            if present is None or present is found:
                self._known[place] = made
                if len(self._known) > MOST_PARTITIONS:  # the oldest is read again when it is needed
                    del self._known[next(iter(self._known))]
            found = self._known[place]
        return found
