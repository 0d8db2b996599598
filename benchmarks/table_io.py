"""A log as a table: the sync against a plain Parquet write, and Spark reading the table against Parquet of its rows.

The plain write has the same batches, columns and compression, in one file. Spark's Parquet is written by Spark from the
log, uncompressed, as in `spark`. "format seglog" is the present source reading the log itself.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

import seglog
from benchmarks import table_lag
from benchmarks.data import keyed_table, record_bytes
from benchmarks.scale import Scale
from benchmarks.spark_io import CASES, SEGMENT_BYTES, noop, session
from benchmarks.timing import Figure, Side, in_turn, stopwatch
from seglog.table import files, sync
from seglog.table.schema import ARROW, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

GROUPS = 1000


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure the lag behind a writer, and values of 100 B and of 1 KiB with keys of 16 B."""
    yield from table_lag.figures(directory, table_lag.seconds_of(scale))
    with session() as spark:
        for label, value_bytes in CASES:
            yield from _Case(spark, directory / f"table-{value_bytes}", scale, label, value_bytes).figures()


class _Case:
    """One size of value: a log, its table, and the same rows in Parquet."""

    def __init__(self, spark: SparkSession, directory: Path, scale: Scale, label: str, value_bytes: int) -> None:
        self.spark, self.directory, self.label, self.repeats = spark, directory, label, scale.spark_repeats
        self.numbers = count()
        self.log, self.parquet, self.warehouse = directory / "log", directory / "parquet", directory / "warehouse"
        rows = keyed_table(value_bytes, min(scale.spark_rows * record_bytes(value_bytes), scale.spark_bytes))
        self.bytes = rows.num_rows * record_bytes(value_bytes)
        with seglog.open(self.log, seglog.LogConfig(segment_bytes=SEGMENT_BYTES)) as log:
            for batch in rows.to_batches(max_chunksize=max(1, rows.num_rows // 20)):
                log.append_batch(batch)
        sync(self.log, self.warehouse, active=True)
        written = self.source().select("offset", "partition", "timestamp", "key", "value")
        written.write.option("compression", "none").parquet(str(self.parquet))

    def source(self) -> DataFrame:
        return self.spark.read.format("seglog").load(str(self.log))

    def stored(self) -> DataFrame:
        return self.spark.read.parquet(str(self.parquet))

    def table(self) -> DataFrame:
        frame = seglog.spark.table(self.spark, self.warehouse / "log")
        return frame.select("offset", "partition", "timestamp", "key", "value")

    def figures(self) -> Iterator[Figure]:
        """Yield every figure of this size."""
        yield self.figure("table sync", "pyarrow's Parquet", 0.8, self.synced, self.plainly_written)
        for what, query in self.queries().items():
            yield self.figure(f"Spark table, {what}", "Parquet", 0.95, query(self.table), query(self.stored))
        yield self.figure("Spark source, noop", "Parquet", None, noop(self.source), noop(self.stored))

    def queries(self) -> dict[str, Callable[[Callable[[], DataFrame]], Side]]:
        """Return the queries: from a function that makes a frame to a side."""
        limit = self.stored().selectExpr("percentile_approx(timestamp, 0.95)").first()[0]
        return {
            "noop": noop,
            "sum(length(value))": lambda frame: self.collected(frame, lambda one: one.selectExpr("sum(length(value))")),
            "last 5 % by time": lambda frame: self.collected(
                frame, lambda one: one.where(one.timestamp >= limit).selectExpr("sum(length(value))")
            ),
            "group by key": lambda frame: self.collected(
                frame, lambda one: one.selectExpr(f"pmod(hash(key), {GROUPS}) AS key").groupBy("key").count()
            ),
        }

    @staticmethod
    def collected(frame: Callable[[], DataFrame], query: Callable[[DataFrame], DataFrame]) -> Side:
        def side() -> float:
            with stopwatch() as watch:
                query(frame()).collect()
            return watch.seconds

        return side

    def figure(self, what: str, against: str, aim: float | None, ours: Side, other: Side) -> Figure:
        mine, others = in_turn(ours, other, repeats=self.repeats)
        return Figure(
            name=f"{what}, {self.label}",
            against=against,
            ours=mine,
            other=others,
            work=self.bytes / 1e9,
            unit="GB",
            aim=aim,
        )

    def synced(self) -> float:
        """Synchronize into a new warehouse."""
        place = self.directory / f"synced-{next(self.numbers)}"
        with stopwatch() as watch:
            sync(self.log, place, active=True)
        shutil.rmtree(place)
        return watch.seconds

    def plainly_written(self) -> float:
        """Write the log's batches with pyarrow, from memory, without a sync to disk."""
        place = self.directory / f"plain-{next(self.numbers)}.parquet"
        with seglog.open(self.log, mode="r") as log:
            rows = [rows_of(batch, 0) for batch in log.batches(values="binary")]
        codecs = files.codecs_of(pa.Table.from_batches(rows[:1]))
        with (
            stopwatch() as watch,
            pq.ParquetWriter(
                place,
                ARROW,
                compression=codecs,
                compression_level={path: files.LEVEL for path, codec in codecs.items() if codec != "none"},
                use_dictionary=["partition", "key"],
            ) as writer,
        ):
            for batch in rows:
                writer.write_batch(batch)
        place.unlink()
        return watch.seconds
