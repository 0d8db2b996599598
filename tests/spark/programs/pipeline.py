"""A Spark driver: topic `input` -> topic `output`, for ever; it and what it starts may be killed at any moment.

    python pipeline.py DIRECTORY copy       what comes out is what goes in
    python pipeline.py DIRECTORY state      for each record of a key: its number among the key's records, and a checksum
                                            over all of them so far

One record in, one out, so that the output shows any loss, repetition or change of order within a key, wherever
micro-batches begin and end.
"""

from __future__ import annotations

import sys
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd  # type: ignore[import-untyped] # it ships no stubs
from harness import end_with_parent, say
from pyspark.errors import StreamingQueryException
from pyspark.sql.streaming.state import GroupStateTimeout

from seglog.spark.session import local_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

RECORDS_PER_BATCH = 2000


def step(count: int, checksum: int, value: bytes) -> tuple[int, int]:
    """Return the state of a key behind one more record."""
    return count + 1, zlib.crc32(value, checksum)


def shown(count: int, checksum: int) -> bytes:
    """Return a state as the value of an output record."""
    return b"%d %08x" % (count, checksum)


def fold(key: tuple[Any], frames: Iterator[pd.DataFrame], state: Any) -> Iterator[pd.DataFrame]:
    """Spark's side of `step`: all rows of one key in one micro-batch."""
    rows = pd.concat(list(frames)).sort_values("offset")
    count, checksum = state.get if state.exists else (0, 0)
    values = []
    for value in rows["value"]:
        count, checksum = step(count, checksum, bytes(value))
        values.append(shown(count, checksum))
    state.update((count, checksum))
    yield pd.DataFrame({"key": [key[0]] * len(values), "value": values})


def start(spark: SparkSession, root: Path, *, state: bool) -> StreamingQuery:
    """Start the query, or start it again from its checkpoint."""
    source = spark.readStream.format("seglog").option("startingOffsets", "earliest")
    rows = source.option("maxOffsetsPerTrigger", RECORDS_PER_BATCH).load(str(root / "input"))
    if state:
        rows = rows.groupBy("key").applyInPandasWithState(
            fold, "key binary, value binary", "count bigint, checksum bigint", "append", GroupStateTimeout.NoTimeout
        )
    sink = (
        rows.select("key", "value").writeStream.format("seglog").option("checkpointLocation", str(root / "checkpoint"))
    )
    return sink.start(str(root / "output"))


def main(root: Path, *, state: bool) -> None:
    """Run until killed. A query that failed, for a worker was killed, is started again in the same session."""
    end_with_parent()
    config = {
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
    }
    spark = local_session("pipeline", master="local[2,3]", config=config)
    while True:
        query = start(spark, root, state=state)
        say(started=str(query.id))
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            say(failed=str(error).splitlines()[0])


if __name__ == "__main__":
    main(Path(sys.argv[1]), state={"copy": False, "state": True}[sys.argv[2]])
