"""`seglog.spark.table_stream`: the table first, then the log; each row once, across restarts, retention and merges."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.exceptions import ForbiddenError
from pyspark.sql import SparkSession
from pyspark.sql.streaming import StreamingQuery

import seglog
import seglog.spark
from seglog import LogConfig, Retention, Topic
from seglog.errors import InvalidArgument
from seglog.table import sync
from seglog.table.warehouse import Warehouse
from tests.conftest import with_prompt_workers
from tests.spark.test_warehouse import append, rows
from tests.table.conftest import Row, logged
from tests.table.rest_catalog import RestCatalog
from tests.table.test_catalogs import Properties, rest

__all__ = ["rest"]  # a fixture
pytestmark = pytest.mark.spark


class Case:
    """A topic, its table, and a stream of both into Parquet. The directories' names need quoting in URLs."""

    def __init__(self, directory: Path, topic: Topic) -> None:
        self.topic = topic
        self.directory = directory
        self.everything: list[Row] = []

    @property
    def table(self) -> Path:
        return self.directory / "ware house" / "orders"

    def append(self, count: int, text: str) -> None:
        append(self.topic, count, text)
        self.everything = sorted({*self.everything, *logged(self.topic)})

    def sync(self) -> None:
        sync(self.topic.path, self.table.parent, active=True)

    def expire(self) -> None:
        """Let the log delete all that its table has, but the newest segments."""
        for number in range(self.topic.partitions):
            self.topic.partition(number).expire()

    def start(self, spark: SparkSession, *, now: bool = True, **options: Any) -> StreamingQuery:
        checkpoint = str(self.directory / "check point")
        frame = seglog.spark.table_stream(
            spark,
            self.table,
            checkpoint=checkpoint,
            files_per_trigger=1,
            options={"maxOffsetsPerTrigger": "25"},
            **options,
        )
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        return (writer.trigger(availableNow=True) if now else writer).start(str(self.directory / "out"))

    def run(self, spark: SparkSession, **options: Any) -> list[tuple[int, int]]:
        """Read what there is; return how many rows of the table and of the log each micro-batch had."""
        query = self.start(spark, **options)
        query.awaitTermination()
        return batches(query)

    def result(self, spark: SparkSession) -> list[Row]:
        return rows(spark.read.parquet(str(self.directory / "out")))


def batches(query: StreamingQuery) -> list[tuple[int, int]]:
    found = {}
    for progress in query.recentProgress:
        table, log = (source["numInputRows"] for source in progress["sources"])
        if table or log:
            found[progress["batchId"]] = (table, log)
    return [found[number] for number in sorted(found)]


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    config = LogConfig(segment_bytes=4096, retention=Retention(bytes=8192))
    with Topic.create(tmp_path / "orders", partitions=2, config=config) as topic:
        yield Case(tmp_path, topic)


def test_the_table_is_read_first_and_then_the_log_each_row_once(spark: SparkSession, case: Case) -> None:
    for text in ("a", "b"):
        case.append(60, text)
        case.sync()
    case.append(50, "after")
    found = case.run(spark)
    assert sum(table for table, _ in found) == 120
    assert sum(log for _, log in found) == 50
    kinds = ["table" if table else "log" for table, _ in found]
    assert kinds == sorted(kinds, reverse=True)  # never both in a micro-batch, and the table first
    assert len(found) == 4 + 2  # files, and 25 records at a time
    assert case.result(spark) == case.everything
    case.sync()
    assert case.run(spark) == []  # what the table has now was read from the log
    case.append(10, "later")
    assert sum(log for _, log in case.run(spark)) == 10
    assert case.result(spark) == case.everything


