"""Events into a topic, batch by batch as a producer would send them, and the topic's state afterwards."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

from seglog.config import LogConfig, Retention
from seglog.errors import CorruptLog
from seglog.log.opening import open_log
from seglog.storage import MemoryStorage
from seglog.topic import Topic
from seglog.topic.partition_split import split_by_partition

PARTITIONS = 4
BATCH_ROWS = 4_000
SEGMENT_BYTES = 1024 * 1024  # small, so that a year of flights rolls many times


def compile_kernels(events: pa.Table) -> None:
    """Run one event through everything compiled, in memory, so that the machine code is cached on disk."""
    with open_log(MemoryStorage()) as log:
        log.append_batch(events.slice(0, 1))
        log.verify()
        log.to_arrow()
    split_by_partition(events.slice(0, 1), PARTITIONS, 0)


def create(path: Path) -> Topic:
    """Create the demo's empty topic at `path`. It can be compacted by key; events without a key are kept."""
    config = LogConfig(segment_bytes=SEGMENT_BYTES, retention=Retention(compact=True, unkeyed="keep"))
    return Topic.create(path, partitions=PARTITIONS, config=config)


def append(events: pa.Table, topic: Topic, progress: Callable[[int], object]) -> None:
    """Append all events batch by batch, then sync; progress gets the rows of each batch."""
    for start in range(0, events.num_rows, BATCH_ROWS):
        batch = events.slice(start, BATCH_ROWS)
        topic.append_batch(batch)
        progress(batch.num_rows)
    topic.sync()


def verify(topic: Topic) -> None:
    """Read and check every byte of the topic. Raises CorruptLog with the first problem."""
    for number in range(topic.partitions):
        report = topic.partition(number).verify()
        if not report.ok:
            raise CorruptLog(f"partition {number}: {report.problems[0]}")
