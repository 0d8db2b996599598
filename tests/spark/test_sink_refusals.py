"""What the sink refuses: told to the user in one line that names it, and nothing of it is stored or stays staged."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.format.filename import TREE_LOCK
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)


@pytest.fixture
def topic_path(tmp_path: Path) -> Path:
    """An empty topic `orders` of 3 partitions with small segments, in a directory of topics."""
    Topic.create(tmp_path / "orders", partitions=3, config=SMALL).close()
    return tmp_path / "orders"


def write(frame: DataFrame, path: Path, **options: Any) -> None:
    frame.write.format("seglog").mode("append").options(**options).save(str(path))


def stored(path: Path) -> list[list[seglog.Record]]:
    """Return the records of each partition."""
    with Topic.open(path, mode="r") as topic:
        return [list(topic.partition(number).scan()) for number in range(topic.partitions)]


def files_below(path: Path) -> dict[str, bytes]:
    """Return every file that a refused write must not change; the lock names the last process that held it."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != TREE_LOCK)
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def staged_below(path: Path) -> list[Path]:
    """Return what stands in stages, files and directories, of all logs below."""
    return [entry for staging in path.rglob("staging") for entry in staging.iterdir()]


def refusal(frame: DataFrame, path: Path, **options: Any) -> str:
    """Return what the user is told; nothing was stored and nothing stays staged."""
    before = files_below(path)
    with pytest.raises(Exception) as caught:
        write(frame, path, **options)
    assert files_below(path) == before
    return str(caught.value)


@pytest.mark.parametrize(
    ("select", "options", "message"),
    [
        (["id"], {}, "column value is missing; there are id"),
        (["string(id) AS value", "id"], {}, "column id is unknown"),
        (["id AS value"], {}, "column value cannot be bigint"),
        (["'v' AS value", "1 AS key"], {}, "column key cannot be int"),
        (["'v' AS value", "map('a', 'b') AS headers"], {}, "column headers cannot be map<string,string>"),
        (
            ["'v' AS value"],
            {"acks": "all"},
            "option acks is unknown; writing takes path, topic, createTopic",
        ),
        (["'v' AS value"], {"queryId": "q"}, "options queryId and batchId belong together"),
        (["'v' AS value"], {"queryId": "a/b", "batchId": "0"}, "option queryId is 'a/b'"),
    ],
)
def test_a_bad_column_or_option_is_named(
    spark: SparkSession, topic_path: Path, select: list[str], options: dict[str, str], message: str
) -> None:
    told = refusal(spark.range(1).selectExpr(*select), topic_path, **options)
    assert f"seglog.errors.InvalidArgument: {message}" in told
    assert staged_below(topic_path) == []


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ("'nothing' AS topic, 'v' AS value", "a row has topic 'nothing', but"),
        ("3 AS partition, 'v' AS value", "column partition names 3; there are 0 to 2"),
        ("-1 AS partition, 'v' AS value", "column partition names -1; there are 0 to 2"),
        ("repeat('v', 7000) AS value", "RecordTooLarge"),
        ("'v' AS value, array(struct(string(NULL) AS key, binary('x') AS value)) AS headers", "column 'headers'"),
    ],
)
def test_a_bad_row_fails_the_write_and_is_told(spark: SparkSession, topic_path: Path, row: str, message: str) -> None:
    told = refusal(spark.sql(f"SELECT {row}"), topic_path)
    assert message in told
    assert staged_below(topic_path) == []


def test_one_bad_row_among_many_tasks_stores_none_of_them(spark: SparkSession, topic_path: Path) -> None:
    bad = "IF(id = 799, 9, NULL) AS partition"
    frame = spark.range(0, 800, 1, 4).selectExpr("string(id) AS value", bad)
    with pytest.raises(Exception, match="column partition names 9"):
        write(frame, topic_path)
    assert stored(topic_path) == [[], [], []]
    write(frame.where("partition IS NULL"), topic_path)
    assert sum(map(len, stored(topic_path))) == 799


def test_a_topic_that_is_not_there_is_named(spark: SparkSession, topic_path: Path, tmp_path: Path) -> None:
    told = refusal(spark.sql("SELECT 'missing' AS topic, 'v' AS value"), tmp_path)
    assert f"LogNotFound: option path: there is no topic 'missing' and no log at {tmp_path}" in told
    told = refusal(spark.sql("SELECT 'v' AS value"), tmp_path, topic="missing")
    assert "there is no topic 'missing'" in told


def test_rows_without_a_topic_cannot_go_to_a_directory_of_topics(
    spark: SparkSession, topic_path: Path, tmp_path: Path
) -> None:
    rows = spark.sql("SELECT 'orders' AS topic, 'v' AS value UNION ALL SELECT NULL, 'w'")
    # One task: of two, the one that still runs when the write is called off may leave a stage, for the next to clear.
    told = refusal(rows.coalesce(1), tmp_path)
    assert "a row has no topic" in told
    assert "set option or column topic" in told


def test_a_path_where_nothing_is_stays_empty(spark: SparkSession, tmp_path: Path) -> None:
    for place in (tmp_path, tmp_path / "missing"):
        told = refusal(spark.sql("SELECT 'v' AS value"), place)
        assert f"LogNotFound: option path: there is neither a log nor a topic at {place}" in told
    assert list(tmp_path.iterdir()) == []


def test_a_log_is_not_overwritten(spark: SparkSession, topic_path: Path) -> None:
    with pytest.raises(Exception, match="mode overwrite is not supported"):
        spark.sql("SELECT 'v' AS value").write.format("seglog").mode("overwrite").save(str(topic_path))
    assert stored(topic_path) == [[], [], []]


def test_without_a_mode_spark_says_which_one_to_use(spark: SparkSession, topic_path: Path) -> None:
    with pytest.raises(Exception, match=r"cannot be written in the .ErrorIfExists. mode"):
        spark.sql("SELECT 'v' AS value").write.format("seglog").save(str(topic_path))


def test_a_column_that_is_there_twice_is_refused(spark: SparkSession, topic_path: Path) -> None:
    assert "Duplicated field names" in refusal(spark.sql("SELECT 'v' AS value, 'w' AS value"), topic_path)
