"""Stage the rows of one task: Spark's Arrow batches, split by topic and partition.

Rows are collected up to GATHER_BYTES first, since Spark passes about 10,000 at a time and a write per partition of each
would be small. Knows no Spark.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import Self

import pyarrow as pa
import pyarrow.compute as pc

from seglog.log.staging import Stage
from seglog.spark.write.destination import Destination, Share, find
from seglog.topic.idempotency.batches import without_marks
from seglog.topic.partition_split import split_by_partition

GATHER_BYTES = 32 * 1024 * 1024
_TAKEN = ("value", "key", "headers", "timestamp", "partition")


class StagingTask:
    """Stages rows until `finish`; without it nothing stays. topic: of all rows, None: from the column."""

    def __init__(self, path: str, topic: str | None, batch: str) -> None:
        self._path = path
        self._topic = topic
        self._batch = batch
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_bytes = 0
        self._destinations: dict[str | None, Destination] = {}
        self._stages: dict[tuple[str, int], Stage] = {}
        self._turns: dict[str, int] = {}

    def take(self, rows: pa.RecordBatch) -> None:
        """Take some rows; they are on disk after `finish` at the latest."""
        self._waiting.append(rows)
        self._waiting_bytes += rows.nbytes
        if self._waiting_bytes >= GATHER_BYTES:
            self._write()

    def finish(self) -> dict[str, Share]:
        """Return topic -> partition -> segments, all on disk."""
        self._write()
        staged: dict[str, Share] = {}
        for (topic, partition), stage in self._stages.items():
            staged.setdefault(topic, {})[partition] = stage.finish()
        return staged

    def _write(self) -> None:
        if self._waiting:
            for topic, rows in self._by_topic(pa.Table.from_batches(self._waiting)):
                taken = [name for name in rows.column_names if name in _TAKEN]
                self._write_to(self._destination(topic), without_marks(rows.select(taken)))
        self._waiting, self._waiting_bytes = [], 0

    def _by_topic(self, rows: pa.Table) -> Iterator[tuple[str | None, pa.Table]]:
        if self._topic is not None or "topic" not in rows.column_names:
            yield self._topic, rows
            return
        for topic in pc.unique(rows["topic"]).to_pylist():
            if topic is None:
                yield None, rows.filter(pc.is_null(rows["topic"]))
            else:
                yield topic, rows.filter(pc.equal(rows["topic"], topic))

    def _destination(self, topic: str | None) -> Destination:
        if topic not in self._destinations:
            self._destinations[topic] = find(self._path, topic)
        return self._destinations[topic]

    def _write_to(self, destination: Destination, rows: pa.Table) -> None:
        name = destination.name
        turn = self._turns.setdefault(name, zlib.crc32(self._batch.encode()) % destination.partitions)
        shares, self._turns[name] = split_by_partition(rows, destination.partitions, turn)
        for partition, share in shares.items():
            stage = self._stages.get((name, partition))
            if stage is None:
                stage = self._stages[name, partition] = destination.stage(partition, self._batch)
            stage.append_batch(share)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: object) -> None:
        if kind is not None:
            for stage in self._stages.values():
                stage.discard()
