"""Format "seglog" in a real Spark: the records, all of them, in order, with the columns of Spark's Kafka
source.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql.pandas.types import to_arrow_schema

import seglog
from seglog.spark import register, schema
from seglog.spark.read.batches import BATCH_BYTES, BATCH_ROWS, arrow_schema
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.reader import SeglogReader
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)
MOMENT = int(datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC).timestamp() * 1_000_000)


@pytest.fixture
def topic_path(tmp_path: Path) -> Path:
    """A topic of 3 partitions and 900 records, every seventh without a key, in several segments each."""
    path = tmp_path / "orders"
    with Topic.create(path, partitions=3, config=SMALL) as topic:
        for number in range(900):
            key = None if number % 7 == 0 else b"key %d" % (number % 50)
            topic.append(b"value %d" % number, key=key, timestamp=MOMENT + number)
    return path


def read(spark: SparkSession, path: Path, **options: Any) -> DataFrame:
    return spark.read.format("seglog").options(**options).load(str(path))


def rows_of(frame: DataFrame) -> list[tuple[Any, ...]]:
    """Every row of key, value, partition, offset, in the order in which Spark reads them."""
    return [
        (bytes(row.key) if row.key is not None else None, bytes(row.value), row.partition, row.offset)
        for row in frame.select("key", "value", "partition", "offset").collect()
    ]


def written(path: Path) -> list[tuple[Any, ...]]:
    with Topic.open(path, mode="r") as topic:
        return [
            (record.key, record.value, number, record.offset)
            for number in range(topic.partitions)
            for record in topic.partition(number).scan()
        ]


def error_of(spark: SparkSession, path: Path, **options: Any) -> str:
    with pytest.raises(Exception) as caught:
        read(spark, path, **options).collect()
    return str(caught.value)


# --- what is read


def test_a_topic_is_read_whole_and_in_offset_order(spark: SparkSession, topic_path: Path) -> None:
    assert rows_of(read(spark, topic_path)) == written(topic_path)


def test_one_log_is_partition_0_of_a_topic_of_its_name(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "events") as log:
        log.append(b"v", key=b"k", timestamp=MOMENT)
        log.append(None, key=b"k", timestamp=MOMENT)
    rows = read(spark, tmp_path / "events").collect()
    assert [(row.topic, row.partition, row.offset, row.timestampType) for row in rows] == [
        ("events", 0, 0, 0),
        ("events", 0, 1, 0),
    ]
    assert rows[1].value is None


def test_the_columns_are_those_of_sparks_kafka_source(spark: SparkSession, topic_path: Path) -> None:
    assert read(spark, topic_path).schema.simpleString() == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,timestampType:int>"
    )


@pytest.mark.parametrize("include_headers", [False, True])
def test_batches_have_exactly_the_types_spark_compares_with(spark: SparkSession, include_headers: bool) -> None:
    expected = to_arrow_schema(schema.spark_schema(include_headers=include_headers), timezone="UTC")
    assert arrow_schema(include_headers=include_headers).equals(expected)


def test_timestamps_are_instants_to_the_microsecond(spark: SparkSession, topic_path: Path) -> None:
    micros = read(spark, topic_path).selectExpr("unix_micros(timestamp) AS t").collect()
    assert sorted(row.t for row in micros) == [MOMENT + number for number in range(900)]


def test_headers_come_when_asked_for_and_none_is_null(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v", headers=[("a", b"1"), ("a", b""), ("b", None)])
        log.append(b"w")
    rows = read(spark, tmp_path / "log", includeHeaders=True).collect()
    assert rows[0].headers == [("a", b"1"), ("a", b""), ("b", None)]
    assert rows[1].headers is None


def test_values_of_any_size_and_byte_come_through(spark: SparkSession, tmp_path: Path) -> None:
    values = [b"", bytes(range(256)), b"x" * 9_000_000, b"y" * 9_000_000, b"z"]
    with seglog.open(tmp_path / "log") as log:
        for value in values:
            log.append(value)
    rows = read(spark, tmp_path / "log").selectExpr("length(value) AS n", "sha2(value, 256) AS h").collect()
    assert [(row.n, row.h) for row in rows] == [(len(value), hashlib.sha256(value).hexdigest()) for value in values]


def test_an_empty_log_is_an_empty_frame(spark: SparkSession, tmp_path: Path) -> None:
    seglog.open(tmp_path / "log").close()
    assert read(spark, tmp_path / "log").count() == 0


def test_a_log_that_retention_has_cut_is_read_from_its_start(spark: SparkSession, tmp_path: Path) -> None:
    config = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(bytes=4096))
    with seglog.open(tmp_path / "log", config) as log:
        for number in range(200):
            log.append(b"%d" % number)
        log.expire()
        lowest = log.lowest_offset
    assert lowest > 0
    offsets = [row.offset for row in read(spark, tmp_path / "log").collect()]
    assert offsets == list(range(lowest, 200))


def test_a_writer_beside_the_query_is_not_disturbed(spark: SparkSession, topic_path: Path) -> None:
    with Topic.open(topic_path) as topic:
        frame = read(spark, topic_path)
        assert frame.count() == 900
        topic.append(b"later")
        assert read(spark, topic_path).count() == 901


# --- how it is divided


def test_input_partitions_follow_segments(spark: SparkSession, topic_path: Path) -> None:
    with Topic.open(topic_path, mode="r") as topic:
        segments = sum(
            sum(info.records > 0 for info in topic.partition(number).segments) for number in range(topic.partitions)
        )
    assert segments > 3
    assert read(spark, topic_path).rdd.getNumPartitions() == segments


def test_min_partitions_and_max_records_divide_further(spark: SparkSession, topic_path: Path) -> None:
    many = read(spark, topic_path, minPartitions=20)
    assert many.rdd.getNumPartitions() >= 20
    assert rows_of(many) == written(topic_path)
    small = read(spark, topic_path, maxRecordsPerPartition=40)
    sizes = small.selectExpr("spark_partition_id() AS id").groupBy("id").count().collect()
    assert max(row["count"] for row in sizes) <= 40


# --- offsets


def test_starting_and_ending_offsets_bound_each_partition(spark: SparkSession, topic_path: Path) -> None:
    frame = read(
        spark,
        topic_path,
        startingOffsets=json.dumps({"orders": {"0": 10, "1": -2, "2": 5}}),
        endingOffsets=json.dumps({"orders": {"0": 20, "1": 7, "2": -1}}),
    )
    lowest, highest = {0: 10, 1: 0, 2: 5}, {0: 20, 1: 7, 2: 10**9}
    expected = [row for row in written(topic_path) if lowest[row[2]] <= row[3] < highest[row[2]]]
    assert rows_of(frame) == expected


# --- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"colour": "red"}, "option colour is unknown"),
        ({"subscribe": "bills"}, "option subscribe: there is no topic 'bills'"),
        ({"assign": '{"orders": [3]}'}, "option assign: topic 'orders' has no partition 3"),
        ({"startingOffsets": "latest"}, "option startingOffsets is 'latest'"),
        ({"url": "http://localhost:3000"}, "options path and url are both given"),
        ({"startingTimestamp": "99999999999999"}, "option startingTimestamp: partition 0"),
        ({"includeHeaders": "perhaps"}, "option includeHeaders"),
        ({"startingOffsets": '{"orders": {"0": 5}}'}, "option startingOffsets: partition 1"),
        ({"endingOffsets": '{"orders": {"0": 9999, "1": -1, "2": -1}}'}, "option endingOffsets: offset 9999"),
    ],
)
def test_a_bad_option_gives_one_error_that_names_it(
    spark: SparkSession, topic_path: Path, options: dict[str, str], message: str
) -> None:
    text = error_of(spark, topic_path, **options)
    assert f"seglog.errors.InvalidArgument: {message}" in text


def test_a_path_where_nothing_is_is_refused_and_stays_empty(spark: SparkSession, tmp_path: Path) -> None:
    assert "LogNotFound: option path" in error_of(spark, tmp_path / "missing")
    assert "LogNotFound: option path" in error_of(spark, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").touch()
    assert "NotALog: option path" in error_of(spark, tmp_path)


def test_no_path_is_refused_at_load(spark: SparkSession) -> None:
    with pytest.raises(AnalysisException, match="option path is missing"):
        spark.read.format("seglog").load()


def test_a_schema_of_ones_own_is_refused(spark: SparkSession, topic_path: Path) -> None:
    with pytest.raises(Exception, match="has its own schema"):
        spark.read.format("seglog").schema("value binary").load(str(topic_path)).collect()


def test_a_damaged_record_fails_the_query_and_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        log.append_batch(pa.table({"value": [b"%050d" % number for number in range(300)]}))
        store = tmp_path / "log" / log.segments[0].name
    data = bytearray(store.read_bytes())
    data[len(data) // 2] ^= 1
    store.write_bytes(data)
    text = error_of(spark, tmp_path / "log")
    assert "CorruptRecord" in text
    assert store.name in text


# --- the reader alone, as Spark calls it


def reader_of(path: Path) -> SeglogReader:
    return pickle.loads(pickle.dumps(SeglogReader(ReadOptions.parse({"path": str(path)}))))  # noqa: S301 - our own


def test_what_retention_removed_since_planning_is_an_error_and_not_a_gap(tmp_path: Path) -> None:
    config = seglog.LogConfig(segment_bytes=2048)
    with seglog.open(tmp_path / "log", config) as log:
        log.append_batch(pa.table({"value": [b"%030d" % number for number in range(200)]}))
    planned = reader_of(tmp_path / "log").partitions()
    keep = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(bytes=4096))
    with seglog.open(tmp_path / "log", keep) as log:
        log.expire()
        assert log.lowest_offset > 0
    with pytest.raises(seglog.OffsetOutOfRange, match="expired before they were read"):
        list(reader_of(tmp_path / "log").read(planned[0]))


def test_what_a_truncate_removed_since_planning_is_an_error(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append_batch(pa.table({"value": [b"v"] * 10}))
        planned = reader_of(tmp_path / "log").partitions()
        log.truncate(4)
    with pytest.raises(seglog.LogTruncated, match="truncated below offset 10; it ends at 4"):
        list(reader_of(tmp_path / "log").read(planned[0]))


def test_what_is_appended_after_planning_is_not_read(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"before")
        planned = reader_of(tmp_path / "log").partitions()
        log.append(b"after")
    batches = [batch for part in planned for batch in reader_of(tmp_path / "log").read(part)]
    assert [value for batch in batches for value in batch["value"].to_pylist()] == [b"before"]


def test_batches_stay_small_for_the_jvm(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append_batch(pa.table({"value": [b"x" * 1_000_000] * 30 + [b""] * 25_000}))
    batches = [
        batch for part in reader_of(tmp_path / "log").partitions() for batch in reader_of(tmp_path / "log").read(part)
    ]
    assert sum(batch.num_rows for batch in batches) == 25_030
    assert max(batch.num_rows for batch in batches) <= BATCH_ROWS
    assert max(batch["value"].nbytes for batch in batches) <= BATCH_BYTES


# --- registration


def test_spark_finds_the_format_by_itself(spark: SparkSession, topic_path: Path) -> None:
    assert read(spark.newSession(), topic_path).count() == 900


def test_without_pyspark_the_error_says_what_to_install(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyspark", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(seglog.MissingExtra, match=r"pyspark and pandas: install seglog\[spark\]"):
        register(spark)


def test_registering_again_changes_nothing(spark: SparkSession, topic_path: Path) -> None:
    register(spark)
    register(spark)
    assert read(spark, topic_path).count() == 900
