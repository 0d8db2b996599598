"""A write whose place does not exist: it fails before any task runs, or an option creates it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.errors import InvalidArgument, LogNotFound, NotALog
from seglog.spark.write.destination import check_place, create_topic
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.mark.spark
@pytest.mark.parametrize("select", [["'v' AS value"], ["'v' AS value", "'orders' AS topic"]])
def test_a_write_to_a_path_that_does_not_exist_fails_before_any_task_runs(
    spark: SparkSession, tmp_path: Path, select: list[str]
) -> None:
    ran = spark.sparkContext.accumulator(0)

    def note(rows):  # type: ignore[no-untyped-def] # as Spark calls it
        ran.add(1)
        yield from rows

    frame = spark.range(1).selectExpr(*select)
    watched = spark.createDataFrame(frame.rdd.mapPartitions(note), frame.schema)
    with pytest.raises(Exception) as caught:
        watched.write.format("seglog").mode("append").save(str(tmp_path / "missing"))
    assert f"LogNotFound: option path: there is neither a log nor a topic at {tmp_path}/missing" in str(caught.value)
    assert "option createTopic=true (--partitions N of the job that ingests) creates a topic" in str(caught.value)
    assert ran.value == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.spark
def test_an_option_creates_the_topic_for_a_write_and_for_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.range(6).selectExpr("string(id) AS key", "'v' AS value")
    options = {"createTopic": "true", "partitions": "4"}
    for _ in range(2):
        rows.write.format("seglog").mode("append").options(**options).save(str(tmp_path / "new"))
    with Topic.open(tmp_path / "new", mode="r") as topic:
        assert (topic.name, topic.partitions) == ("new", 4)
        assert sum(topic.partition(number).next_offset for number in range(4)) == 12
    stream = spark.readStream.format("seglog").option("startingOffsets", "earliest").load(str(tmp_path / "new"))
    writer = stream.select("key", "value").writeStream.format("seglog").options(createTopic="true", topic="copy")
    writer.option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True).start(
        str(tmp_path / "topics")
    ).awaitTermination()
    with Topic.open(tmp_path / "topics" / "copy", mode="r") as topic:
        assert (topic.name, topic.partitions, topic.partition(0).next_offset) == ("copy", 1, 12)


def test_a_topic_that_exists_is_used_unless_it_has_another_number_of_partitions(tmp_path: Path) -> None:
    create_topic(str(tmp_path / "t"), None, 2)
    create_topic(str(tmp_path / "t"), None, None)
    create_topic(str(tmp_path), "t", 2)
    with pytest.raises(InvalidArgument, match=r"option partitions is 3, but .* already has 2; omit the option"):
        create_topic(str(tmp_path / "t"), None, 3)


def test_a_topic_is_not_created_in_place_of_something_else(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a").touch()
    with pytest.raises(NotALog):
        create_topic(str(tmp_path / "files"), None, 1)
    with pytest.raises(InvalidArgument, match="cannot be the name of a topic"):
        create_topic(str(tmp_path), "..", 1)
    assert [one.name for one in tmp_path.rglob("*")] == ["files", "a"]


def test_a_place_is_sound_where_rows_can_go(tmp_path: Path) -> None:
    Topic.create(tmp_path / "topics" / "orders", partitions=1).close()
    seglog.open(tmp_path / "log").close()
    check_place(str(tmp_path / "topics"), None, by_column=True)
    check_place(str(tmp_path / "topics"), "orders", by_column=False)
    check_place(str(tmp_path / "log"), None, by_column=False)
    with pytest.raises(InvalidArgument, match="set option or column topic"):
        check_place(str(tmp_path / "topics"), None, by_column=False)
    with pytest.raises(LogNotFound, match="no topic 'other'"):
        check_place(str(tmp_path / "topics"), "other", by_column=True)
