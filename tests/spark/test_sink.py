"""df.write.format("seglog"): every column arrives, in its place, and each write is stored once."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.format.filename import TREE_LOCK
from seglog.topic import Topic, partition_of
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)
MOMENT = datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC)
MICROS = int(MOMENT.timestamp() * 1_000_000)
FULL = (
    "key binary, value binary, headers array<struct<key string, value binary>>, topic string, partition int, "
    "timestamp timestamp"
)


@pytest.fixture
def topic_path(tmp_path: Path) -> Path:
    """An empty topic `orders` of 3 partitions with small segments, in a directory of topics."""
    Topic.create(tmp_path / "orders", partitions=3, config=SMALL).close()
    return tmp_path / "orders"


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    """An empty log."""
    seglog.open(tmp_path / "log", SMALL).close()
    return tmp_path / "log"


def write(frame: DataFrame, path: Path, **options: Any) -> None:
    frame.write.format("seglog").mode("append").options(**options).save(str(path))


def stored(path: Path) -> list[list[seglog.Record]]:
    """Return the records of each partition."""
    with Topic.open(path, mode="r") as topic:
        return [list(topic.partition(number).scan()) for number in range(topic.partitions)]


def values_of(path: Path) -> list[bytes | None]:
    with seglog.open(path, mode="r") as log:
        return [record.value for record in log.scan()]


def files_below(path: Path) -> dict[str, bytes]:
    """Return every file that a refused write must not change; the lock names the last process that held it."""
    files = (file for file in path.rglob("*") if file.is_file() and file.name != TREE_LOCK)
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


def staged_below(path: Path) -> list[Path]:
    """Return what stands in stages, files and directories, of all logs below."""
    return [entry for staging in path.rglob("staging") for entry in staging.iterdir()]


# --- columns


def test_every_column_arrives(spark: SparkSession, log_path: Path) -> None:
    rows = [
        (b"k", b"v", [("a", b"1"), ("a", None), ("é", b"")], "log", 0, MOMENT),
        (b"", b"", [], "log", 0, MOMENT),
        (bytes(range(256)), None, [], "log", 0, MOMENT),
    ]
    write(spark.createDataFrame(rows, FULL).coalesce(1), log_path)
    with seglog.open(log_path, mode="r") as log:
        assert list(log.scan()) == [
            seglog.Record(0, MICROS, b"k", b"v", (("a", b"1"), ("a", None), ("é", b""))),
            seglog.Record(1, MICROS, b"", b"", ()),
            seglog.Record(2, MICROS, bytes(range(256)), None, ()),
        ]


def test_null_is_no_key_a_tombstone_no_headers_and_now(spark: SparkSession, log_path: Path) -> None:
    before = seglog.clock.system_clock()
    write(spark.createDataFrame([(None, None, None, None, None, None)], FULL), log_path)
    with seglog.open(log_path, mode="r") as log:
        (record,) = log.scan()
    assert (record.key, record.value, record.headers) == (None, None, ())
    assert before <= record.timestamp <= seglog.clock.system_clock()


def test_text_is_stored_as_utf_8(spark: SparkSession, log_path: Path) -> None:
    kind = "key string, value string, headers array<struct<key string, value string>>"
    write(spark.createDataFrame([("schlüssel", "wért", [("a", "ß")])], kind), log_path)
    with seglog.open(log_path, mode="r") as log:
        (record,) = log.scan()
    assert record.key == "schlüssel".encode()
    assert record.value == "wért".encode()
    assert record.headers == (("a", "ß".encode()),)


@pytest.mark.parametrize("kind", ["tinyint", "smallint", "int", "bigint"])
def test_a_partition_of_any_whole_type_is_taken(spark: SparkSession, topic_path: Path, kind: str) -> None:
    columns = ["'same key' AS key", "'v' AS value", f"CAST(id % 3 AS {kind}) AS partition"]
    write(spark.range(9).selectExpr(*columns), topic_path)
    assert [len(share) for share in stored(topic_path)] == [3, 3, 3]


def test_a_timestamp_without_a_zone_is_refused_and_stored_by_sparks_own_cast(
    spark: SparkSession, log_path: Path
) -> None:
    rows = spark.sql("SELECT 'v' AS value, TIMESTAMP_NTZ '2024-02-29 18:00:15.123456' AS timestamp")
    with pytest.raises(Exception, match=r"(?s)timestamp_ntz.*CAST\(timestamp AS timestamp\)"):
        write(rows, log_path)
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kolkata")
    try:
        write(rows.selectExpr("value", "CAST(timestamp AS timestamp) AS timestamp"), log_path)
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    with seglog.open(log_path, mode="r") as log:
        assert [record.timestamp for record in log.scan()] == [MICROS]


def test_what_the_source_gave_can_be_written_and_gets_offsets_of_its_own(
    spark: SparkSession, topic_path: Path, tmp_path: Path
) -> None:
    with Topic.open(topic_path) as topic:
        for number in range(300):
            headers = [("n", b"%d" % number)] if number % 3 else []
            topic.append(b"v%d" % number, key=b"k%d" % (number % 40), timestamp=MICROS + number, headers=headers)
    with Topic.create(tmp_path / "copy" / "orders", partitions=3) as copy:
        copy.append(b"earlier")
    frame = spark.read.format("seglog").option("includeHeaders", True).load(str(topic_path))
    assert {"offset", "timestampType"} < set(frame.columns)
    write(frame, tmp_path / "copy" / "orders")

    def without_offset(share: list[seglog.Record]) -> list[tuple[Any, ...]]:
        return [(record.timestamp, record.key, record.value, record.headers) for record in share]

    copied = stored(tmp_path / "copy" / "orders")
    assert copied[0].pop(0).value == b"earlier"
    assert [without_offset(share) for share in copied] == [without_offset(share) for share in stored(topic_path)]


# --- topics and partitions


def test_rows_go_to_the_topics_that_their_column_names(spark: SparkSession, topic_path: Path, tmp_path: Path) -> None:
    Topic.create(tmp_path / "returns", partitions=1).close()
    write(spark.range(20).selectExpr("if(id % 4 = 0, 'returns', 'orders') AS topic", "string(id) AS value"), tmp_path)
    returned = {record.value for share in stored(tmp_path / "returns") for record in share}
    ordered = {record.value for share in stored(topic_path) for record in share}
    assert returned == {b"%d" % number for number in range(0, 20, 4)}
    assert ordered == {b"%d" % number for number in range(20) if number % 4}


def test_a_topic_is_found_by_the_name_it_was_given(spark: SparkSession, tmp_path: Path) -> None:
    Topic.create(tmp_path / "directory", partitions=1, name="orders").close()
    write(spark.sql("SELECT 'orders' AS topic, 'v' AS value"), tmp_path)
    assert stored(tmp_path / "directory")[0][0].value == b"v"


def test_the_option_topic_wins_over_the_column(spark: SparkSession, topic_path: Path, tmp_path: Path) -> None:
    write(spark.sql("SELECT 'elsewhere' AS topic, 'v' AS value UNION ALL SELECT NULL, 'w'"), tmp_path, topic="orders")
    assert sorted(record.value or b"" for share in stored(topic_path) for record in share) == [b"v", b"w"]


def test_a_null_partition_leaves_the_choice_to_the_key(spark: SparkSession, topic_path: Path) -> None:
    rows = [("a", "named", 2), ("b", "named", 0), ("a", "free", None), ("b", "free", None)]
    write(spark.createDataFrame(rows, "key string, value string, partition int"), topic_path)
    found = {(number, record.key, record.value) for number, share in enumerate(stored(topic_path)) for record in share}
    assert found == {
        (2, b"a", b"named"),
        (0, b"b", b"named"),
        (partition_of(b"a", 3), b"a", b"free"),
        (partition_of(b"b", 3), b"b", b"free"),
    }


def test_keys_go_where_append_and_append_batch_put_them(spark: SparkSession, topic_path: Path, tmp_path: Path) -> None:
    keys = [f"key {number % 60} ü".encode() for number in range(600)]
    values = [b"%d" % number for number in range(600)]
    frame = spark.createDataFrame(list(zip(keys, values, strict=True)), "key binary, value binary")
    write(frame.coalesce(1), topic_path)
    with Topic.create(tmp_path / "batch", partitions=3) as batch, Topic.create(tmp_path / "one", partitions=3) as one:
        batch.append_batch(pa.table({"key": keys, "value": values}))
        for key, value in zip(keys, values, strict=True):
            one.append(value, key=key)

    def places(path: Path) -> list[list[tuple[Any, ...]]]:
        return [[(record.offset, record.key, record.value) for record in share] for share in stored(path)]

    assert places(topic_path) == places(tmp_path / "batch") == places(tmp_path / "one")


def test_rows_without_a_key_are_dealt_out_in_turn(spark: SparkSession, topic_path: Path) -> None:
    write(spark.range(3000).selectExpr("string(id) AS value").coalesce(1), topic_path)
    assert [len(share) for share in stored(topic_path)] == [1000, 1000, 1000]


def test_the_order_of_a_task_is_kept_within_a_partition(spark: SparkSession, topic_path: Path) -> None:
    write(spark.range(0, 40_000, 1, 2).selectExpr("string(id % 50) AS key", "string(id) AS value"), topic_path)
    by_key: dict[bytes, list[int]] = {}
    for share in stored(topic_path):
        for record in share:
            by_key.setdefault(record.key or b"", []).append(int(record.value or b""))
    assert sum(map(len, by_key.values())) == 40_000
    for numbers in by_key.values():  # tasks join in their order, and rows within a task in theirs
        assert numbers == sorted(numbers)


# --- what is stored


def test_segments_keep_the_logs_size_and_every_byte_is_sound(spark: SparkSession, topic_path: Path) -> None:
    write(spark.range(2000).selectExpr("string(id) AS key", "repeat('v', 100) AS value"), topic_path)
    with Topic.open(topic_path, mode="r") as topic:
        for number in range(3):
            log = topic.partition(number)
            assert len(log.segments) > 10
            assert max(segment.bytes for segment in log.segments) <= 4096
            assert log.verify().ok
            offsets = [record.offset for record in log.scan()]
            assert offsets == list(range(log.next_offset))
    assert staged_below(topic_path) == []


def test_values_of_many_megabytes_come_through(spark: SparkSession, tmp_path: Path) -> None:
    seglog.open(tmp_path / "log").close()
    write(spark.range(3).selectExpr("repeat(string(id), 9000000 + int(id)) AS value").coalesce(1), tmp_path / "log")
    digests = [hashlib.sha256(value or b"").digest() for value in values_of(tmp_path / "log")]
    assert digests == [hashlib.sha256(b"%d" % number * (9_000_000 + number)).digest() for number in range(3)]


def test_a_frame_without_rows_stores_nothing(spark: SparkSession, topic_path: Path) -> None:
    before = files_below(topic_path)
    write(spark.range(10).where("id > 10").selectExpr("string(id) AS value"), topic_path)
    assert files_below(topic_path) == before


def test_tasks_without_rows_stage_nothing(spark: SparkSession, topic_path: Path) -> None:
    write(spark.range(0, 8, 1, 8).where("id = 5").selectExpr("'k' AS key", "string(id) AS value"), topic_path)
    assert sorted(len(share) for share in stored(topic_path)) == [0, 0, 1]
    assert staged_below(topic_path) == []


def test_each_write_adds_behind_what_is_there(spark: SparkSession, log_path: Path) -> None:
    with seglog.open(log_path) as log:
        log.append(b"by hand")
    for word in ("one", "two"):
        write(spark.sql(f"SELECT '{word}' AS value"), log_path)
    with seglog.open(log_path) as log:
        log.append(b"by hand again")
    assert values_of(log_path) == [b"by hand", b"one", b"two", b"by hand again"]


def test_a_named_batch_is_stored_once(spark: SparkSession, topic_path: Path) -> None:
    frame = spark.range(30).selectExpr("string(id) AS key", "string(id) AS value")
    for batch in (0, 0, 1, 0, 1):
        write(frame, topic_path, queryId="nightly", batchId=batch)
    write(frame, topic_path, queryId="other", batchId=0)
    assert sum(map(len, stored(topic_path))) == 3 * 30
    assert staged_below(topic_path) == []


def test_a_reader_that_began_before_keeps_its_snapshot_and_then_sees_the_batch(
    spark: SparkSession, log_path: Path
) -> None:
    with seglog.open(log_path) as log:
        log.append_batch(pa.table({"value": [b"old"] * 100}))
    program = (
        "import sys, seglog\n"
        "log = seglog.open(sys.argv[1], mode='r')\n"
        "records = log.scan(); next(records); print('reading', flush=True)\n"
        "sys.stdin.readline()\n"
        "print(1 + sum(1 for _ in records), sum(1 for _ in log.scan()), flush=True)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(log_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "reading\n"
        write(spark.range(500).selectExpr("repeat('n', 100) AS value"), log_path)
        answer, _ = reader.communicate("\n", timeout=HANG_SECONDS)
    assert answer.split() == ["100", "600"]
