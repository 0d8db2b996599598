"""The topic into a table by a streaming query, which is deliberately stopped once in the middle and restarted.

The table is written by Spark's Parquet sink: every micro-batch is in it once or not at all. Other steps compare the
results from the table with the CSV, and so check that the restart lost and repeated nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import SparkSession

from seglog.demo.queries import in_columns

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

    from seglog.topic import Topic

BATCHES = 12  # about how many micro-batches read the topic
STOP_AFTER = 3
_POLL_SECONDS = 0.02


class Streamed(NamedTuple):
    """How many micro-batches each run of the query finished. `second`: after the restart."""

    first: int
    second: int


def into_table(spark: SparkSession, topic: Topic, table: Path, checkpoint: Path) -> Streamed:
    """Stream the whole topic into `table`; stop the query after STOP_AFTER micro-batches and restart it."""
    interrupted = _start(spark, topic, table, checkpoint)
    while not interrupted.awaitTermination(_POLL_SECONDS) and _finished(interrupted) < STOP_AFTER:
        pass
    interrupted.stop()
    first = _finished(interrupted)
    resumed = _start(spark, topic, table, checkpoint)
    resumed.awaitTermination()
    return Streamed(first, _finished(resumed))


def _start(spark: SparkSession, topic: Topic, table: Path, checkpoint: Path) -> StreamingQuery:
    records = sum(len(topic.partition(number)) for number in range(topic.partitions))
    stream = (
        spark.readStream.format("seglog")
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", max(1, records // BATCHES))
        .load(str(topic.path))
    )
    return (
        in_columns(stream)
        .writeStream.format("parquet")
        .option("path", str(table))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )


def _finished(query: StreamingQuery) -> int:
    """Return how many micro-batches with records a run has finished."""
    return len({progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]})
