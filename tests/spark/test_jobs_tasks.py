"""What the jobs' tasks do, called as an executor calls it but in this process: no Spark, every batch in sight."""

from __future__ import annotations

import json
import os
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.errors import InvalidArgument, MachineFailed, OffsetCompacted
from seglog.log.catalog import read_manifest
from seglog.log.opening import storage_at
from seglog.record import Record
from seglog.spark.audit.keys import SCHEMA, Stretch, identities, key_summaries
from seglog.spark.audit.segments import SegmentShare, audit_segments
from seglog.spark.compact import Pass, _outcome, _plan, rewrite_log
from seglog.spark.jobs import command
from seglog.spark.jobs.pins import check_all, pin
from seglog.spark.jobs.tasks import MARK, records
from seglog.spark.replay import COLUMNS, tasks
from seglog.spark.replay.classroom import Classroom
from seglog.spark.snapshot.latest import latest_records
from seglog.topic.layout.places import Place
from seglog.topic.positions import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from seglog.spark.jobs.pins import Pin
    from seglog.spark.read.plan import OffsetRange

SMALL = seglog.LogConfig(segment_bytes=2048)


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    """400 instructions to 9 students and to nobody in particular, in many segments."""
    draw = random.Random(2)
    with seglog.open(tmp_path / "lesson", SMALL) as log:
        for number in range(400):
            key = draw.choice([None, *(b"%d" % student for student in range(9))])
            instruction = f"{draw.choice(['Add', 'Sub', 'Mul', 'Div'])} {draw.randint(1, 3)}".encode()
            log.append(instruction, key=key, timestamp=number, headers=[("n", b"%d" % number)])
    return tmp_path / "lesson"


def by_hand(path: Path, *, per_key: bool = True) -> dict[bytes | None, tuple[int, bytes]]:
    machine, states = Classroom(), {}
    with seglog.open(path, mode="r") as log:
        for record in log.scan():
            key = record.key if per_key else None
            before = states[key][1] if key in states else machine.initial()
            states[key] = record.offset, machine.apply(before, record)
    return {key: (offset, machine.encode(state)) for key, (offset, state) in states.items()}


def ends(batches: Iterable[pa.RecordBatch]) -> dict[bytes | None, tuple[int, bytes]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return {row["key"]: (row["offset"], row["state"]) for row in rows}


def range_of(path: Path) -> OffsetRange:
    return pin(path)[0].range


# --- replay


@pytest.mark.parametrize("per_key", [True, False])
def test_a_task_for_a_log_keeps_a_state_for_each_key(
    lesson: Path, per_key: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "ROWS", 4)
    batches = list(
        tasks.states_of_log(range_of(lesson), machine=Classroom(), columns=COLUMNS, per_key=per_key, complete=True)
    )
    assert ends(batches) == by_hand(lesson, per_key=per_key)
    assert all(batch.num_rows <= 4 for batch in batches)


@pytest.mark.parametrize("rows", [1, 7, 400])
@pytest.mark.parametrize("per_key", [True, False])
def test_a_task_for_sorted_runs_carries_the_state_from_batch_to_batch(lesson: Path, rows: int, per_key: bool) -> None:
    columns = ["topic", "partition", *COLUMNS, "headers"]
    table = pa.Table.from_batches(records(range_of(lesson), columns))
    order = [("key", "ascending"), ("offset", "ascending")] if per_key else [("offset", "ascending")]
    ordered = table.sort_by(order).combine_chunks().to_batches(max_chunksize=rows)
    found = ends(tasks.states_of_runs(ordered, machine=Classroom(), per_key=per_key))
    assert found == by_hand(lesson, per_key=per_key)


def test_large_states_leave_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tasks, "STATES_BYTES", 100)
    rows = [tasks._State("t", 0, b"%d" % number, number, b"s" * 60) for number in range(5)]
    assert [batch.num_rows for batch in tasks._batches(rows)] == [2, 2, 1]


def test_both_tasks_name_the_record_that_the_machine_refuses(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "lesson") as log:
        log.append(b"Add 1")
        log.append(b"Sing")
    part = range_of(tmp_path / "lesson")
    said = "Classroom rejected offset 1 of partition 0 of topic 'lesson': ValueError"
    with pytest.raises(MachineFailed, match=said):
        list(tasks.states_of_log(part, machine=Classroom(), columns=COLUMNS, per_key=True, complete=True))
    runs = records(part, ["topic", "partition", *COLUMNS])
    with pytest.raises(MachineFailed, match=said):
        list(tasks.states_of_runs(runs, machine=Classroom(), per_key=True))


