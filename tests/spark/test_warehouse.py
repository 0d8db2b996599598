from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import seglog
import seglog.spark
from seglog import Topic
from seglog.errors import CopyDiverged, InvalidArgument, StorageError, TopicNotFound
from tests.table.conftest import Row, logged


def rows(frame: DataFrame) -> list[Row]:
    found = frame.selectExpr("partition", "offset", "unix_micros(timestamp)", "key", "value", "headers").collect()
    return sorted(
        (part, offset, time, key and bytes(key), value and bytes(value), headers_of(headers))
        for part, offset, time, key, value, headers in found
    )


def headers_of(headers: object) -> tuple[tuple[str, bytes | None], ...]:
    return tuple((one.key, bytes(one.value)) for one in headers or ())  # type: ignore[attr-defined]


def append(topic: Topic, count: int, text: str) -> None:
    for number in range(count):
        topic.append(f"{text}{number}".encode(), key=f"k{number % 5}".encode(), headers=[("a", b"1")] * (number % 2))
    topic.sync()


def test_a_table_and_the_log_after_it_are_read_as_one(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    with Topic.create(tmp_path / "orders", partitions=2) as topic:
        append(topic, 40, "old")
        seglog.table.sync(tmp_path / "orders", warehouse, active=True)
        assert rows(seglog.spark.table(spark, warehouse / "orders")) == logged(topic)
        append(topic, 15, "new")
        frame = seglog.spark.table(spark, warehouse / "orders")
        expected = logged(topic)
        append(topic, 5, "later")  # after the frame was planned
        seglog.table.sync(tmp_path / "orders", warehouse, active=True)
        assert rows(frame) == expected
        topic.partition(0).truncate(3)
        topic.append(b"in place of another", key=b"k0")
        assert rows(seglog.spark.table(spark, warehouse / "orders")) == logged(topic)


def test_a_record_with_any_timestamp_is_the_same_row_before_and_after_its_round(
    spark: SparkSession, tmp_path: Path
) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v", timestamp=5)
        seglog.table.sync(tmp_path / "log", tmp_path / "warehouse", active=True)
        for timestamp in (1_795_000_000_000_000_000, -(2**63), 6):
            log.append(b"w", timestamp=timestamp)
            log.append(b"x", timestamp=timestamp, headers=[("a", b"1")])
        location = tmp_path / "warehouse" / "log"
        before = rows(seglog.spark.table(spark, location))
        seglog.table.sync(tmp_path / "log", tmp_path / "warehouse", active=True)
        assert before == rows(seglog.spark.table(spark, location))
        assert before[2][5] == (("a", b"1"), ("seglog-timestamp", b"1795000000000000000"))
        seglog.spark.table(spark, location).collect()  # each is a datetime, whatever the zone


def test_a_table_without_files_is_read_from_the_log(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v")
        seglog.table.sync(tmp_path / "log", tmp_path / "warehouse")
        assert seglog.spark.table(spark, tmp_path / "warehouse" / "log").count() == 1


def test_a_log_that_moved_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v")
    seglog.table.sync(tmp_path / "log", tmp_path / "warehouse", active=True)
    (tmp_path / "log").rename(tmp_path / "moved")
    location = tmp_path / "warehouse" / "log"
    assert seglog.spark.table(spark, location, log=tmp_path / "moved").count() == 1
    with seglog.open(tmp_path / "other") as log:
        log.append(b"v")
    with pytest.raises(CopyDiverged, match="another log"):
        seglog.spark.table(spark, location, log=tmp_path / "other")


def test_a_place_without_a_table_is_an_error(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v")
    seglog.table.sync(tmp_path / "log", tmp_path / "warehouse", active=True)
    with pytest.raises(TopicNotFound):
        seglog.spark.table(spark, tmp_path / "warehouse" / "other")
    with pytest.raises(InvalidArgument, match="WAREHOUSE/NAME"):
        seglog.spark.table(spark, "")


def test_a_table_whose_files_are_gone_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v")
    seglog.table.sync(tmp_path / "log", tmp_path / "warehouse", active=True)
    for snapshot in (tmp_path / "warehouse" / "log" / "metadata").glob("snap-*.avro"):
        snapshot.unlink()
    with pytest.raises(StorageError, match="warehouse/log"):
        seglog.spark.table(spark, tmp_path / "warehouse" / "log")


def test_typed_columns_are_there_for_rows_of_the_table_and_of_the_log(spark: SparkSession, tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    columns = ("offset", "id", "price", "c.t", "day", "value_offset", "unfit")
    with seglog.open(tmp_path / "log") as log:
        schema = pa.schema([("id", pa.int32()), ("price", pa.float64())])
        log.append(b'{"id": 1, "price": 1.5}')
        log.sync()
        seglog.table.sync(tmp_path / "log", warehouse, active=True, schema=schema)
        log.append(b'{"id": 2, "c": {"t": ["a"]}, "offset": 7}')
        log.sync()
        parts = [("id", pa.int64()), ("c", pa.struct([("t", pa.list_(pa.string()))])), ("day", pa.date32())]
        seglog.table.sync(tmp_path / "log", warehouse, active=True, schema=pa.schema([*parts, ("offset", pa.int64())]))
        for value in (b'{"id": 3, "price": 2, "day": "2026-01-02"}', b"not JSON", b'{"id": "x"}', None):
            log.append(value)
        frame = seglog.spark.table(spark, warehouse / "log").orderBy("offset").select(*columns)
        expected = [
            (0, 1, 1.5, None, None, None, None),
            (1, 2, None, ["a"], None, 7, None),
            (2, 3, 2.0, None, date(2026, 1, 2), None, None),
            (3, None, None, None, None, None, "it is not a JSON object"),
            (4, None, None, None, None, None, "id is a text, which does not fit int64"),
            (5, None, None, None, None, None, None),
        ]
        assert [tuple(row) for row in frame.collect()] == expected
        log.sync()
        seglog.table.sync(tmp_path / "log", warehouse, active=True)
        frame = seglog.spark.table(spark, warehouse / "log").orderBy("offset").select(*columns)
        assert [tuple(row) for row in frame.collect()] == expected
        assert frame.where("id >= 2").count() == 2


def test_the_log_after_a_table_whose_values_a_function_decodes_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"1")
        log.sync()
        options = {"schema": "infer", "values": lambda value: {"n": int(value)}}
        seglog.table.sync(tmp_path / "log", tmp_path / "warehouse", active=True, **options)
        assert seglog.spark.table(spark, tmp_path / "warehouse" / "log").select("n").collect() == [(1,)]
        log.append(b"2")
        with pytest.raises(InvalidArgument, match="by a function"):
            seglog.spark.table(spark, tmp_path / "warehouse" / "log")
