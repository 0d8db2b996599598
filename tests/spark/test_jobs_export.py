"""The export job: records as Parquet, once each, and a report by which the next export goes on."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import seglog
from seglog.errors import InvalidArgument
from seglog.spark.export import __main__ as program
from seglog.spark.export import export, records
from seglog.spark.jobs.pins import pin
from seglog.topic import Topic
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)
MIDNIGHT_US = int(datetime(2024, 3, 1, tzinfo=UTC).timestamp() * 1_000_000)


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    """A topic of 2 partitions and 400 records, the first half of them before midnight (UTC)."""
    path = tmp_path / "orders"
    with Topic.create(path, partitions=2, config=SMALL) as topic:
        fill(topic, range(400))
    return path


def fill(topic: Topic, numbers: range) -> None:
    for number in numbers:
        topic.append(
            None if number % 10 == 0 else b"value %d" % number,
            key=None if number % 7 == 0 else b"%d" % (number % 30),
            timestamp=MIDNIGHT_US + (number - 200),
            headers=[("number", b"%d" % number), ("none", None)] if number % 2 else [],
        )


Row = tuple[str, int, int, int, bytes | None, bytes | None, Any]


def written(path: Path) -> list[Row]:
    with Topic.open(path, mode="r") as topic:
        return [
            (
                topic.name,
                number,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                list(record.headers) or None,
            )
            for number in range(topic.partitions)
            for record in topic.partition(number).scan()
        ]


def read_back(directory: Path) -> list[Row]:
    """What pyarrow, which knows nothing of the log, finds; in order of partition and offset."""
    rows = [row for file in sorted(directory.rglob("*.parquet")) for row in pq.ParquetFile(file).read().to_pylist()]
    found = [
        (
            row["topic"],
            row["partition"],
            row["offset"],
            round(row["timestamp"].timestamp() * 1_000_000),
            row["key"],
            row["value"],
            None if row["headers"] is None else [(pair["key"], pair["value"]) for pair in row["headers"]],
        )
        for row in rows
    ]
    return sorted(found, key=lambda row: row[:3])


def test_every_record_is_there_once_and_the_report_counts_them(
    spark: SparkSession, topic: Path, tmp_path: Path
) -> None:
    report = export(spark, topic, str(tmp_path / "out"))
    expected = written(topic)
    assert read_back(tmp_path / "out") == expected
    assert report.written
    assert report.records == 400
    assert report.data_bytes == sum(len(key or b"") + len(value or b"") for *_, key, value, _ in expected)
    with Topic.open(topic, mode="r") as logs:
        assert report.next_offsets == {"orders": {number: logs.partition(number).next_offset for number in range(2)}}
    assert report.start == {"orders": {0: 0, 1: 0}}


def test_each_file_is_in_offset_order(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    export(spark, topic, str(tmp_path / "out"))
    files = list((tmp_path / "out").glob("*.parquet"))
    assert files
    for file in files:
        table = pq.read_table(file)
        places = list(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))
        assert places == sorted(places)


def test_the_day_is_exact_to_the_microsecond_also_far_away(spark: SparkSession, tmp_path: Path) -> None:
    times = [-1, 0, -86_400_000_000, -86_400_000_001, 253_402_300_799_999_999]
    with seglog.open(tmp_path / "log") as log:
        for time in times:
            log.append(b"v", timestamp=time)
    rows = records(spark, tmp_path / "log", pin(tmp_path / "log"), by_date=True).orderBy("offset").collect()
    assert [row["date"].isoformat() for row in rows] == [
        "1969-12-31",
        "1970-01-01",
        "1969-12-31",
        "1969-12-30",
        "9999-12-31",
    ]


def test_by_date_there_is_a_directory_for_each_day_in_utc(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        export(spark, topic, str(tmp_path / "out"), by_date=True)
        counts = spark.read.parquet(str(tmp_path / "out")).groupBy("date").count().collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert {row["date"]: row["count"] for row in counts} == {date(2024, 2, 29): 200, date(2024, 3, 1): 200}
    assert read_back(tmp_path / "out") == written(topic)


def test_run_again_nothing_is_stored_twice(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = export(spark, topic, str(out), mode="append")
    with pytest.raises(Exception, match="already exists"):
        export(spark, topic, str(out))
    assert not export(spark, topic, str(out), mode="ignore").written
    assert export(spark, topic, str(out), mode="append").records == 0
    assert read_back(out) == written(topic)
    with Topic.open(topic) as logs:
        fill(logs, range(400, 450))
    second = export(spark, topic, str(out), start=first.next_offsets, mode="append")
    assert second.records == 50
    assert read_back(out) == written(topic)
    assert export(spark, topic, str(out), mode="overwrite").records == 450
    assert read_back(out) == written(topic)


def test_an_append_that_died_half_way_is_completed_by_a_repetition(
    spark: SparkSession, topic: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    export(spark, topic, str(out), mode="append")
    lost = sorted(out.glob("*.parquet"))[0]
    lost.unlink()
    (out / f".{lost.name}.crc").unlink(missing_ok=True)
    repeated = export(spark, topic, str(out), mode="append")
    assert 0 < repeated.records < 400
    assert read_back(out) == written(topic)


def test_records_of_another_log_are_not_taken_for_those_of_this_one(
    spark: SparkSession, topic: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other" / topic.name
    with Topic.create(other, partitions=3) as logs:
        logs.append(b"v", key=b"k", timestamp=1, partition=0)
    export(spark, other, str(tmp_path / "out"))
    with pytest.raises(InvalidArgument, match="another record at offset 0 of partition 0"):
        export(spark, topic, str(tmp_path / "out"), mode="append")


def test_a_range_is_by_offset_or_by_time(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    midnight = datetime(2024, 3, 1, tzinfo=UTC)
    assert export(spark, topic, str(tmp_path / "late"), start=midnight).records == 200
    assert export(spark, topic, str(tmp_path / "early"), stop=midnight).records == 200
    both = read_back(tmp_path / "early") + read_back(tmp_path / "late")
    assert sorted(both, key=lambda row: row[:3]) == written(topic)
    few = {"orders": {0: 10, 1: 20}}, {"orders": {0: 15, 1: 20}}
    assert export(spark, topic, str(tmp_path / "few"), start=few[0], stop=few[1]).records == 5
    assert [row[1:3] for row in read_back(tmp_path / "few")] == [(0, offset) for offset in range(10, 15)]
    with pytest.raises(InvalidArgument, match="start 15 is after stop 10"):
        export(spark, topic, str(tmp_path / "none"), start=few[1], stop=few[0])


def test_a_log_is_never_written_over(spark: SparkSession, topic: Path) -> None:
    for place in (topic, topic / "0" / "out", topic.parent):
        with pytest.raises(InvalidArgument, match="inside one another"):
            export(spark, topic, str(place), mode="overwrite")
    with pytest.raises(InvalidArgument, match="mode is 'replace'"):
        export(spark, topic, str(topic.parent / "out"), mode="replace")  # type: ignore[arg-type] # the mistake
    assert len(written(topic)) == 400


@pytest.mark.needs("java")
@pytest.mark.no_cover
def test_the_program_runs_in_a_process_of_its_own(topic: Path, tmp_path: Path) -> None:
    """`python -m seglog.spark.export`: exit codes, JSON on stdout, one line on stderr."""
    command = [sys.executable, "-m", "seglog.spark.export", str(topic), "out", "--json", "--master", "local[1]"]
    ran = subprocess.run(
        command, cwd=tmp_path, env=dict(os.environ), capture_output=True, timeout=HANG_SECONDS, check=False
    )
    assert ran.returncode == 0, ran.stderr.decode()
    report = json.loads(ran.stdout)
    assert report["records"] == 400
    assert read_back(tmp_path / "out") == written(topic)


def test_the_program_says_what_it_did(
    spark: SparkSession, topic: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = str(tmp_path / "out")
    assert program.main([str(topic), out, "--stop-time", "2024-03-01"]) == 0
    said = capfdbinary.readouterr().out.decode()
    assert "200 records" in said
    rest = json.dumps(json.loads(said.partition("--start '")[2].partition("'")[0]))
    assert program.main([str(topic), out, "--start", rest, "--mode", "append", "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)["records"] == 200
    assert program.main([str(topic), out, "--mode", "ignore"]) == 0
    assert b"nothing was written" in capfdbinary.readouterr().out
    assert program.main([str(topic), out, "--json"]) == 2
    error = json.loads(capfdbinary.readouterr().err.splitlines()[-1])
    assert error["exit"] == 2
    assert "already exists" in error["message"]
    assert read_back(tmp_path / "out") == written(topic)
