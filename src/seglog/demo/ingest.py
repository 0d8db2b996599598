"""Events into a topic, batch after batch as a producer would send them, and what the topic looks like
afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.config import LogConfig
from seglog.errors import CorruptLog
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import pyarrow as pa

PARTITIONS = 4
BATCH_ROWS = 4_000
SEGMENT_BYTES = 1024 * 1024  # small, so that a year of flights rolls many times


def ingest(events: pa.Table, path: Path, progress: Callable[[int], object]) -> Topic:
    """Create a topic at `path`, append all events and sync; progress gets the rows of each batch. Returns it
    open.
    """
    topic = Topic.create(path, partitions=PARTITIONS, config=LogConfig(segment_bytes=SEGMENT_BYTES))
    for start in range(0, events.num_rows, BATCH_ROWS):
        batch = events.slice(start, BATCH_ROWS)
        topic.append_batch(batch)
        progress(batch.num_rows)
    topic.sync()
    return topic


def verify(topic: Topic) -> None:
    """Read every byte of the topic back and check it; CorruptLog names the first problem."""
    for number in range(topic.partitions):
        report = topic.partition(number).verify()
        if not report.ok:
            raise CorruptLog(f"partition {number}: {report.problems[0]}")
