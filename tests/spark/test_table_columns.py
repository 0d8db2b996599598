"""Streams of tables with typed columns, and tables of the newest records, with their logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.types import StringType
from pyspark.sql import DataFrame, SparkSession

import seglog
import seglog.spark
from seglog import Log, LogConfig, Retention
from seglog.errors import InvalidArgument
from seglog.table import sync
from seglog.table.warehouse import Warehouse
from tests.spark.test_warehouse import rows
from tests.table.conftest import Row

pytestmark = pytest.mark.spark


class Case:
    """A log, a warehouse for it, and streams of both."""

    def __init__(self, directory: Path, log: Log) -> None:
        self.directory, self.log = directory, log
        self.warehouse = directory / "warehouse"
        self.table = self.warehouse / "log"
        self.starts = 0

    def append(self, *values: bytes | None) -> None:
        for value in values:
            self.log.append(value)
        self.log.sync()

    def sync(self, **options: Any) -> None:
        sync(self.directory / "log", self.warehouse, active=True, **options)

    def streamed(self, spark: SparkSession, table: Path | None = None, **options: Any) -> DataFrame:
        """What a stream, started again with the same checkpoint, reads up to now."""
        self.starts += 1
        checkpoint, out = str(self.directory / "checkpoint"), str(self.directory / f"out{self.starts}")
        frame = seglog.spark.table_stream(spark, table or self.table, checkpoint=checkpoint, **options)
        writer = frame.writeStream.format("parquet").option("checkpointLocation", checkpoint)
        writer.trigger(availableNow=True).start(out).awaitTermination()
        return spark.read.parquet(*map(str, Path(out).glob("*.parquet")))  # its list lacks batches of earlier starts


@pytest.fixture
def case(tmp_path: Path) -> Iterator[Case]:
    config = LogConfig(segment_bytes=4096, retention=Retention(bytes=8192))
    with seglog.open(tmp_path / "log", config) as log:
        yield Case(tmp_path, log)


def cells(frame: DataFrame, *names: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in frame.orderBy("offset").select(*names).collect()]


def test_a_stream_has_typed_columns_and_new_ones_once_it_is_started_again(spark: SparkSession, case: Case) -> None:
    case.append(b'{"id": 1}', b"not JSON")
    case.sync(schema=pa.schema([("id", pa.int32())]))
    case.append(b'{"id": 2, "c": {"t": ["a"]}, "offset": 7}', b'{"id": 3000000000}')
    assert cells(case.streamed(spark), "offset", "id", "unfit") == [
        (0, 1, None),
        (1, None, "it is not a JSON object"),
        (2, 2, None),
        (3, None, "id is an integer, which does not fit int32"),
    ]
    new = [("id", pa.int64()), ("c", pa.struct([("t", pa.list_(pa.string()))])), ("offset", pa.int64())]
    case.sync(schema=pa.schema(new))
    case.append(b'{"id": 3000000000, "c": {"t": ["b"]}, "offset": 8}', b'{"id": "x"}', None)
    assert cells(case.streamed(spark), "offset", "id", "c.t", "value_offset", "unfit") == [
        (4, 3000000000, ["b"], 8, None),
        (5, None, None, None, "id is a text, which does not fit int64"),
        (6, None, None, None, None),
    ]


@pytest.mark.proof
def test_files_of_a_stream_that_are_older_than_a_column_have_null_there(spark: SparkSession, case: Case) -> None:
    case.append(b'{"id": 1}')
    case.sync(schema=pa.schema([("id", pa.int32())]))
    case.append(b'{"id": 2, "new": true}')
    case.sync(schema=pa.schema([("id", pa.int64()), ("new", pa.bool_())]))
    case.append(b'{"id": 3, "new": false}')
    found = case.streamed(spark)
    assert cells(found, "offset", "id", "new", "unfit") == [(0, 1, None, None), (1, 2, True, None), (2, 3, False, None)]
    assert sorted(rows(found)) == logged_of(case.log)


@pytest.mark.proof
def test_what_the_log_has_deleted_is_typed_as_well(spark: SparkSession, case: Case) -> None:
    case.append(b'{"n": 0}')
    case.sync(schema="infer")
    assert case.streamed(spark).count() == 1
    for start in range(1, 300, 50):
        case.append(*(b'{"n": %d, "text": "%s"}' % (number, b"x" * 40) for number in range(start, start + 50)))
        case.sync()
    case.log.expire()
    assert case.log.lowest_offset > 1
    assert cells(case.streamed(spark), "offset", "n") == [(number, number) for number in range(1, 301)]


@pytest.mark.proof
def test_a_function_decodes_values_of_a_stream_and_of_a_frame(spark: SparkSession, case: Case) -> None:
    case.append(b"1")
    case.sync(schema="infer", values=lambda value: {"n": int(value)})
    case.append(b"2", b"three")
    with pytest.raises(InvalidArgument, match="by a function: give it as values="):
        seglog.spark.table_stream(spark, case.table, checkpoint=case.directory / "other")
    expected = [(0, 1, False), (1, 2, False), (2, None, True)]
    names = "offset", "n", "unfit IS NOT NULL"
    frames = (
        seglog.spark.table(spark, case.table, values=lambda value: {"n": int(value)}),
        case.streamed(spark, values=lambda value: {"n": int(value)}),
    )
    for frame in frames:
        assert [tuple(row) for row in frame.orderBy("offset").selectExpr(*names).collect()] == expected


def test_a_function_for_a_table_without_typed_columns_is_refused(spark: SparkSession, case: Case) -> None:
    case.append(b"1")
    case.sync()
    case.append(b"2")
    with pytest.raises(InvalidArgument, match="no typed columns"):
        seglog.spark.table_stream(spark, case.table, checkpoint=case.directory / "c", values=lambda _: {})


@pytest.mark.proof
def test_a_column_of_another_program_is_null_in_records_of_the_log(spark: SparkSession, case: Case) -> None:
    case.append(b"1")
    case.sync()
    warehouse = Warehouse(case.warehouse)
    with warehouse.table("log").update_schema() as update:
        update.add_column("note", StringType())
    warehouse.close()
    case.append(b"2")
    for frame in (seglog.spark.table(spark, case.table), case.streamed(spark)):
        assert cells(frame, "value", "note") == [(b"1", None), (b"2", None)]


def logged_of(log: Log, start: int | None = None) -> list[Row]:
    return [(0, one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in log.scan(start)]


def newest_of(log: Log) -> list[Row]:
    found = {row[3]: row for row in logged_of(log) if row[3] is not None}
    return sorted(row for row in found.values() if row[4] is not None)


def test_the_newest_records_are_those_of_the_table_and_of_the_log(spark: SparkSession, case: Case) -> None:
    log, table = case.log, case.warehouse / "log_latest"
    for number in range(12):
        log.append(b'{"n": %d}' % number, key=b"k%d" % (number % 6))
    log.sync()
    case.sync(latest=True, schema="infer")
    assert rows(seglog.spark.table(spark, table)) == newest_of(log)
    log.append(b'{"n": 20}', key=b"k0")
    log.append(b'{"n": 21}', key=b"k0")
    log.append(b'{"n": 22}', key=b"new")
    log.append(None, key=b"k1")
    log.append(b'{"n": 23}')
    frame = seglog.spark.table(spark, table)
    assert rows(frame) == newest_of(log)
    assert cells(frame, "n") == [(8,), (9,), (10,), (11,), (21,), (22,)]
    log.truncate(8)
    log.append(b'{"n": 30}', key=b"k1")
    assert rows(seglog.spark.table(spark, table)) == newest_of(log)  # also keys whose last record was cut off


@pytest.mark.proof
def test_a_stream_of_the_newest_records_goes_on_with_every_record(spark: SparkSession, case: Case) -> None:
    log = case.log
    for number in range(10):
        log.append(b"%d" % number, key=b"k%d" % (number % 3))
    log.sync()
    case.sync(latest=True)
    expected = newest_of(log)
    assert rows(case.streamed(spark, case.warehouse / "log_latest")) == expected
    before = log.next_offset
    later = []
    for number in range(200):
        log.append(None if number % 4 == 0 else b"%d" % number * 20, key=b"k%d" % (number % 3))
        later += logged_of(log, before + number)
        if number % 50 == 49:
            log.sync()
            case.sync(latest=True)
    log.expire()
    assert log.lowest_offset > before  # so these are read from the table of every record
    assert rows(case.streamed(spark, case.warehouse / "log_latest")) == later


def test_a_table_of_the_newest_records_does_not_replace_what_a_log_has_deleted(spark: SparkSession, case: Case) -> None:
    for number in range(300):
        case.log.append(b"%d" % number * 20, key=b"k")
        if number % 50 == 49:
            case.log.sync()
            case.sync(latest=True)
    case.log.expire()
    assert case.log.lowest_offset > 0
    reader = spark.read.format("seglog").option("table", str(case.warehouse / "log_latest"))
    with pytest.raises(Exception, match="the newest records only"):
        reader.load(str(case.directory / "log")).count()


def test_a_table_keeps_which_records_it_has(case: Case) -> None:
    case.log.append(b"v", key=b"k")
    case.log.sync()
    case.sync(latest=True)
    with pytest.raises(InvalidArgument, match="log_latest has newest records of its log, not all"):
        case.sync(name="log_latest")
