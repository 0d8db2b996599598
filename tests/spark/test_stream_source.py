"""Format "seglog" as a stream in a real Spark: checkpoint and restart lose nothing and repeat nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet
import pytest
from pyspark.errors import StreamingQueryException

import seglog
from seglog.topic import Topic
from seglog.topic.layout import description
from tests.conftest import with_prompt_workers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[Topic]:
    with Topic.create(tmp_path / "orders", partitions=3, config=SMALL) as opened:
        yield opened


def fill(topic: Topic, records: int) -> None:
    topic.append_batch(pa.table({"value": [b"%040d" % number for number in range(records)]}))


def stream(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    texts = {"startingOffsets": "earliest", **options}
    return spark.readStream.format("seglog").options(**texts).load(str(path)).select("partition", "offset")


def run(spark: SparkSession, tmp_path: Path, path: Path | None = None, **options: Any) -> list[int]:
    """Run a query over what there is, into Parquet; return the sizes of its micro-batches."""
    frame = stream(spark, path or tmp_path / "orders", **options)
    writer = frame.writeStream.format("parquet").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
    query.awaitTermination()
    return sizes(query)


def sizes(query: StreamingQuery) -> list[int]:
    return [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]


def result(tmp_path: Path) -> list[tuple[int, int]]:
    rows = []
    for file in (tmp_path / "out").glob("*.parquet"):
        rows += [(row["partition"], row["offset"]) for row in pa.parquet.read_table(file).to_pylist()]
    return sorted(rows)


def written(topic: Topic) -> list[tuple[int, int]]:
    return [
        (number, offset) for number in range(topic.partitions) for offset in range(topic.partition(number).next_offset)
    ]


def last_offsets(tmp_path: Path) -> Any:
    logged = (tmp_path / "checkpoint" / "offsets").iterdir()
    newest = max((file for file in logged if file.name.isdecimal()), key=lambda file: int(file.name))
    return json.loads(newest.read_text().splitlines()[-1])


def test_restarts_lose_nothing_and_repeat_nothing(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    fill(topic, 400)
    assert run(spark, tmp_path, maxOffsetsPerTrigger=150) == [150, 150, 100]
    assert run(spark, tmp_path, maxOffsetsPerTrigger=150) == []
    fill(topic, 60)
    with seglog.open(tmp_path / "coming", SMALL) as log:  # elsewhere: the topic is open for writing
        log.append(b"new")
    (tmp_path / "coming").rename(tmp_path / "orders" / "3")
    known = description.read(tmp_path / "orders")
    description.write(tmp_path / "orders", description.Description(known.name, 4, known.id))
    assert run(spark, tmp_path) == [61]
    assert result(tmp_path) == [*written(topic), (3, 0)]
    ends = {partition: part["offset"] for partition, part in last_offsets(tmp_path)["orders"].items()}
    assert ends == {"0": 154, "1": 153, "2": 153, "3": 1}


def test_a_query_that_goes_on_follows_appends_and_rolls(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    query = (
        stream(spark, tmp_path / "orders", startingOffsets="latest")
        .writeStream.foreachBatch(lambda frame, number: seen.extend(map(tuple, frame.collect())))
        .start()
    )
    try:
        query.processAllAvailable()
        for _ in range(3):
            fill(topic, 150)
            query.processAllAvailable()
        assert topic.partition(0).next_offset == 150
        assert len(topic.partition(0).segments) > 2
    finally:
        query.stop()
    assert sorted(seen) == written(topic)


def test_a_compacted_looking_log_with_gaps_is_limited_by_records(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        for offset in range(0, 500, 5):
            log.append_at(offset, seglog.Record(offset, 0, None, b"%040d" % offset, ()))
    assert run(spark, tmp_path, tmp_path / "log", maxOffsetsPerTrigger=30) == [30, 30, 30, 10]
    assert result(tmp_path) == [(0, offset) for offset in range(0, 500, 5)]


def test_loss_stops_the_query_with_one_clear_error(spark: SparkSession, topic: Topic, tmp_path: Path) -> None:
    fill(topic, 90)
    run(spark, tmp_path)
    topic.partition(1).truncate(10)
    with pytest.raises(StreamingQueryException, match=r"truncated below offset 30; it ends at 10.*failOnDataLoss"):
        run(spark, tmp_path)
    fill(topic, 90)
    assert run(spark, tmp_path, failOnDataLoss=False) == [90]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is for batch reads"),
        ({"subscribe": "bills"}, "option subscribe: there is no topic 'bills'"),
        ({"startingOffsets": '{"orders": {"0": 99, "1": 0, "2": 0}}'}, "option startingOffsets: offset 99"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger is '0'"),
    ],
)
def test_a_bad_option_gives_one_error_that_names_it(
    spark: SparkSession, topic: Topic, tmp_path: Path, options: dict[str, str], message: str
) -> None:
    with pytest.raises(Exception) as caught:
        run(spark, tmp_path, **options)
    assert f"seglog.errors.InvalidArgument: {message}" in str(caught.value)


KILLED = """
    import sys
    from seglog.spark.session import local_session
    quick = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1"}
    spark = local_session("killed", master="local[2]", config=quick)
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": 40}
    frame = spark.readStream.format("seglog").options(**options).load(sys.argv[1]).select("partition", "offset")
    query = frame.writeStream.format("parquet").option("checkpointLocation", sys.argv[2]).start(sys.argv[3])
    query.awaitTermination()
"""


def start_query(tmp_path: Path) -> subprocess.Popen[bytes]:
    places = [str(tmp_path / name) for name in ("orders", "checkpoint", "out")]
    environment = with_prompt_workers({**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})
    command = [sys.executable, "-c", textwrap.dedent(KILLED), *places]
    return subprocess.Popen(command, env=environment, start_new_session=True)


@pytest.mark.no_cover
def test_a_query_killed_in_the_middle_goes_on_as_if_nothing_had_been(
    spark: SparkSession, topic: Topic, tmp_path: Path
) -> None:
    fill(topic, 3000)
    process = start_query(tmp_path)
    try:
        while not (tmp_path / "checkpoint" / "commits" / "2").exists():
            assert process.poll() is None
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)  # Python and the Java it started
        process.wait()
    assert 0 < sum(run(spark, tmp_path)) < 3000
    rows = spark.read.parquet(str(tmp_path / "out"))  # by its own list of the files that count
    assert sorted(map(tuple, rows.collect())) == written(topic)
