"""The ingest job: every row of a file or a table becomes a record, and a run is stored whole and once."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.errors import InvalidArgument, LogNotFound
from seglog.spark.ingest import __main__ as program
from seglog.spark.ingest import create_topic, ingest, read_source
from seglog.topic import Topic, partition_of

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    """300 orders of 20 customers, a line each, with a header."""
    lines = [f"{number},customer {number % 20},2024-05-01 12:00:{number % 60:02d}" for number in range(300)]
    (tmp_path / "orders.csv").write_text("\n".join(["id,customer,at", *lines]) + "\n")
    return tmp_path / "orders.csv"


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    """An empty topic of 3 partitions."""
    create_topic(tmp_path / "orders", 3, seglog.LogConfig(segment_bytes=4096))
    return tmp_path / "orders"


def stored(path: Path) -> list[tuple[int, seglog.Record]]:
    with Topic.open(path, mode="r") as topic:
        return [(number, record) for number in range(topic.partitions) for record in topic.partition(number).scan()]


def test_every_row_becomes_a_record_in_its_keys_partition(spark: SparkSession, csv: Path, topic: Path) -> None:
    rows = read_source(spark, [str(csv)], "csv")
    report = ingest(
        spark,
        rows,
        topic,
        key="customer",
        timestamp="to_timestamp(at)",
        headers="map('file', 'orders.csv', 'id', id)",
        order_by="cast(id AS int)",
    )
    assert (report.stored, report.records, report.topic) == (True, 300, "orders")
    found = stored(topic)
    assert sorted(int(json.loads(record.value or b"")["id"]) for _, record in found) == list(range(300))
    seen: dict[bytes | None, int] = {}
    for partition, record in found:
        row = json.loads(record.value or b"")
        assert record.key == row["customer"].encode()
        assert partition == partition_of(record.key, 3)
        assert record.headers == (("file", b"orders.csv"), ("id", row["id"].encode()))
        assert record.timestamp == 1_714_564_800_000_000 + int(row["id"]) % 60 * 1_000_000
        assert seen.get(record.key, -1) < int(row["id"]), "a key's rows keep the order asked for"
        seen[record.key] = int(row["id"])


def test_the_row_as_json_keeps_what_each_type_holds(spark: SparkSession, topic: Path) -> None:
    columns = {
        "moment": "timestamp'2024-02-29 12:30:15.123456Z'",
        "local": "timestamp_ntz'2024-02-29 12:30:15.123456'",
        "day": "date'0001-01-01'",
        "price": "cast('12345678901234567890.123456789' AS decimal(38, 9))",
        "share": "0.1D",
        "large": "9223372036854775807L",
        "bytes": "X'00FF'",
        "parts": "named_struct('a', array(1, null))",
        "by_name": "map('k', 1)",
    }
    rows = spark.sql("SELECT " + ", ".join(f"{text} AS {name}" for name, text in columns.items()))
    ingest(spark, rows, topic)
    [(_, record)] = stored(topic)
    text = (record.value or b"").decode()
    row = json.loads(text)
    assert datetime.fromisoformat(row["moment"]) == datetime(2024, 2, 29, 12, 30, 15, 123456, UTC)
    assert row["local"] == "2024-02-29T12:30:15.123456"
    assert row["day"] == "0001-01-01"
    assert '"price":12345678901234567890.123456789' in text
    assert (row["share"], row["large"]) == (0.1, 2**63 - 1)
    assert base64.b64decode(row["bytes"]) == b"\x00\xff"
    assert (row["parts"], row["by_name"]) == ({"a": [1, None]}, {"k": 1})


def test_a_run_is_stored_once_and_an_unnamed_one_each_time(spark: SparkSession, csv: Path, topic: Path) -> None:
    rows = read_source(spark, [str(csv)], "csv")
    assert ingest(spark, rows, topic, run="may").stored
    again = ingest(spark, rows, topic, run="may")
    assert (again.stored, again.records) == (False, 0)
    assert len(stored(topic)) == 300
    assert ingest(spark, rows, topic, run="may", batch=3).stored
    assert not ingest(spark, rows, topic, run="may", batch=2).stored, "batches count upwards"
    assert ingest(spark, rows, topic, run="june").stored
    assert ingest(spark, rows, topic).stored
    assert ingest(spark, rows, topic).stored
    assert len(stored(topic)) == 5 * 300


def test_a_run_that_fails_stores_nothing_and_can_be_run_again(spark: SparkSession, csv: Path, topic: Path) -> None:
    rows = read_source(spark, [str(csv)], "csv")
    broken = "if(id = '250', raise_error('no'), customer)"
    with pytest.raises(Exception, match="no"):
        ingest(spark, rows, topic, run="may", key=broken)
    assert stored(topic) == []
    assert [entry for staging in topic.rglob("staging") for entry in staging.iterdir()] == []
    assert ingest(spark, rows, topic, run="may", key="customer").records == 300


def test_tables_and_other_formats_are_read_too(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    frame = spark.range(10).selectExpr("id", "cast(id AS string) AS name")
    frame.write.parquet(str(tmp_path / "parquet"))
    frame.write.json(str(tmp_path / "json"))
    frame.createOrReplaceTempView("numbers")
    sources: list[tuple[str, str]] = [
        ("parquet", str(tmp_path / "parquet")),
        ("json", str(tmp_path / "json")),
        ("table", "numbers"),
    ]
    for kind, source in sources:
        rows = read_source(spark, [source], kind)
        assert ingest(spark, rows, topic, value="name", key="cast(id AS string)").records == 10
    assert sorted(record.value or b"" for _, record in stored(topic)) == sorted([b"%d" % n for n in range(10)] * 3)


def test_a_single_log_and_a_topic_below_a_broker_take_rows(spark: SparkSession, csv: Path, tmp_path: Path) -> None:
    rows = read_source(spark, [str(csv)], "csv")
    seglog.open(tmp_path / "alone").close()
    assert ingest(spark, rows, tmp_path / "alone", value="id").topic == "alone"
    with seglog.open(tmp_path / "alone", mode="r") as log:
        assert log.next_offset == 300
    for name in ("a", "b"):
        create_topic(tmp_path / "broker" / name, 1)
    assert ingest(spark, rows, tmp_path / "broker", value="id", topic="b").topic == "b"
    assert (len(stored(tmp_path / "broker" / "a")), len(stored(tmp_path / "broker" / "b"))) == (0, 300)


def test_what_cannot_be_is_one_clear_error(spark: SparkSession, csv: Path, topic: Path, tmp_path: Path) -> None:
    rows = read_source(spark, [str(csv)], "csv")
    mistakes: list[tuple[dict[str, Any], str]] = [
        ({"run": "a/b"}, "cannot name a run"),
        ({"batch": 1}, "needs a run with a name"),
        ({"topic": "other"}, "'other'"),
    ]
    for arguments, said in mistakes:
        with pytest.raises((InvalidArgument, LogNotFound), match=said):
            ingest(spark, rows, topic, **arguments)
    with pytest.raises(Exception, match="column key cannot be int"):
        ingest(spark, rows, topic, key="cast(id AS int)")
    with pytest.raises(LogNotFound, match="neither a log nor a topic"):
        ingest(spark, rows, tmp_path / "nowhere")
    with pytest.raises(InvalidArgument, match="format is 'xml'"):
        read_source(spark, [str(csv)], "xml")
    with pytest.raises(InvalidArgument, match="one by one"):
        read_source(spark, ["a", "b"], "table")
    assert stored(topic) == []


def test_the_program_makes_the_topic_and_stores_a_run_once(
    spark: SparkSession, csv: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    words = [str(tmp_path / "made"), str(csv), "--partitions", "2", "--key", "customer", "--run", "may"]
    assert program.main([*words, "--option", "sep=,"]) == 0
    assert b"300 records -> made" in capfdbinary.readouterr().out
    assert program.main([*words, "--json"]) == 0
    told = json.loads(capfdbinary.readouterr().out)
    assert told == {
        "topic": "made",
        "run": "may",
        "batch": 0,
        "stored": False,
        "records": 0,
        "malformed": 0,
        "rejected": 0,
    }
    assert program.main(words) == 0
    assert b"is already in made" in capfdbinary.readouterr().out
    assert len(stored(tmp_path / "made")) == 300
    assert program.main([*words, "--option", "sep"]) == 2
    assert b"write NAME=VALUE" in capfdbinary.readouterr().err
    assert program.main([str(tmp_path / "made"), str(tmp_path / "no.csv")]) == 2
    assert capfdbinary.readouterr().err.count(b"\n") == 1
