"""Spark's jobs and reads give the same of a topic whose segments are compressed."""

from __future__ import annotations

import random
import shutil
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.spark.audit import audit
from seglog.spark.compact import compact
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
KEYED = seglog.LogConfig(segment_bytes=40_000, retention=seglog.Retention(compact=True))


@pytest.fixture
def plain(tmp_path: Path) -> Path:
    """A topic of 2 partitions and 3,000 records of 100 keys, in segments of one or two blocks."""
    draw = random.Random(11)
    with Topic.create(tmp_path / "plain", partitions=2, config=KEYED) as topic:
        for number in range(3000):
            value = None if draw.random() < 0.1 else b"value %d " % number * 9
            topic.append(value, key=b"key %d" % draw.randrange(100), timestamp=number)
    return tmp_path / "plain"


@pytest.fixture
def compressed(plain: Path) -> Path:
    """The same, compressed."""
    path = plain.with_name("compressed")
    shutil.copytree(plain, path)
    with Topic.open(path) as topic:
        for number in range(topic.partitions):
            assert topic.partition(number).compress("zstd").rewritten > 3
    return path


def test_reads_of_ranges(spark: SparkSession, plain: Path, compressed: Path) -> None:
    def rows(path: Path, where: str) -> list[tuple[object, ...]]:
        frame = spark.read.format("seglog").option("maxRecordsPerPartition", 400).load(str(path)).where(where)
        return sorted((row.partition, row.offset, row.key, row.value) for row in frame.collect())

    for where in ("true", "offset >= 500 and offset < 733"):
        assert rows(compressed, where) == rows(plain, where)
        assert rows(compressed, where)


def test_the_audit(spark: SparkSession, plain: Path, compressed: Path) -> None:
    with audit(spark, plain) as known, audit(spark, compressed) as found:
        assert found.report.ok
        assert known.report.logs
        for one, other in zip(known.report.logs, found.report.logs, strict=True):
            assert (other.records, other.tombstones, other.keys) == (one.records, one.tombstones, one.keys)
            assert (other.live_keys, other.lost, other.corrupt) == (one.live_keys, 0, 0)


def test_the_audit_counts_the_records_of_a_damaged_block(spark: SparkSession, compressed: Path) -> None:
    with seglog.open(compressed / "0", mode="r") as log:
        damaged, total = log.segments[1], log.next_offset
    store = compressed / "0" / damaged.name
    data = bytearray(store.read_bytes())
    data[200] ^= 1
    store.write_bytes(data)
    with audit(spark, compressed) as found:
        corrupt = [log.corrupt for log in found.report.logs]
        assert 0 < corrupt[0] <= damaged.records
        assert corrupt[1] == 0
        assert found.report.logs[0].records + corrupt[0] == total


def test_a_compaction_by_executors(spark: SparkSession, plain: Path, compressed: Path) -> None:
    for path in (plain, compressed):
        compact(spark, path)
    with Topic.open(plain, mode="r") as known, Topic.open(compressed, mode="r") as found:
        for number in range(2):
            assert list(found.partition(number).scan()) == list(known.partition(number).scan())
    for number in range(2):
        assert seglog.verify(compressed / str(number)).ok
