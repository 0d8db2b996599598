"""How a job reads: by the data source at pinned offsets, or in its own tasks that open logs themselves.

With `spread` no row passes through the JVM on its way in: a task runs the engine's kernels on its part.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from seglog.spark import register
from seglog.spark.jobs.pins import Pin, positions
from seglog.spark.read.plan import OffsetRange
from seglog.topic.positions import to_json

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from seglog.spark.read.scan import RangeScan

T = TypeVar("T")
MARK = -1  # no record has this offset


def read(spark: SparkSession, path: str | Path, pins: Sequence[Pin], columns: Sequence[str]) -> DataFrame:
    """Return columns of the pinned records through the data source, which splits them into many tasks.

    Two reads in one query plan two snapshots: the pins make them equal.
    """
    register(spark)
    stops = positions(pins)
    return (
        spark.read.format("seglog")
        .option("assign", json.dumps({topic: sorted(of) for topic, of in stops.items()}))  # none created since
        .option("columns", ",".join(columns))
        .option("includeHeaders", "headers" in columns)
        .option("startingOffsets", to_json(positions(pins, start=True)))
        .option("endingOffsets", to_json(stops))
        .load(str(path))
    )


def with_marks(frame: DataFrame, pins: Sequence[Pin]) -> DataFrame:
    """Return a frame of `read` plus a row for each log with offset MARK, no key and nulls otherwise.

    After a shuffle, the task that meets a log's mark knows that the whole frame was read and can check what became of
    the log; a log without rows has a mark too.
    """
    marks = [(one.range.topic, one.range.partition, MARK) for one in pins]
    made = frame.sparkSession.createDataFrame(marks, "topic string, partition int, offset bigint")
    return frame.unionByName(made, allowMissingColumns=True)


def records(part: OffsetRange, columns: Sequence[str]) -> RangeScan:
    """Return columns of the records of one log, as Arrow batches in offset order; for a task of `spread`."""
    from seglog.spark.read.scan import RangeScan  # noqa: PLC0415 - imports pyarrow and numba in the task

    return RangeScan(part, columns, fail_on_data_loss=True)


def spread(
    spark: SparkSession, shares: Sequence[T], work: Callable[[T], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """Return what `work` yields for every share, each in its own task.

    work: runs on an executor, so it and the shares must be picklable and seglog importable there. The batches must have
    the columns of `schema`.
    """
    if not shares:
        return spark.createDataFrame([], schema)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(shares[number])

    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(run, schema)
