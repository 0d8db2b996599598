"""How a job reads: by the data source, on pinned offsets, or in tasks of its own that open logs themselves.

By `spread` no row passes through the JVM on its way in: a task gets its share and runs the engine's kernels on it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from seglog.spark import register
from seglog.spark.jobs.pins import EVERY_TOPIC, positions, to_json

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


def read(spark: SparkSession, path: str | Path, pins: Sequence[Pin], columns: Sequence[str]) -> DataFrame:
    """Return columns of the pinned records by the data source, which cuts them into many tasks.

    Two reads in one query plan two snapshots: the pins make them the same.
    """
    register(spark)
    return (
        spark.read.format("seglog")
        .option("subscribePattern", EVERY_TOPIC)
        .option("columns", ",".join(columns))
        .option("includeHeaders", "headers" in columns)
        .option("startingOffsets", to_json(positions(pins, start=True)))
        .option("endingOffsets", to_json(positions(pins)))
        .load(str(path))
    )


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