@pytest.mark.parametrize("stops", [2, pytest.param(4, marks=pytest.mark.proof)])
def test_a_stream_stopped_at_any_batch_continues_while_everything_moves(
    spark: SparkSession, case: Case, stops: int
) -> None:
    for text in ("a", "b"):
        case.append(60, text)
        case.sync()
    for number in range(stops):
        query = case.start(spark, now=False)
        while not batches(query):
            assert query.isActive, query.exception()
            time.sleep(0.01)
        query.stop()
        case.append(600 // stops, f"more{number}")  # so that the log deletes what the stream has not read
        case.sync()
        case.expire()
    assert all(case.topic.partition(number).lowest_offset > 0 for number in range(2))
    case.run(spark)
    assert case.result(spark) == case.everything


def test_a_position_that_the_log_has_deleted_is_read_from_the_table(spark: SparkSession, case: Case) -> None:
    for number in range(10):
        case.append(100, f"a{number}-")
        case.sync()
    case.expire()
    lowest = case.topic.partition(0).lowest_offset
    assert lowest > 0
    reader = spark.read.format("seglog").option("table", str(case.table)).option("includeHeaders", "true")
    assert rows(reader.load(str(case.topic.path))) == case.everything
    few = {"orders": {"0": lowest - 3, "1": 0}}, {"orders": {"0": lowest + 2, "1": 0}}
    part = reader.option("startingOffsets", json.dumps(few[0])).option("endingOffsets", json.dumps(few[1]))
    assert [row.offset for row in part.load(str(case.topic.path)).collect()] == list(range(lowest - 3, lowest + 2))
    moment = case.everything[5][2] // 1000
    timed = spark.read.format("seglog").option("table", str(case.table)).option("startingTimestamp", moment)
    later = sum(row[2] >= moment * 1000 for row in case.everything)
    assert timed.load(str(case.topic.path)).count() == later > 900


def test_rows_that_were_cut_off_the_log_are_left_out(spark: SparkSession, case: Case) -> None:
    case.append(30, "a")
    case.sync()
    case.topic.partition(0).truncate(3)
    case.topic.append(b"in place of another", key=b"k0")
    case.run(spark)
    assert case.result(spark) == logged(case.topic)


def test_the_snapshot_that_a_stream_reads_is_kept(spark: SparkSession, case: Case) -> None:
    case.append(30, "a")
    case.sync()
    seglog.spark.table_stream(spark, case.table, checkpoint=case.directory / "c")
    warehouse = Warehouse(case.table.parent)
    table = warehouse.table("orders")
    (kept,) = [one.snapshot_id for name, one in table.refs().items() if name.startswith("seglog-stream-")]
    for text in ("b", "c"):
        case.append(30, text)
        with seglog.table.TableSync(case.topic.path, case.table.parent, active=True, snapshots=timedelta(0)) as tables:
            tables.step()
    table.refresh()
    assert {one.snapshot_id for one in table.snapshots()} == {kept, table.current_snapshot().snapshot_id}
    warehouse.close()


def test_a_table_that_may_only_be_read_is_streamed_too(
    spark: SparkSession, case: Case, rest: tuple[RestCatalog, Properties], caplog: pytest.LogCaptureFixture
) -> None:
    catalog, properties = rest
    case.append(30, "a")
    sync(case.topic.path, case.table.parent, active=True, catalog=properties)
    case.append(10, "after")

    def refuse() -> None:
        raise ForbiddenError("this token may only read")

    catalog.before_commit = refuse
    assert sum(table for table, _ in case.run(spark, catalog=properties)) == 30
    assert "kept only as long" in caplog.text
    assert case.result(spark) == case.everything


def test_a_table_without_files_is_a_stream_of_the_log(spark: SparkSession, case: Case) -> None:
    sync(case.topic.path, case.table.parent)
    case.append(30, "a")
    query = seglog.spark.table_stream(spark, case.table, checkpoint=case.directory / "c")
    out = query.writeStream.format("parquet").option("checkpointLocation", str(case.directory / "c"))
    out.trigger(availableNow=True).start(str(case.directory / "out")).awaitTermination()
    assert case.result(spark) == case.everything


def test_bad_arguments_are_named(spark: SparkSession, case: Case) -> None:
    sync(case.topic.path, case.table.parent)
    with pytest.raises(InvalidArgument, match="startingOffsets is set by table_stream"):
        seglog.spark.table_stream(spark, case.table, checkpoint="c", options={"startingOffsets": "earliest"})
    with pytest.raises(InvalidArgument, match="files_per_trigger is 0"):
        seglog.spark.table_stream(spark, case.table, checkpoint="c", files_per_trigger=0)


KILLED = """
    import sys, seglog.spark
    from seglog.spark.session import local_session
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    spark = local_session("killed", master="local[2]", config=quick)
    table, checkpoint, out = sys.argv[1:]
    frame = seglog.spark.table_stream(
        spark, table, checkpoint=checkpoint, files_per_trigger=1, options={"maxOffsetsPerTrigger": "25"}
    )
    frame.writeStream.format("parquet").option("checkpointLocation", checkpoint).start(out).awaitTermination()
"""


@pytest.mark.parametrize(
    "batch",
    [
        pytest.param(1, marks=pytest.mark.deep, id="in the table"),
        pytest.param(4, marks=pytest.mark.proof, id="in the log"),
    ],
)
def test_a_stream_killed_in_the_table_or_in_the_log_continues(spark: SparkSession, case: Case, batch: int) -> None:
    for text in ("a", "b"):  # four files: batches 0 to 3
        case.append(60, text)
        case.sync()
    case.append(100, "after")
    places = [str(case.table), str(case.directory / "check point"), str(case.directory / "out")]
    environment = with_prompt_workers({**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    command = [sys.executable, "-c", textwrap.dedent(KILLED), *places]
    process = subprocess.Popen(command, env=environment, start_new_session=True)
    try:
        while not (case.directory / "check point" / "commits" / str(batch)).exists():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # Python and the Java it started
        process.wait()
    case.sync()
    case.expire()
    case.run(spark)
    assert case.result(spark) == case.everything
