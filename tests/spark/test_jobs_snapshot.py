"""The snapshot job: the latest value of every key, as of any moment, and a stream that goes on exactly behind it."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import seglog
from seglog.errors import InvalidArgument, LogNotFound, NotALog, OffsetCompacted, OffsetOutOfRange
from seglog.record import Record
from seglog.spark.snapshot import __main__ as program
from seglog.spark.snapshot import bootstrap, latest, snapshot
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)
MOMENT = datetime(2024, 2, 29, 12, 30, tzinfo=UTC)
START_US = int(MOMENT.timestamp() * 1_000_000)
PLANS = ["partition", "shuffle"]

State = dict[tuple[int, bytes], tuple[int, bytes | None]]


@pytest.fixture(scope="module")
def topic(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A topic of 3 partitions and 1,500 records of 60 keys in many segments: tombstones, empty keys, none at all."""
    path: Path = tmp_path_factory.mktemp("snapshot") / "orders"
    draw = random.Random(7)
    with Topic.create(path, partitions=3, config=SMALL) as topic:
        for number in range(1500):
            key = draw.choice([None, b"", *(b"key %d" % one for one in range(58))])
            value = None if draw.random() < 0.1 else b"value %d" % number
            topic.append(value, key=key, timestamp=START_US + number, headers=[("number", b"%d" % number)])
    return path


def expected(path: Path, stops: dict[int, int] | None = None, *, tombstones: bool = False) -> State:
    """The same, in a loop."""
    states: State = {}
    with Topic.open(path, mode="r") as topic:
        for number in range(topic.partitions):
            for record in topic.partition(number).scan(0, None if stops is None else stops[number]):
                if record.key is not None:
                    states[number, record.key] = record.offset, record.value
    return {key: state for key, state in states.items() if tombstones or state[1] is not None}


def states_of(frame: DataFrame) -> State:
    rows = frame.select("partition", "key", "offset", "value").collect()
    found = {
        (row.partition, bytes(row.key)): (row.offset, None if row.value is None else bytes(row.value)) for row in rows
    }
    assert len(found) == len(rows), "a key is there twice"
    return found


@pytest.mark.parametrize("plan", PLANS)
def test_every_key_has_its_latest_value_and_a_tombstone_takes_it_away(
    spark: SparkSession, topic: Path, plan: Any
) -> None:
    found = states_of(snapshot(spark, topic, plan=plan))
    assert found == expected(topic)
    assert any(key == b"" for _, key in found)


@pytest.mark.parametrize("plan", PLANS)
def test_the_state_as_of_any_offsets_is_that_of_the_records_before_them(
    spark: SparkSession, topic: Path, plan: Any
) -> None:
    stops = {0: 250, 1: 0, 2: 99}
    assert states_of(snapshot(spark, topic, as_of={"orders": stops}, plan=plan)) == expected(topic, stops)


def test_the_state_as_of_a_time_ends_before_the_first_record_of_that_time(spark: SparkSession, topic: Path) -> None:
    first = bootstrap(spark, topic, as_of=MOMENT + timedelta(microseconds=700))
    with Topic.open(topic, mode="r") as logs:
        stops = {number: logs.partition(number).offset_at(START_US + 700) or 0 for number in range(3)}
    assert first.next_offsets == {"orders": stops}
    assert states_of(first.state) == expected(topic, stops)
    assert snapshot(spark, topic, as_of=MOMENT).count() == 0
    assert bootstrap(spark, topic, as_of=datetime(2030, 1, 1)).next_offsets == bootstrap(spark, topic).next_offsets


def test_tombstones_and_headers_come_when_asked_for(spark: SparkSession, topic: Path) -> None:
    kept = snapshot(spark, topic, tombstones=True, include_headers=True)
    assert states_of(kept) == expected(topic, tombstones=True)
    for row in kept.where("value IS NOT NULL").collect():
        assert bytes(row.headers[0].value) == bytes(row.value).removeprefix(b"value ")


def test_the_columns_are_those_of_the_source(spark: SparkSession, topic: Path) -> None:
    source = spark.read.format("seglog").load(str(topic))
    for plan in PLANS:
        state: Any = snapshot(spark, topic, plan=plan)  # type: ignore[arg-type] # the two plans there are
        assert state.schema.simpleString() == source.schema.simpleString()
    row = snapshot(spark, topic).orderBy("offset").selectExpr("unix_micros(timestamp) AS t", "topic").first()
    assert row is not None
    assert START_US <= row.t < START_US + 1500
    assert row.topic == "orders"


