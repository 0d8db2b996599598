"""Spark reading and writing a log, against Parquet of the same rows and against a data source of tuples.

All sides run in one session on two threads. Parquet is uncompressed. All sides read the rows to write from that
Parquet, so that reading it is part of every figure; tables are written once more than measured, to warm up.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import seglog
from benchmarks.data import keyed_table, record_bytes
from benchmarks.peers.tools import jars
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_turn, timed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

CASES = (("100 B", 100), ("1 KiB", 1024))
SEGMENT_BYTES = 128 * 1024 * 1024
KAFKA_SOURCE = ("spark-sql-kafka-0-10_2.13", "spark-token-provider-kafka-0-10_2.13", "kafka-clients", "commons-pool2")
SETTINGS = {"spark.driver.memory": "4g"}
SUM = "sum(length(value))"


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of 100 B and of 1 KiB with keys of 16 B."""
    with session() as spark:
        for label, value_bytes in CASES:
            yield from _Case(spark, directory / f"spark-{value_bytes}", scale, label, value_bytes).figures()


@contextmanager
def session() -> Iterator[SparkSession]:
    """Start Spark on two threads, with its Kafka source if available: the JVM keeps the jars with which it began."""
    from benchmarks.row_source import RowSource  # noqa: PLC0415 - importing pyspark takes a second
    from seglog.spark.session import local_session  # noqa: PLC0415 - as above

    spark = local_session("seglog benchmarks", master="local[2]", config=SETTINGS | _kafka_source())
    spark.dataSource.register(RowSource)
    try:
        yield spark
    finally:
        spark.stop()


def _kafka_source() -> dict[str, str]:
    """Return the setting that gives Spark its Kafka source; nothing if it is not available."""
    found = jars("spark-kafka", "kafka/spark.xml", f"-DincludeArtifactIds={','.join(KAFKA_SOURCE)}")
    return {} if found is None else {"spark.jars": ",".join(map(str, sorted(found.glob("*.jar"))))}


class _Case:
    """One size of value: a log and the same rows in Parquet."""

    def __init__(self, spark: SparkSession, directory: Path, scale: Scale, label: str, value_bytes: int) -> None:
        self.spark, self.directory, self.label, self.repeats = spark, directory, label, scale.spark_repeats
        self.numbers = count()
        self.log, self.parquet, self.rows_only = directory / "log", directory / "parquet", directory / "rows"
        total = min(scale.spark_rows * record_bytes(value_bytes), scale.spark_bytes)
        self._log(self.log, keyed_table(value_bytes, total))
        few = keyed_table(value_bytes, total // 5)  # tuples are slow: both sides of these figures get a fifth
        self._log(self.rows_only, few)
        self.read(self.log).write.option("compression", "none").parquet(str(self.parquet))
        self.read(self.rows_only).write.option("compression", "none").parquet(f"{self.parquet}-few")

    @staticmethod
    def _log(place: Path, table: object) -> None:
        with seglog.open(place, seglog.LogConfig(segment_bytes=SEGMENT_BYTES)) as log:
            log.append_batch(table)

    def read(self, place: Path, form: str = "seglog") -> DataFrame:
        """Return the data frame of a place."""
        return self.spark.read.format(form).load(str(place))

    def figures(self) -> Iterator[Figure]:
        """Yield every figure of this size."""
        log, parquet = (lambda: self.read(self.log)), (lambda: self.read(self.parquet, "parquet"))
        yield self.figure("read, noop", "Parquet", 1.0, noop(log), noop(parquet))
        yield self.figure(f"read, {SUM}", "Parquet", 0.8, self.total(self.values), self.total(parquet))
        yield self.figure("read, to Parquet", "Parquet", None, self.copied(log), self.copied(parquet))
        few, rows = (lambda: self.read(self.rows_only)), (lambda: self.read(self.rows_only, "seglog-rows"))
        yield self.figure("read, noop", "tuples", 3.0, noop(few), noop(rows))
        ours, theirs = self.written("seglog", self.parquet), self.copied(lambda: self.pairs(self.parquet))
        yield self.figure("write", "Parquet", 0.5, ours, theirs)
        some = Path(f"{self.parquet}-few")
        yield self.figure("write", "tuples", 5.0, self.written("seglog", some), self.written("seglog-rows", some))

    def figure(self, what: str, against: str, aim: float | None, ours: Side, other: Side) -> Figure:
        """Measure two sides."""
        mine, others = in_turn(ours, other, repeats=self.repeats)
        return Figure(
            name=f"Spark {what}, {self.label}", against=against, ours=mine, other=others, work=1, unit="run", aim=aim
        )

    def pairs(self, place: Path) -> DataFrame:
        """Return the rows to write: keys and values, from Parquet."""
        return self.read(place, "parquet").select("key", "value")

    # --- sides ----------------------------------------------------------------------------------------------------

    @staticmethod
    def total(frame: Callable[[], DataFrame]) -> Side:
        """Sum the lengths of the values."""
        return timed(lambda: frame().selectExpr(SUM).collect())

    def values(self) -> DataFrame:
        """Return the one column that the sum needs: Spark prunes Parquet's columns itself, but not those of Python
        sources.
        """
        return self.spark.read.format("seglog").option("columns", "value").load(str(self.log))

    def copied(self, frame: Callable[[], DataFrame]) -> Side:
        """Write to Parquet."""
        return self._fresh(lambda place: frame().write.option("compression", "none").parquet(str(place)))

    def written(self, form: str, source: Path) -> Side:
        """Write to a log."""

        def write(place: Path) -> None:
            self.pairs(source).write.format(form).mode("append").save(str(place))

        def prepare(place: Path) -> None:
            seglog.open(place, seglog.LogConfig(segment_bytes=SEGMENT_BYTES)).close()

        return self._fresh(write, prepare)

    def _fresh(self, write: Callable[[Path], None], prepare: Callable[[Path], None] = lambda _: None) -> Side:
        def side() -> float:
            place = self.directory / f"written-{next(self.numbers)}"
            prepare(place)
            seconds = timed(lambda: write(place))()
            shutil.rmtree(place)
            return seconds

        return side


def noop(frame: Callable[[], DataFrame]) -> Side:
    """Return a side that reads every column and discards it."""
    return timed(lambda: frame().write.format("noop").mode("overwrite").save())
