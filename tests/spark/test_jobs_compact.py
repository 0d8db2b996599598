"""The compact job: what executors write and the driver swaps in is what the local compactor would have left."""

from __future__ import annotations

import json
import random
import shutil
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.errors import ConfigError, LogLocked, PlanStale
from seglog.spark import compact as job
from seglog.spark.compact import __main__ as program
from seglog.spark.compact import compact
from seglog.spark.snapshot import snapshot
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
KEYED = seglog.LogConfig(segment_bytes=4096, retention=seglog.Retention(compact=True))


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    """A topic of 3 partitions and 2,000 records of 100 keys, a tenth of them tombstones."""
    path, draw = tmp_path / "orders", random.Random(11)
    with Topic.create(path, partitions=3, config=KEYED) as topic:
        for number in range(2000):
            value = None if draw.random() < 0.1 else b"value %d" % number
            topic.append(value, key=b"key %d" % draw.randrange(100), timestamp=number, headers=[("n", b"%d" % number)])
    return path


def stored(path: Path) -> list[list[seglog.Record]]:
    with Topic.open(path, mode="r") as topic:
        return [list(topic.partition(number).scan()) for number in range(topic.partitions)]


def staged(path: Path) -> list[Path]:
    return [entry for staging in path.rglob("staging") for entry in staging.iterdir()]


def test_the_result_is_the_local_compactors(spark: SparkSession, topic: Path) -> None:
    copy = topic.with_name("copy")
    shutil.copytree(topic, copy)
    done = compact(spark, topic)
    with Topic.open(copy) as local:
        reports = [local.partition(number).compact() for number in range(3)]
    assert [log.partition for log in done] == [0, 1, 2]
    assert [log.report for log in done] == reports
    assert stored(topic) == stored(copy)
    assert sum(log.report.records_after for log in done) < 1000
    assert staged(topic) == []
    for number in range(3):
        assert seglog.verify(topic / str(number)).ok
    again = compact(spark, topic)
    assert stored(topic) == stored(copy)
    assert [log.report.rewritten for log in again] == [0, 0, 0]


def test_the_state_and_the_ends_are_the_same_before_and_after(spark: SparkSession, topic: Path) -> None:
    before = {(row.partition, row.key): (row.offset, row.value) for row in snapshot(spark, topic).collect()}
    with Topic.open(topic, mode="r") as logs:
        ends = [logs.partition(number).next_offset for number in range(3)]
    compact(spark, topic)
    assert {(row.partition, row.key): (row.offset, row.value) for row in snapshot(spark, topic).collect()} == before
    with Topic.open(topic) as logs:
        assert [logs.partition(number).next_offset for number in range(3)] == ends


def test_what_is_appended_meanwhile_stays(spark: SparkSession, topic: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish = job._finish

    def append_first(*args: object) -> object:
        with Topic.open(topic) as logs:
            for number in range(30):
                logs.append(b"late", key=b"late %d" % number)
        return finish(*args)  # type: ignore[arg-type] # handed through

    monkeypatch.setattr(job, "_finish", append_first)
    compact(spark, topic)
    late = [record for records in stored(topic) for record in records if record.value == b"late"]
    assert len(late) == 30


def test_a_log_that_was_cut_meanwhile_stays_as_it_is_and_the_others_are_compacted(
    spark: SparkSession, topic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finish = job._finish
    expected: list[seglog.Record] = []

    def truncate_first(*args: object) -> object:
        with seglog.open(topic / "1") as log:
            log.truncate(50)
            expected.extend(log.scan())
        return finish(*args)  # type: ignore[arg-type] # handed through

    monkeypatch.setattr(job, "_finish", truncate_first)
    with pytest.raises(PlanStale) as caught:
        compact(spark, topic)
    assert any("2 of 3 logs were compacted" in note for note in caught.value.__notes__)
    records = stored(topic)
    assert records[1] == expected
    assert len(records[0]) < 400
    assert staged(topic) == []


def test_what_cannot_be_is_one_clear_error(
    spark: SparkSession, topic: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seglog.open(tmp_path / "plain").close()
    with pytest.raises(ConfigError, match="compact=True"):
        compact(spark, tmp_path / "plain")
    monkeypatch.setattr("seglog.spark.write.destination.LOCK_PATIENCE", 0.1)
    with Topic.open(topic), pytest.raises(LogLocked):
        compact(spark, topic)
    assert staged(topic) == []


def test_a_log_that_is_locked_keeps_none_of_the_others_from_being_compacted(
    spark: SparkSession, topic: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.spark.write.destination.LOCK_PATIENCE", 0.1)
    before = stored(topic)
    with seglog.open(topic / "1"), pytest.raises(LogLocked) as caught:
        compact(spark, topic)
    assert any("2 of 3 logs were compacted" in note for note in caught.value.__notes__)
    assert any("partition 1 of topic 'orders' is unchanged" in note for note in caught.value.__notes__)
    after = stored(topic)
    assert after[1] == before[1]
    assert all(len(after[number]) < len(before[number]) for number in (0, 2))
    assert staged(topic) == []


def test_the_program_tells_what_it_did(
    spark: SparkSession, topic: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    assert program.main([str(topic), "--json"]) == 0
    told = json.loads(capfdbinary.readouterr().out)
    assert [log["partition"] for log in told] == [0, 1, 2]
    assert all(log["report"]["records_after"] < log["report"]["records_before"] for log in told)
    assert program.main([str(topic)]) == 0
    assert len(capfdbinary.readouterr().out.splitlines()) == 3
    assert program.main([str(topic), "--bytes-per-second", "fast"]) == 2
