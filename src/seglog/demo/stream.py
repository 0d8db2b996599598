"""The topic into a table by a streaming query, which is stopped once in the middle, on purpose, and started again.

The table is what Spark's Parquet sink keeps: every micro-batch is in it once or not at all. Whether the restart lost or
repeated anything is not judged here; the results from the table are compared with the CSV later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seglog.demo.queries import in_columns

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from seglog.topic import Topic

BATCHES = 12  # in about so many micro-batches the topic is read
STOP_AFTER = 3
_POLL_SECONDS = 0.02


class Streamed(NamedTuple):
    """How many micro-batches each run of the query finished. `second` counts what was left for it."""

    first: int
    second: int


def into_table(spark: SparkSession, topic: Topic, table: Path, checkpoint: Path) -> Streamed:
    """Stream the whole topic into `table`; the query is stopped after STOP_AFTER micro-batches and started again."""
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
    """Return how many micro-batches a run has finished with records in them."""
    return len({progress["batchId"] for progress in query.recentProgress if progress["numInputRows"]})
