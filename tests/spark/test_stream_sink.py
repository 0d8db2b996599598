"""df.writeStream.format("seglog"): each micro-batch is stored once, whatever is run again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.log.writer import LogWriter
from seglog.spark.write.options import WriteOptions
from seglog.spark.write.sink import Staged, StreamSink
from seglog.spark.write.task import StagingTask
from seglog.topic import Topic, partition_of
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

PARTITIONS = 3


@dataclass(frozen=True)
class Pipe:
    """A topic `input` that a query reads, a topic `output` that it writes, and its checkpoint."""

    root: Path

    def feed(self, *values: bytes, key: bytes = b"k") -> None:
        with Topic.open(self.root / "input") as topic:
            topic.append_batch(pa.table({"value": list(values), "key": [key] * len(values)}))

    def rows(self, spark: SparkSession) -> DataFrame:
        """Return the stream of what was fed, from the beginning."""
        source = spark.readStream.format("seglog").option("startingOffsets", "earliest")
        return source.load(str(self.root / "input")).select("key", "value")

    def start(
        self,
        frame: DataFrame,
        *,
        mode: str = "append",
        once: bool = True,
        checkpoint: str = "checkpoint",
        **options: Any,
    ) -> StreamingQuery:
        writer = frame.writeStream.format("seglog").outputMode(mode).options(**options)
        writer = writer.option("checkpointLocation", str(self.root / checkpoint))
        return (writer.trigger(availableNow=True) if once else writer).start(str(self.root / "output"))

    def run(self, frame: DataFrame, **settings: Any) -> StreamingQuery:
        """Process what is there."""
        query = self.start(frame, **settings)
        assert query.awaitTermination(HANG_SECONDS)
        return query

    def store_batches(self, frame: DataFrame, *, mode: str) -> None:
        """Process what is there by foreachBatch, each batch a write that names the query and the batch."""
        output = str(self.root / "output")

        def store(rows: DataFrame, batch: int) -> None:
            rows.write.format("seglog").mode("append").options(queryId="mine", batchId=batch).save(output)

        writer = frame.writeStream.outputMode(mode).foreachBatch(store).trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self.root / "checkpoint")).start()
        assert query.awaitTermination(HANG_SECONDS)

    def forget_commit(self, batch: int) -> None:
        """Make Spark's checkpoint what it is if the driver dies behind the sink's commit: the batch is replayed."""
        for name in (f"{batch}", f".{batch}.crc"):
            (self.root / "checkpoint" / "commits" / name).unlink()

    def output(self) -> list[bytes | None]:
        """Return all stored values, sorted; each partition is sound and nothing stays staged or was set aside."""
        values = []
        with Topic.open(self.root / "output", mode="r") as topic:
            for number in range(topic.partitions):
                log = topic.partition(number)
                assert log.verify().ok
                values += [record.value for record in log.scan()]
        assert [list(staging.iterdir()) for staging in self.root.glob("output/*/staging")] == [[]] * PARTITIONS
        assert list(self.root.glob("output/*/quarantine/*")) == []
        assert list(self.root.glob("output/txn/*")) == []
        return sorted(values, key=lambda value: value or b"")


@pytest.fixture
def pipe(tmp_path: Path) -> Pipe:
    Topic.create(tmp_path / "input", partitions=1).close()
    Topic.create(tmp_path / "output", partitions=PARTITIONS, config=seglog.LogConfig(segment_bytes=4096)).close()
    return Pipe(tmp_path)


def numbered(start: int, stop: int) -> list[bytes]:
    return [b"%05d" % number for number in range(start, stop)]


# --- over restarts of a real query


@pytest.mark.spark
def test_a_query_that_is_started_again_goes_on_where_it_was(spark: SparkSession, pipe: Pipe) -> None:
    for number in range(3):
        pipe.feed(*numbered(100 * number, 100 * number + 100))
        pipe.run(pipe.rows(spark))
    assert pipe.output() == numbered(0, 300)


@pytest.mark.spark
def test_a_query_that_is_stopped_while_it_runs_loses_and_repeats_nothing(spark: SparkSession, pipe: Pipe) -> None:
    for number in range(2):
        query = pipe.start(pipe.rows(spark), once=False)
        try:
            for part in range(3):
                start = 300 * number + 100 * part
                pipe.feed(*numbered(start, start + 100))
                if part < 2:  # the last part is caught by `stop` wherever it is
                    query.processAllAvailable()
        finally:
            query.stop()
    pipe.run(pipe.rows(spark))
    assert pipe.output() == numbered(0, 600)


@pytest.mark.spark
def test_a_batch_that_spark_replays_is_not_stored_twice(spark: SparkSession, pipe: Pipe) -> None:
    keyed = pipe.rows(spark).selectExpr("value AS key", "value")
    for number in range(2):
        pipe.feed(*numbered(100 * number, 100 * number + 100))
        pipe.run(keyed)
    pipe.forget_commit(1)
    pipe.feed(*numbered(200, 300))
    query = pipe.run(keyed)
    assert [progress.batchId for progress in query.recentProgress] == [1, 2]
    assert pipe.output() == numbered(0, 300)


@pytest.mark.spark
def test_update_is_refused_by_spark_and_stored_once_by_foreach_batch(spark: SparkSession, pipe: Pipe) -> None:
    counts = pipe.rows(spark).groupBy("key").count().selectExpr("key", "concat(string(key), ' ', count) AS value")
    pipe.feed(b"v", b"v", key=b"a")
    with pytest.raises(Exception, match="seglog does not support Update mode"):
        pipe.run(counts, mode="update")
    (pipe.root / "checkpoint").rename(pipe.root / "refused")
    pipe.store_batches(counts, mode="update")
    pipe.feed(b"v", key=b"b")
    pipe.store_batches(counts, mode="update")
    pipe.forget_commit(1)
    pipe.feed(b"v", key=b"a")
    pipe.store_batches(counts, mode="update")
    assert pipe.output() == [b"a 2", b"a 3", b"b 1"]
    with Topic.open(pipe.root / "output", mode="r") as topic:
        place = topic.partition(partition_of(b"a", PARTITIONS))
        assert [record.value for record in place.scan() if record.key == b"a"] == [b"a 2", b"a 3"]


@pytest.mark.spark
def test_complete_stores_the_whole_result_each_time(spark: SparkSession, pipe: Pipe) -> None:
    counts = pipe.rows(spark).groupBy("key").count().selectExpr("key", "concat(string(key), ' ', count) AS value")
    pipe.feed(b"v", b"v", key=b"a")
    pipe.run(counts, mode="complete")
    pipe.feed(b"v", key=b"b")
    pipe.run(counts, mode="complete")
    assert pipe.output() == [b"a 2", b"a 2", b"b 1"]


@pytest.mark.spark
def test_batches_without_rows_leave_no_trace(spark: SparkSession, pipe: Pipe) -> None:
    pipe.feed(*numbered(0, 10))
    query = pipe.run(pipe.rows(spark).where("value IS NULL"))
    assert [progress.numInputRows for progress in query.recentProgress] == [10]
    assert pipe.output() == []
    with Topic.open(pipe.root / "output", mode="r") as topic:
        assert topic.partition(0).published(str(query.id)) is None


@pytest.mark.spark
def test_two_queries_write_to_one_topic_beside_each_other(spark: SparkSession, pipe: Pipe) -> None:
    pipe.feed(*numbered(0, 200))
    halves = [pipe.rows(spark).where(f"int(string(value)) {half} 100") for half in ("<", ">=")]
    queries = [pipe.start(half, checkpoint=f"checkpoint of {number}") for number, half in enumerate(halves)]
    assert all(query.awaitTermination(HANG_SECONDS) for query in queries)
    assert pipe.output() == numbered(0, 200)


@pytest.mark.spark
def test_a_query_that_failed_goes_on_once_its_cause_is_gone(spark: SparkSession, pipe: Pipe) -> None:
    pipe.feed(*numbered(0, 100))
    pipe.run(pipe.rows(spark))
    pipe.feed(*numbered(100, 200))
    (pipe.root / "output").rename(pipe.root / "away")
    with pytest.raises(Exception, match="LogNotFound: option path"):
        pipe.run(pipe.rows(spark))
    (pipe.root / "away").rename(pipe.root / "output")
    pipe.run(pipe.rows(spark))
    assert pipe.output() == numbered(0, 200)


@pytest.mark.spark
@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        (["key"], {}, "column value is missing"),
        (["value", "1 AS colour"], {}, "column colour is unknown"),
        (["value"], {"acks": "all"}, "option acks is unknown; writing takes path, topic"),
        (["value"], {"queryId": "q"}, "option queryid is unknown"),
        (["value", "7 AS partition"], {}, "column partition names 7; there are 0 to 2"),
    ],
)
def test_what_the_sink_refuses_fails_the_query_and_is_told(
    spark: SparkSession, pipe: Pipe, select: list[str], options: dict[str, str], message: str
) -> None:
    pipe.feed(b"v")
    with pytest.raises(Exception) as caught:
        pipe.run(pipe.rows(spark).selectExpr(*select), **options)
    assert message in str(caught.value)
    assert pipe.output() == []


# --- the sink alone, called as Spark calls it


def messages(pipe: Pipe, batch: int, *tasks: Sequence[bytes]) -> list[Staged | None]:
    """Return what tasks that stage these values send to the driver; a task that failed sends None."""
    sent: list[Staged | None] = [None]
    for values in tasks:
        with StagingTask(str(pipe.root / "output"), None, f"q-{batch}") as task:
            task.take(pa.record_batch({"value": list(values), "key": list(values)}))
            sent.append(Staged("q", batch, task.finish()))
    return sent


@pytest.fixture
def sink(pipe: Pipe) -> StreamSink:
    return StreamSink(WriteOptions.parse({"path": str(pipe.root / "output")}, streaming=True))


def test_a_commit_that_is_called_again_stores_nothing_again(pipe: Pipe, sink: StreamSink) -> None:
    first = messages(pipe, 0, numbered(0, 50), numbered(50, 100))
    sink.commit(first, 0)
    sink.commit(first, 0)  # its stages are gone by now
    sink.commit(messages(pipe, 1, numbered(100, 200)), 1)
    sink.commit(messages(pipe, 0, numbered(0, 100)), 0)  # an old batch, staged anew
    assert pipe.output() == numbered(0, 200)


def test_a_batch_that_was_aborted_leaves_nothing_and_can_be_committed_later(pipe: Pipe, sink: StreamSink) -> None:
    sink.abort(messages(pipe, 0, numbered(0, 50)), 0)
    assert pipe.output() == []
    sink.commit(messages(pipe, 0, numbered(0, 100)), 0)
    assert pipe.output() == numbered(0, 100)


def test_an_abort_behind_a_commit_removes_nothing(pipe: Pipe, sink: StreamSink) -> None:
    sent = messages(pipe, 0, numbered(0, 100))
    sink.commit(sent, 0)
    sink.abort(sent, 0)
    assert pipe.output() == numbered(0, 100)


@pytest.mark.parametrize("partition", range(PARTITIONS))
@pytest.mark.parametrize("error", [seglog.StorageError, seglog.LogPoisoned])
def test_a_commit_that_failed_half_way_is_finished_and_never_repeated(
    pipe: Pipe, sink: StreamSink, monkeypatch: pytest.MonkeyPatch, partition: int, error: type[seglog.StorageError]
) -> None:
    sink.commit(messages(pipe, 0, numbered(0, 100)), 0)
    publish = LogWriter.publish

    def failing(log: LogWriter, staged: Any, *, query: str, batch: int) -> range | None:
        if log.path.endswith(f"/{partition}"):
            raise error(5, "Input/output error", log.path)
        return publish(log, staged, query=query, batch=batch)

    sent = messages(pipe, 1, numbered(100, 150), numbered(150, 200))
    with monkeypatch.context() as patched, pytest.raises(error) as caught:
        patched.setattr(LogWriter, "publish", failing)
        sink.commit(sent, 1)
    assert "batch 1 of query 'q' is committed" in caught.value.__notes__[-1]
    sink.abort(sent, 1)  # as Spark does
    sink.commit(messages(pipe, 1, numbered(100, 200)), 1)  # and after a restart: staged anew, the same batch
    assert pipe.output() == numbered(0, 200)


def test_a_stage_that_vanished_fails_the_commit_before_anything_is_stored(pipe: Pipe, sink: StreamSink) -> None:
    sent = messages(pipe, 0, numbered(0, 100))
    for store in pipe.root.glob("output/1/staging/*/*/*.store"):
        store.unlink()
    with pytest.raises(seglog.CorruptLog, match="write the batch again"):
        sink.commit(sent, 0)
    sink.abort(sent, 0)
    assert pipe.output() == []


def test_rows_without_a_query_and_a_batch_are_refused(pipe: Pipe, sink: StreamSink) -> None:
    with pytest.raises(seglog.InvalidArgument, match="might be stored twice"):
        sink.write(iter([]))