def test_a_stream_goes_on_exactly_behind_the_state(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "events"
    with seglog.open(path) as log:
        for number in range(100):
            log.append(b"%d" % number, key=b"%d" % (number % 7))
        first = bootstrap(spark, path)
        assert json.loads(first.starting_offsets) == {"events": {"0": 100}}
        for number in range(100, 150):
            log.append(b"%d" % number, key=b"%d" % (number % 7))
    behind = spark.readStream.format("seglog").option("startingOffsets", first.starting_offsets).load(str(path))
    query = behind.writeStream.format("memory").queryName("behind").trigger(availableNow=True).start()
    query.awaitTermination()
    assert [row.offset for row in spark.table("behind").orderBy("offset").collect()] == list(range(100, 150))
    assert sorted(row.offset for row in first.state.collect()) == list(range(93, 100)), "appended since: not in it"


def test_a_brokers_topics_are_read_all(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("b", "a"):
        with Topic.create(tmp_path / "root" / name, partitions=2) as topic:
            for number in range(10):
                topic.append(name.encode(), key=b"%d" % number)
    for plan in PLANS:
        rows = snapshot(spark, tmp_path / "root", plan=plan).collect()  # type: ignore[arg-type] # as above
        assert len(rows) == 20
        assert all(bytes(row.value).decode() == row.topic for row in rows)


def test_an_empty_log_has_no_state(spark: SparkSession, tmp_path: Path) -> None:
    seglog.open(tmp_path / "empty").close()
    assert snapshot(spark, tmp_path / "empty").count() == 0


def test_many_keys_are_merged_in_pieces(topic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from seglog.spark.jobs.pins import pin  # noqa: PLC0415 - beside its use

    monkeypatch.setattr(latest, "MERGE_ROWS", 10)
    monkeypatch.setattr(latest, "SKIP_OFFSETS", 3)
    rows = [
        row
        for one in pin(topic)
        for batch in latest.latest_records(one, columns=("key", "value", "offset", "partition"))
        for row in batch.to_pylist()
    ]
    found = {(row["partition"], row["key"]): (row["offset"], row["value"]) for row in rows}
    assert found == expected(topic, tombstones=True)


def sparse_log(path: Path, **config: Any) -> None:
    """Offsets 0 to 9 without 3: what compaction leaves, as a follower stores it."""
    with seglog.open(path, seglog.LogConfig(**config)) as log:
        for offset in (*range(3), *range(4, 10)):
            log.append_at(offset, Record(offset, START_US, b"%d" % offset, b"v"))


def test_a_past_state_that_compaction_has_taken_records_from_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    sparse_log(tmp_path / "log")
    assert snapshot(spark, tmp_path / "log").count() == 9, "as of now nothing is missing"
    assert snapshot(spark, tmp_path / "log", as_of=2).count() == 2, "before the first gap neither"
    with pytest.raises(InvalidArgument, match="compaction"):
        snapshot(spark, tmp_path / "log", as_of=5)
    assert snapshot(spark, tmp_path / "log", as_of=5, incomplete=True).count() == 4


@pytest.mark.parametrize("others", [0, 20])
def test_a_state_that_waited_through_a_compaction_is_refused_not_short(
    spark: SparkSession, tmp_path: Path, others: int
) -> None:
    """Also where nothing at all is left of what was pinned."""
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
    with seglog.open(tmp_path / "log", config) as log:
        for number in range(others):
            log.append(b"x", key=b"other %d" % number)
        log.append(b"first", key=b"k")
        waiting = [snapshot(spark, tmp_path / "log", plan=plan) for plan in PLANS]  # type: ignore[arg-type] # both
        accepted = [snapshot(spark, tmp_path / "log", plan=plan, incomplete=True) for plan in PLANS]  # type: ignore[arg-type] # both
        log.append(b"second", key=b"k")
        for number in range(40):
            log.append(b"y" * 20, key=b"later %d" % number)
        log.compact()
        for state in waiting:
            with pytest.raises(Exception, match="was compacted while the job waited"):
                state.collect()
        assert [state.count() for state in accepted] == [others, others]


def test_what_cannot_be_is_one_clear_error(spark: SparkSession, topic: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="plan is 'fast'"):
        snapshot(spark, topic, plan="fast")  # type: ignore[arg-type] # the mistake
    with pytest.raises(InvalidArgument, match="one offset for 3 logs"):
        snapshot(spark, topic, as_of=5)
    with pytest.raises(InvalidArgument, match="partition 1 of topic 'orders' is missing"):
        snapshot(spark, topic, as_of={"orders": {0: 1, 2: 1}})
    with pytest.raises(InvalidArgument, match="partition 0 of topic 'other' does not exist"):
        snapshot(spark, topic, as_of={"orders": {0: 1, 1: 1, 2: 1}, "other": {0: 1}})
    with pytest.raises(OffsetOutOfRange, match="offset 9999 is out of range"):
        snapshot(spark, topic, as_of={"orders": {0: 9999, 1: 1, 2: 1}})
    with pytest.raises(TypeError, match="must be an offset, a datetime"):
        snapshot(spark, topic, as_of="now")  # type: ignore[arg-type] # the mistake
    with pytest.raises(LogNotFound):
        snapshot(spark, tmp_path / "nowhere")
    (tmp_path / "other").mkdir()
    with pytest.raises(NotALog, match="neither a log, a topic nor a broker"):
        snapshot(spark, tmp_path / "other")


def test_a_record_that_compaction_takes_meanwhile_is_never_left_out(
    topic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from seglog.spark.jobs.pins import pin  # noqa: PLC0415 - beside its use

    one = pin(topic)[0]
    there = latest.latest_offsets(one.range)
    for gone in (0, there.size // 2, there.size):
        asked = np.insert(there * 2, gone, there[gone - 1] * 2 + 1 if gone else 1)
        monkeypatch.setattr(latest, "latest_offsets", lambda _, asked=asked: asked)
        monkeypatch.setattr(latest, "records", lambda part, columns: [every_second(there)])
        with pytest.raises(OffsetCompacted, match=f"offset {asked[gone]} no longer holds a record"):
            list(latest.latest_records(one, columns=("offset",)))


def every_second(offsets: Any) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"offset": pa.array(offsets * 2)})


def test_a_log_that_was_cut_since_it_was_planned_is_noticed(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        for number in range(10):
            log.append(b"old", key=b"%d" % number)
        states = snapshot(spark, tmp_path / "log")
        log.truncate(5)
        for number in range(10):
            log.append(b"new", key=b"%d" % number)
        with pytest.raises(Exception, match="truncated"):
            states.collect()


def test_the_program_writes_parquet_and_tells_where_to_go_on(
    spark: SparkSession, topic: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    state = tmp_path / "state"
    assert program.main([str(topic), "--output", str(state), "--json"]) == 0
    told = json.loads(capfdbinary.readouterr().out)
    assert told["rows"] == len(expected(topic))
    assert told["startingOffsets"] == bootstrap(spark, topic).starting_offsets
    assert states_of(spark.read.parquet(str(state))) == expected(topic)
    assert program.main([str(topic), "--output", str(state)]) != 0, "it exists"
    assert b"already exists" in capfdbinary.readouterr().err
    offsets = json.dumps({"orders": {0: 250, 1: 0, 2: 99}})
    assert program.main([str(topic), "--as-of", offsets, "--output", str(state), "--mode", "overwrite"]) == 0
    assert states_of(spark.read.parquet(str(state))) == expected(topic, {0: 250, 1: 0, 2: 99})


def test_the_program_shows_rows_and_its_errors_are_one_line(
    spark: SparkSession, topic: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert program.main([str(topic), "--limit", "3"]) == 0
    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert len(lines) == 3
    assert all("value=value " in line for line in lines)
    for words, code, said in [
        ([str(tmp_path / "nowhere")], 3, "nowhere"),
        ([str(topic), "--as-of", "many"], 2, "--as-of must be JSON"),
        ([str(topic), "--as-of-time", "some day"], 2, "--as-of-time"),
        ([str(topic), "--output", str(topic / "0" / "state")], 2, "inside one another"),
        ([], 2, "PATH"),
    ]:
        assert program.main(words) == code, words
        error = capfdbinary.readouterr().err.decode()
        assert error.count("\n") == 1, error
        assert said in error
