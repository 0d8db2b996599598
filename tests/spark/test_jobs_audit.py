"""The audit job: what is lost, twice there, out of order, damaged or undelivered is named and counted exactly."""

from __future__ import annotations

import json
import random
from dataclasses import fields
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.errors import InvalidArgument, InvalidType, LogNotFound
from seglog.record import Record
from seglog.spark.audit import LogAudit, audit, read_checkpoint
from seglog.spark.audit import __main__ as program
from seglog.spark.audit import keys as key_rows
from seglog.spark.audit.report import AuditedLog, findings_of
from seglog.spark.audit.segments import SegmentReport
from seglog.topic import Topic
from seglog.topic.audit import GroupFigures, LogKeys, audit_keys
from seglog.topic.audit.rows import SCHEMA

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
SMALL = seglog.LogConfig(segment_bytes=4096)


def figures(log: LogAudit) -> dict[str, Any]:
    return {name: getattr(log, name) for name in ("records", "tombstones", "keys", "live_keys", "lost", "corrupt")}


def rows_of(frame: Any) -> list[dict[str, Any]]:
    return [row.asDict() for row in frame.collect()]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A log of 500 records of 20 keys in many segments."""
    with seglog.open(tmp_path / "log", SMALL) as log:
        for number in range(500):
            log.append(b"value %d" % number, key=b"%d" % (number % 20), timestamp=number)
    return tmp_path / "log"


def store_of(path: Path, number: int) -> tuple[Path, seglog.SegmentInfo]:
    with seglog.open(path, mode="r") as log:
        segment = log.segments[number]
    return path / segment.name, segment


def test_a_sound_topic_is_counted_exactly(spark: SparkSession, tmp_path: Path) -> None:
    draw = random.Random(5)
    model: dict[int, list[tuple[bytes | None, bool, int]]] = {0: [], 1: [], 2: []}
    with Topic.create(tmp_path / "orders", partitions=3, config=SMALL) as topic:
        for number in range(3000):
            key, dead = draw.choice([None, *(b"key %d" % one for one in range(200))]), draw.random() < 0.3
            time = number - draw.choice([0, 0, 0, 50])
            partition, _ = topic.append(None if dead else b"v", key=key, timestamp=time)
            model[partition].append((key, dead, time))
    with audit(spark, tmp_path / "orders") as found:
        assert found.report.ok
        assert found.findings.count() == 0
        assert [log.partition for log in found.report.logs] == [0, 1, 2]
        for log in found.report.logs:
            records = model[log.partition]
            latest = {key: dead for key, dead, _ in records if key is not None}
            times = [time for *_, time in records]
            by_key: dict[bytes, int] = {}
            back_by_key = 0
            for key, _, time in records:
                if key is not None:
                    back_by_key += time < by_key.get(key, time)
                    by_key[key] = time
            assert figures(log) == {
                "records": len(records),
                "tombstones": sum(dead for _, dead, _ in records),
                "keys": len(latest),
                "live_keys": sum(not dead for dead in latest.values()),
                "lost": 0,
                "corrupt": 0,
            }
            assert log.backwards == sum(later < before for before, later in pairwise(times))
            assert log.backwards_by_key == back_by_key
            assert log.segments > 5
            assert log.groups == ()
        of_keys = {(row["partition"], bytes(row["key"])): row for row in found.keys.collect()}
        assert len(of_keys) == found.report.total("keys")
        for (partition, key), row in of_keys.items():
            assert row["appended"] == max(n for n, one in enumerate(model[partition]) if one[0] == key)
            assert row["records"] == sum(one[0] == key for one in model[partition])


def test_undelivered_keys_are_those_whose_latest_record_lies_behind_the_committed_offset(
    spark: SparkSession, path: Path
) -> None:
    delivered = 487
    with audit(spark, path, delivered={"log": {0: delivered}}) as found:
        (log,) = found.report.logs
        assert log.groups == (
            GroupFigures(group="consumer", delivered=487, undelivered_records=13, undelivered_keys=13),
        )
        assert {row["group"] for row in found.keys.collect()} == {"consumer"}
        assert not found.report.ok
        undelivered = {bytes(row["key"]): row for row in found.undelivered.collect()}
        assert set(undelivered) == {b"%d" % (number % 20) for number in range(487, 500)}
        for key, row in undelivered.items():
            assert row["appended"] == 480 + int(key)
            assert row["delivered"] == 460 + int(key)
    everything = spark.createDataFrame([("log", 0, 500)], "topic string, partition int, offset bigint")
    with audit(spark, path, delivered=everything) as found:
        assert found.report.ok
        assert found.undelivered.count() == 0
    with audit(spark, path, delivered={}) as found:  # a consumer that has committed nothing
        assert found.report.total("undelivered_keys") == 20
        assert {row["delivered"] for row in found.undelivered.collect()} == {None}


@pytest.fixture
def compacted(tmp_path: Path) -> Path:
    """A topic of 3 partitions: keys, tombstones and records without key, of which the older half was compacted."""
    kept = seglog.Retention(compact=True, unkeyed="keep", delete_retention=0)
    config = seglog.LogConfig(segment_bytes=2048, retention=kept)
    draw = random.Random(22)
    with Topic.create(tmp_path / "state", partitions=3, config=config) as topic:
        for number in range(2400):
            key = draw.choice([None, *(b"%d" % one for one in range(150)), b"", b"\xff\x00"])
            topic.append(None if draw.random() < 0.2 else b"value %d" % number, key=key)
            if number == 1200:
                assert topic.partition(0).compact().superseded > 0
                assert topic.partition(1).compact().superseded > 0
    return tmp_path / "state"


def test_22_the_audit_by_key_is_the_same_here_and_on_spark(spark: SparkSession, compacted: Path) -> None:
    with Topic.open(compacted, mode="r") as topic:
        ends = {number: topic.partition(number).next_offset for number in range(3)}
        read = list(topic.partition(0).scan())
    gap = next(later.offset for earlier, later in pairwise(read) if later.offset > earlier.offset + 1)
    groups = {
        "at the end": {"state": ends},
        "behind a gap": {"state": {0: gap, 1: ends[1] // 2}},
        "new": {},
    }
    with audit_keys(compacted, delivered=groups) as here, audit(spark, compacted, delivered=groups) as there:
        figures = [field.name for field in fields(LogKeys)]
        assert [[getattr(log, name) for name in figures] for log in here.logs] == [
            [getattr(log, name) for name in figures] for log in there.report.logs
        ]
        assert [(log.undelivered_keys > 0, log.records < ends[log.partition]) for log in here.logs] == [
            (True, True), (True, True), (True, False),
        ]  # fmt: skip
        order = ["topic", "partition", "key", "group"]
        rows = [row.asDict() for row in there.keys.select(*SCHEMA.names).orderBy(*order).collect()]
        assert len(rows) == 3 * here.total("keys")
        told = pa.Table.from_batches(here.keys()).to_pylist()
        assert [row | {"key": bytes(row["key"])} for row in rows] == told
        assert (here.ok, there.report.ok) == (False, False)
        of_spark = there.undelivered.where("group = 'behind a gap'").orderBy(*order).collect()
        assert [(row.partition, bytes(row.key), row.appended) for row in of_spark] == [
            (row["partition"], row["key"], row["appended"])
            for batch in here.undelivered("behind a gap")
            for row in batch.to_pylist()
        ]


def test_a_frame_of_delivered_offsets_may_name_groups(spark: SparkSession, path: Path) -> None:
    columns = "group string, topic string, partition int, offset bigint"
    with audit(
        spark, path, delivered=spark.createDataFrame([("a", "log", 0, 500), ("b", "log", 0, 499)], columns)
    ) as of:
        assert [(group.group, group.undelivered_keys) for group in of.report.logs[0].groups] == [("a", 0), ("b", 1)]
        assert [(row.group, bytes(row.key)) for row in of.undelivered.collect()] == [("b", b"19")]


def test_a_streaming_querys_checkpoint_says_what_was_delivered(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "checkpoint"

    def run() -> None:
        records = spark.readStream.format("seglog").option("startingOffsets", "earliest").load(str(path))
        stream = records.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
        stream.trigger(availableNow=True).start().awaitTermination()

    run()
    assert read_checkpoint(checkpoint) == {"log": {0: 500}}
    with seglog.open(path) as log:
        log.append(b"late", key=b"3")
    with audit(spark, path, delivered=read_checkpoint(checkpoint)) as found:
        assert [(bytes(row.key), row.appended, row.delivered) for row in found.undelivered.collect()] == [
            (b"3", 500, 483)
        ]
    with pytest.raises(InvalidArgument, match="not a checkpoint"):
        read_checkpoint(path)
    (tmp_path / "new" / "commits").mkdir(parents=True)
    assert read_checkpoint(tmp_path / "new") == {}


def test_a_damaged_record_is_corrupt_and_lost_and_its_neighbours_are_counted(spark: SparkSession, path: Path) -> None:
    store, segment = store_of(path, 3)
    with seglog.open(path, mode="r") as log:
        value = log.read(segment.base_offset + 7).value
    data = bytearray(store.read_bytes())
    at = data.index(value or b"")
    data[at] ^= 1
    store.write_bytes(data)
    offset = segment.base_offset + 7
    with audit(spark, path) as found:
        (log_audit,) = found.report.logs
        assert figures(log_audit) == {
            "records": 499, "tombstones": 0, "keys": 20, "live_keys": 20, "lost": 1, "corrupt": 1,
        }  # fmt: skip
        findings = rows_of(found.findings)
        assert [(row["start"], row["stop"]) for row in findings if row["kind"] == "lost"] == [(offset, offset + 1)]
        damage = next(row for row in findings if row["detail"].startswith("record"))
        assert (damage["kind"], damage["start"], damage["path"]) == ("corrupt", offset, str(store))
        assert damage["position"] is not None
        assert not found.report.ok


def test_a_store_that_is_cut_short_or_gone_loses_its_records(spark: SparkSession, path: Path) -> None:
    (cut, cut_segment), (gone, gone_segment) = store_of(path, 1), store_of(path, 4)
    cut.write_bytes(cut.read_bytes()[: cut_segment.bytes // 2])
    gone.unlink()
    with audit(spark, path) as found:
        (log,) = found.report.logs
        lost = [row for row in rows_of(found.findings) if row["kind"] == "lost"]
        assert (lost[1]["start"], lost[1]["stop"]) == (gone_segment.base_offset, gone_segment.next_offset)
        assert lost[0]["stop"] == cut_segment.next_offset
        assert cut_segment.base_offset < lost[0]["start"] < cut_segment.next_offset
        assert log.records == 500 - log.lost
        kinds = {row["detail"].partition(":")[0] for row in rows_of(found.findings) if row["kind"] == "corrupt"}
        assert {"short", "missing"} <= kinds


def test_a_lost_manifest_is_told_and_the_records_are_checked_all_the_same(spark: SparkSession, path: Path) -> None:
    (path / "MANIFEST").unlink()
    with audit(spark, path) as found:
        assert found.report.total("records") == 500
        assert not found.report.ok
        assert "rebuilt" in rows_of(found.findings)[0]["detail"]


def test_gaps_that_compaction_leaves_are_no_loss(spark: SparkSession, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        for offset in range(0, 600, 3):
            log.append_at(offset, Record(offset, offset, b"%d" % (offset % 10), b"v"))
    with audit(spark, tmp_path / "log") as found:
        assert found.report.ok
        assert found.report.total("records") == 200


def test_records_with_the_same_identity_are_duplicates(spark: SparkSession, tmp_path: Path) -> None:
    with Topic.create(tmp_path / "orders", partitions=2) as topic:
        for number in range(100):
            for _ in range(2 if number % 25 == 0 else 1):  # the producer did not hear and tried again
                name = "seglog-id" if number % 2 == 0 else "other"
                topic.append(b"v", key=b"%d" % number, timestamp=number, headers=[("x", b"1"), (name, b"%d" % number)])
    for identity, expected in (("seglog-id", 2), ("other", 2), ("content", 4), ("x", 103), (None, None)):
        with audit(spark, tmp_path / "orders", identity=identity) as found:
            assert found.report.duplicates == expected, identity
            assert found.report.ok == (not expected)
    with audit(spark, tmp_path / "orders") as found:
        rows = found.duplicates.orderBy("identity").collect()
        assert [(bytes(row.identity), row.records) for row in rows] == [(b"0", 2), (b"50", 2)]


def test_nothing_in_the_log_is_touched_and_no_lease_stays(spark: SparkSession, path: Path) -> None:
    before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
    with audit(spark, path) as found:
        assert list((path / "readers").iterdir())
        assert found.report.ok
    assert {file: file.read_bytes() for file in path.rglob("*") if file.is_file()} == before


def test_an_empty_log_is_sound(spark: SparkSession, tmp_path: Path) -> None:
    seglog.open(tmp_path / "log").close()
    with audit(spark, tmp_path / "log", delivered={"log": {0: 0}}) as found:
        assert found.report.ok
        assert found.report.total("records") == 0
        assert found.keys.count() == 0


def test_gaps_and_overlaps_between_segments_are_found() -> None:
    """What no kernel can see, because every segment is sound by itself."""
    log = AuditedLog("t", 0, "/log", 0, 40, compacted=False, trouble=None)
    segments = [
        SegmentReport(0, 10, records=10, first_offset=0, last_offset=9),
        SegmentReport(20, 30, records=10, first_offset=20, last_offset=29),
        SegmentReport(28, 40, records=12, first_offset=28, last_offset=39),
    ]
    found = [(finding.kind, finding.start, finding.stop, finding.records) for finding in findings_of(log, segments)]
    assert found == [("lost", 10, 20, 10), ("duplicated", 28, 30, 2)]
    compacted = AuditedLog("t", 0, "/log", 0, 40, compacted=True, trouble=None)
    assert not list(findings_of(compacted, segments[:2]))


def test_summaries_go_to_the_jvm_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(key_rows, "ROWS", 3)
    batches = list(key_rows._rows("t", 0, 10))
    assert [batch.num_rows for batch in batches] == [3, 3, 3, 1]


def test_what_cannot_be_is_one_clear_error(spark: SparkSession, path: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="no partition 1 of topic 'log'"):
        audit(spark, path, delivered={"log": {0: 1, 1: 1}})
    with pytest.raises(InvalidType, match=r"must be offsets by topic, or .* or a DataFrame, not int"):
        audit(spark, path, delivered=5)  # type: ignore[arg-type] # the mistake
    with pytest.raises(LogNotFound):
        audit(spark, tmp_path / "nowhere")


def test_the_program_tells_and_ends_with_1_where_something_is_wrong(
    spark: SparkSession, path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert program.main([str(path)]) == 0
    assert capfdbinary.readouterr().out.decode().splitlines()[-1] == "ok"
    assert program.main([str(path), "--delivered", '{"log": {"0": 490}}', "--json", "--limit", "2"]) == 1
    told = json.loads(capfdbinary.readouterr().out)
    assert told["ok"] is False
    assert told["logs"][0]["groups"][0]["undelivered_keys"] == 10
    assert len(told["undelivered"]) == 2
    store, _ = store_of(path, 0)
    store.unlink()
    assert program.main([str(path)]) == 1
    said = capfdbinary.readouterr().out.decode()
    assert "kind lost" in said
    assert said.splitlines()[-1] == "not ok"
    assert program.main([str(path), "--limit", "-1"]) == 2