def test_a_record_that_compaction_took_since_the_plan_is_noticed(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        for offset in (0, 1, 3):
            log.append_at(offset, Record(offset, 0, b"k", b"Add 1"))
    arguments: dict[str, Any] = {"machine": Classroom(), "columns": COLUMNS, "per_key": True}
    with pytest.raises(OffsetCompacted):
        list(tasks.states_of_log(range_of(tmp_path / "log"), complete=True, **arguments))
    assert ends(tasks.states_of_log(range_of(tmp_path / "log"), complete=False, **arguments)) == {b"k": (3, b"45")}


def compacted_since(path: Path) -> tuple[Pin, seglog.Log]:
    """A pin of 21 records, the last of which a compaction has taken since, and the log."""
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
    log = seglog.open(path, config)
    for number in range(20):
        log.append(b"Add 1", key=b"other %d" % number)
    log.append(b"Add 1", key=b"k")
    (one,) = pin(path)
    log.append(b"Add 2", key=b"k")
    for number in range(40):
        log.append(b"Add 3", key=b"later number %d" % number)
    log.compact()
    return one, log


def test_the_last_record_before_the_stop_is_missed_like_any_other(tmp_path: Path) -> None:
    one, log = compacted_since(tmp_path / "log")
    arguments: dict[str, Any] = {"machine": Classroom(), "columns": COLUMNS, "per_key": True}
    with pytest.raises(OffsetCompacted, match="offset 20 no longer holds a record"):
        list(tasks.states_of_log(one.range, complete=True, **arguments))
    assert len(ends(tasks.states_of_log(one.range, complete=False, **arguments))) == 20
    with pytest.raises(OffsetCompacted, match="was compacted while the job waited"):
        check_all(one)
    log.close()


def test_sorted_runs_look_at_a_log_when_its_mark_comes(tmp_path: Path) -> None:
    one, log = compacted_since(tmp_path / "log")
    mark = {"topic": "log", "partition": 0, "offset": MARK, "timestamp": None, "key": None, "value": None}
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("offset", pa.int64())])
    for name, kind in (("timestamp", pa.timestamp("us")), ("key", pa.binary()), ("value", pa.binary())):
        schema = schema.append(pa.field(name, kind))
    batch = pa.RecordBatch.from_pylist([mark], schema)
    with pytest.raises(OffsetCompacted, match="was compacted while the job waited"):
        list(tasks.states_of_runs([batch], machine=Classroom(), per_key=True, pins=[one]))
    assert ends(tasks.states_of_runs([batch], machine=Classroom(), per_key=True, pins=pin(log.path, stop=0))) == {}
    log.close()


# --- snapshot


def test_a_state_is_refused_only_where_it_gave_way_to_records_behind_its_stop(tmp_path: Path) -> None:
    one, log = compacted_since(tmp_path / "log")
    with pytest.raises(OffsetCompacted, match="was compacted while the job waited"):
        list(latest_records(one, columns=("offset",)))
    rows = sum(batch.num_rows for batch in latest_records(one, columns=("offset",), complete=False))
    assert rows == 20
    (now,) = pin(log.path)
    for number in range(40):
        log.append(b"Add 4", key=b"later number %d" % (number % 3))
    (behind,) = pin(log.path)
    log.compact()
    rows = sum(batch.num_rows for batch in latest_records(behind, columns=("offset",)))
    assert rows == 61, "what gave way, gave way to what is in it"
    with pytest.raises(OffsetCompacted):
        list(latest_records(now, columns=("offset",)))
    log.close()


def test_a_past_state_is_not_believed_after_a_pass_that_left_a_damaged_segment_out(tmp_path: Path) -> None:
    """Such a pass cleans up to the damage, but compares with what stands behind it."""
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
    with seglog.open(tmp_path / "log", config) as log:
        for key in (b"k", *(b"other %d" % number for number in range(40)), b"k", *(b"%d" % n for n in range(30))):
            log.append(b"x" * 20, key=key)
        damaged = log.segments[2]
        store = tmp_path / "log" / damaged.name
        data = bytearray(store.read_bytes())
        data[200] ^= 1
        store.write_bytes(data)
        assert len(log.compact().damaged) == 1
    assert not pin(tmp_path / "log", stop=damaged.base_offset)[0].as_of_then
    assert pin(tmp_path / "log")[0].as_of_then
    assert pin(tmp_path / "log", stop=60)[0].as_of_then is (log_superseded_to(tmp_path / "log") <= 60)


