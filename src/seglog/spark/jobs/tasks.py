"""How a job reads: by the data source, on pinned offsets, or in tasks of its own that open logs themselves.

By `spread` no row passes through the JVM on its way in: a task gets its share and runs the engine's kernels on it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, TypeVar

from seglog.spark import register
from seglog.spark.jobs.pins import positions
from seglog.topic.positions import to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from seglog.spark.jobs.pins import Pin
    from seglog.spark.read.plan import OffsetRange
    from seglog.spark.read.scan import RangeScan

T = TypeVar("T")
MARK = -1  # no record has this offset


def read(spark: SparkSession, path: str | Path, pins: Sequence[Pin], columns: Sequence[str]) -> DataFrame:
    """Return columns of the pinned records by the data source, which cuts them into many tasks.

    Two reads in one query plan two snapshots: the pins make them the same.
    """
    register(spark)
    stops = positions(pins)
    return (
        spark.read.format("seglog")
        .option("assign", json.dumps({topic: sorted(of) for topic, of in stops.items()}))  # none made since
        .option("columns", ",".join(columns))
        .option("includeHeaders", "headers" in columns)
        .option("startingOffsets", to_json(positions(pins, start=True)))
        .option("endingOffsets", to_json(stops))
        .load(str(path))
    )


def with_marks(frame: DataFrame, pins: Sequence[Pin]) -> DataFrame:
    """Return a frame of `read` and a row of offset MARK, no key and else nulls for each log.

    Behind a shuffle whoever meets a log's mark knows that all of the frame has been read, and can look what became of
    the log meanwhile; a log without rows has its mark, too.
    """
    marks = [(one.range.topic, one.range.partition, MARK) for one in pins]
    made = frame.sparkSession.createDataFrame(marks, "topic string, partition int, offset bigint")
    return frame.unionByName(made, allowMissingColumns=True)


def records(part: OffsetRange, columns: Sequence[str]) -> RangeScan:
    """Return columns of the records of one log, as Arrow batches in offset order: what a task of `spread` reads."""
    from seglog.spark.read.pushdown import EVERYTHING  # noqa: PLC0415 - pyarrow and numba load in the task
    from seglog.spark.read.scan import RangeScan  # noqa: PLC0415 - as above

    return RangeScan(part, columns, EVERYTHING, fail_on_data_loss=True)


def spread(
    spark: SparkSession, shares: Sequence[T], work: Callable[[T], Iterator[pa.RecordBatch]], schema: StructType | str
) -> DataFrame:
    """Return what `work` yields for every share, each share a task of its own.

    work: called on an executor, so it and the shares must be picklable and seglog importable there. The batches must
    have the columns of `schema`.
    """
    if not shares:
        return spark.createDataFrame([], schema)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from work(shares[number])

    return spark.range(0, len(shares), 1, len(shares)).mapInArrow(run, schema)
