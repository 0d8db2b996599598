"""Filters are Spark's: whatever queries use a frame, and in which order, each gets its own rows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.spark.read.explain import explain_read
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.scan import RangeScan
from seglog.storage.local import LocalStorage
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SETTING = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def frame(spark: SparkSession, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DataFrame]:
    """Ten records, read with the option that once pushed filters down, and with Spark's setting for that."""
    with Topic.create(tmp_path / "orders", partitions=1) as topic:
        for number in range(10):
            topic.append(b"%d" % number)
    before = spark.conf.get(SETTING)
    spark.conf.set(SETTING, "true")
    yield spark.read.format("seglog").option("pushFilters", "true").load(str(tmp_path / "orders"))
    spark.conf.set(SETTING, str(before))


@pytest.mark.spark
def test_queries_of_one_frame_do_not_narrow_each_other(frame: DataFrame) -> None:
    few = frame.where("offset < 3")
    few.explain()
    assert frame.count() == 10
    assert (few.count(), frame.where("offset >= 2").count(), frame.count(), few.count()) == (3, 8, 10, 3)


@pytest.mark.spark
def test_one_query_may_use_a_frame_with_several_filters(frame: DataFrame) -> None:
    few, last = frame.where("offset < 3"), frame.where("offset >= 5")
    assert few.union(frame).count() == frame.union(few).count() == 13
    assert few.union(last).count() == 8
    assert few.join(frame.select("offset"), "offset").count() == 3
    assert frame.join(few.select("offset"), "offset", "left_anti").count() == 7
    assert frame.alias("a").join(last.alias("b"), "partition").count() == 50


@pytest.mark.spark
@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_views_cached_frames_and_adaptive_plans_keep_all_rows(
    spark: SparkSession, frame: DataFrame, adaptive: str
) -> None:
    before = spark.conf.get("spark.sql.adaptive.enabled")
    spark.conf.set("spark.sql.adaptive.enabled", adaptive)
    try:
        frame.createOrReplaceTempView("ten")
        few = spark.sql("SELECT offset FROM ten WHERE offset < 3").cache()
        assert few.count() == 3
        assert spark.sql("SELECT count(*) FROM ten").first()[0] == 10
        others = (
            "SELECT count(*) FROM ten WHERE ten.offset NOT IN (SELECT few.offset FROM ten few WHERE few.offset < 3)"
        )
        assert spark.sql(others).first()[0] == 7
        few.unpersist()
        assert (few.count(), frame.orderBy("value").count()) == (3, 10)
    finally:
        spark.conf.set("spark.sql.adaptive.enabled", str(before))
        spark.catalog.dropTempView("ten")


def test_the_option_has_no_effect_and_a_warning_names_what_has(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ReadOptions.parse({"path": str(tmp_path), "pushFilters": "false"})
    assert caplog.text == ""
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        ReadOptions.parse({"path": str(tmp_path), "pushFilters": "true"})
    assert "pushFilters has no effect: select records with offsets, times or assign" in caplog.text


def test_options_select_what_is_read_and_the_rest_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = {"bytes": 0}
    real = LocalStorage.open

    class Counting:
        def __init__(self, file: Any) -> None:
            self._file = file

        def pread(self, length: int, position: int) -> bytes:
            data: bytes = self._file.pread(length, position)
            asked["bytes"] += len(data)
            return data

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    def counting(storage: LocalStorage, name: str, **how: bool) -> Any:
        file = real(storage, name, **how)
        return Counting(file) if name.endswith(".store") else file

    with Topic.create(tmp_path / "orders", partitions=2, config=seglog.LogConfig(segment_bytes=4096)) as topic:
        for number in range(2):
            topic.partition(number).append_batch(pa.table({"value": [b"%050d" % offset for offset in range(1000)]}))
    monkeypatch.setattr(LocalStorage, "open", counting)

    def read(**options: str) -> tuple[int, int]:
        asked["bytes"] = 0
        parts = explain_read(tmp_path / "orders", **options).ranges
        scans = [RangeScan(part, ("offset",), fail_on_data_loss=True) for part in parts]
        return sum(batch.num_rows for scan in scans for batch in scan), asked["bytes"]

    rows, size = read()
    few, little = read(assign='{"orders": [1]}', startingOffsets='{"orders": {"1": 950}}')
    assert (rows, few) == (2000, 50)
    assert 0 < little < size / 10