def log_superseded_to(path: Path) -> int:
    manifest = read_manifest(storage_at(path))
    assert manifest is not None
    return max(entry.superseded_to or 0 for entry in manifest.segments)


# --- audit


def audited(path: Path, **changes: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The reports of all segments, and the summaries of keys and identities, of one task for the whole log."""
    manifest = read_manifest(storage_at(path))
    assert manifest is not None
    with seglog.open(path, mode="r") as log:
        start, stop = log.lowest_offset, log.next_offset
    lines = tuple(entry.line for entry in manifest.segments)
    share = SegmentShare("t", 0, str(path), lines, start, stop, changes.get("delivered", ()), changes.get("identity"))
    batches = list(audit_segments(share))
    assert all(batch.schema == SCHEMA for batch in batches)
    rows = [row for batch in batches for row in batch.to_pylist()]
    reports = [json.loads(row["report"]) for row in rows if row["report"] is not None]
    return reports, [row for row in rows if row["report"] is None]


def test_summaries_of_keys_add_up_to_the_log(lesson: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.spark.audit.segments.STRETCH_ROWS", 5)
    reports, rows = audited(lesson, delivered=(100,), identity="n")
    with seglog.open(lesson, mode="r") as log:
        stored = list(log.scan())
    assert sum(report["records"] for report in reports) == 400
    assert sum(report["undelivered"][0] for report in reports) == 300
    assert [row["identity"] for row in rows if row["identity"]] == [b"%d" % number for number in range(400)]
    for key in {record.key for record in stored} - {None}:
        mine = [row for row in rows if row["key"] == key]
        offsets = [record.offset for record in stored if record.key == key]
        assert sum(row["records"] for row in mine) == len(offsets)
        assert (mine[0]["first_offset"], mine[-1]["last_offset"]) == (offsets[0], offsets[-1])
        delivered = max(row["delivered"][0] for row in mine if row["delivered"][0] is not None)
        assert delivered == max(offset for offset in offsets if offset < 100)


def test_a_damaged_record_is_passed_over_and_named(lesson: Path) -> None:
    with seglog.open(lesson, mode="r") as log:
        segment = log.segments[2]
    store = lesson / segment.name
    data = bytearray(store.read_bytes())
    data[len(data) // 2] ^= 0x40
    store.write_bytes(data)
    reports, _ = audited(lesson)
    (damaged,) = [report for report in reports if report["problems"]]
    (lost,) = damaged["lost"]
    assert damaged["base"] == segment.base_offset
    assert damaged["corrupt"] == lost[2] == 1
    assert damaged["records"] == segment.records - 1
    assert [problem["offset"] for problem in damaged["problems"]] == [lost[0]]


def test_sparse_segments_have_gaps_that_are_no_loss_and_records_that_are(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        for offset in range(0, 400, 2):
            log.append_at(offset, Record(offset, offset, b"k", b"value"))
        segment = log.segments[1]
    assert all(not report["lost"] for report in audited(tmp_path / "log")[0])
    store = tmp_path / "log" / segment.name
    store.write_bytes(store.read_bytes()[: segment.bytes - 20])
    lost = [report["lost"] for report in audited(tmp_path / "log")[0] if report["lost"]]
    assert [one[2] for one in lost[0]] == [1]


def test_a_key_summary_tells_steps_back_in_time_of_its_own_key() -> None:
    keys = pa.array([b"a", b"b", b"a", None, b"a", b"b"], pa.binary())
    stretch = Stretch(
        keys,
        pa.array([10, 11, 12, 13, 14, 15]).to_numpy(),
        pa.array([5, 1, 4, 0, 6, 1]).to_numpy(),
        pa.array([0, 0, 0, 0, 0, 1]).to_numpy().astype(bool),
    )
    rows = [row for batch in key_summaries("t", 0, stretch, [12, 10, 0]) for row in batch.to_pylist()]
    shown = [(row["key"], row["records"], row["backwards"], row["tombstone"], row["delivered"]) for row in rows]
    assert shown == [(b"a", 3, 1, False, [10, None, None]), (b"b", 2, 0, True, [11, None, None])]
    nothing = Stretch(pa.nulls(1, pa.binary()), *(column[:1] for column in stretch[1:]))
    assert list(key_summaries("t", 0, nothing, [])) == []


def test_a_record_that_names_its_identity_twice_is_no_duplicate_of_itself() -> None:
    pairs = [[("id", b"1"), ("id", b"1")], [("id", b"1"), ("id", b"2"), ("x", b"2")], [], [("id", b"2")]]
    named = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[{"key": key, "value": value} for key, value in one] for one in pairs], named)
    batch = pa.RecordBatch.from_arrays([pa.array([5, 6, 7, 8]), headers], names=["offset", "headers"])
    rows = [row for found in identities("t", 0, batch, "id") for row in found.to_pylist()]
    assert [(row["offset"], row["identity"]) for row in rows] == [(5, b"1"), (6, b"1"), (6, b"2"), (8, b"2")]


# --- compact


def test_an_error_of_a_pass_is_a_row_and_one_of_planning_a_value(tmp_path: Path) -> None:
    config = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(compact=True))
    with seglog.open(tmp_path / "log", config) as log:
        for number in range(400):
            log.append(b"value %d" % number, key=b"%d" % (number % 10))
        plan = log.plan_compaction()
    for store in sorted((tmp_path / "log").glob("*.store"))[:1]:
        store.unlink()
    (row,) = [
        row for batch in rewrite_log(Pass(0, str(tmp_path / "log"), "b", plan, None)) for row in batch.to_pylist()
    ]
    assert row["outcome"] is None
    error = _outcome(row)
    assert isinstance(error, seglog.SeglogError)
    assert type(error).__name__ == row["error"]
    assert str(error) == row["message"]
    seglog.open(tmp_path / "plain").close()
    assert isinstance(_plan(Place("plain", 0, str(tmp_path / "plain"))), seglog.ConfigError)


def test_a_pass_stands_in_a_stage_of_its_own_and_says_where(tmp_path: Path) -> None:
    config = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(compact=True))
    with seglog.open(tmp_path / "log", config) as log:
        for number in range(400):
            log.append(b"value %d" % number, key=b"%d" % (number % 10))
        plan = log.plan_compaction()
        one = Pass(3, str(tmp_path / "log"), "compact-1", plan, None)
        (first,), (second,) = ([row for batch in rewrite_log(one) for row in batch.to_pylist()] for _ in range(2))
        assert first["number"] == 3
        assert first["directory"] != second["directory"], "a second attempt does not disturb the first"
        outcome = json.loads(first["outcome"])
        assert outcome["superseded"] > 300
        assert list((tmp_path / "log" / first["directory"]).glob("*.store"))


# --- offsets and the session


def test_offsets_survive_their_json_also_a_checkpoints() -> None:
    offsets = {"a b": {0: 5, 11: 2**62}, "é": {3: 0}}
    assert from_json(to_json(offsets), "x") == offsets
    assert from_json('{"t": {"0": {"offset": 17, "epoch": 0}}}', "x") == {"t": {0: 17}}
    for text in ("", "7", "[]", '{"t": 5}', '{"t": {"zero": 5}}', '{"t": {"0": "5"}}', '{"t": {"0": true}}'):
        with pytest.raises(InvalidArgument, match="--start must be JSON"):
            from_json(text, "--start")


class Builder:
    """Stands in for SparkSession.builder: remembers what it was told."""

    def __init__(self) -> None:
        self.told: dict[str, str] = {}
        self.conf = self

    @property
    def builder(self) -> Builder:
        return self

    def __getattr__(self, name: str) -> Any:
        return lambda value: self.told.update({name: value}) or self

    def set(self, name: str, value: str) -> None:
        self.told[name] = value

    def getOrCreate(self) -> Builder:
        return self


@pytest.mark.parametrize(("submitted", "master"), [(True, None), (False, "spark://host:7077")])
def test_a_cluster_is_the_one_that_spark_submit_or_the_master_names(
    submitted: bool, master: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered: list[object] = []
    monkeypatch.setattr(command, "register", registered.append)
    monkeypatch.setattr(command, "use_java", lambda: None)
    monkeypatch.setenv("PYSPARK_PYTHON", os.environ.get("PYSPARK_PYTHON", "python3"))
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    if submitted:
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    builder = Builder()
    assert command._started(builder, "seglog audit", "spark://host:7077") is builder  # type: ignore[arg-type] # a stand-in
    assert builder.told.get("master") == master
    assert builder.told["appName"] == "seglog audit"
    assert builder.told["spark.sql.parquet.outputTimestampType"] == "TIMESTAMP_MICROS"
    assert registered == [builder]
