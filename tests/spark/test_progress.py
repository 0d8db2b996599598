"""How far a stream is behind, from what Spark reports of it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from seglog.errors import InvalidType
from seglog.spark.progress import lag
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

POSITION = {"from": 0, "log": "5f0c9a61be27d804", "epoch": 0, "file": 1}
SOURCE = {
    "endOffset": {"orders": {"0": {"offset": 7, **POSITION}, "1": {"offset": 5, **POSITION}}},
    "latestOffset": {"orders": {"0": 10, "1": 5}, "new": {"0": 2}},
}
KAFKA = {"endOffset": {"t": {"0": 5}}, "latestOffset": {"t": {"0": 9}}}
RATE = {"endOffset": 3, "latestOffset": 4}


@pytest.mark.spark
def test_a_limited_stream_reports_how_far_it_is_behind(spark: SparkSession, tmp_path: Path) -> None:
    with Topic.create(tmp_path / "orders", partitions=1) as topic:
        topic.append_batch(pa.table({"value": [b"v"] * 10}))
    options = {"startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    frame = spark.readStream.format("seglog").options(**options).load(str(tmp_path / "orders"))
    query = (
        frame.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "c")).trigger(availableNow=True)
    )
    running = query.start()
    running.awaitTermination()
    behind = [lag(progress) for progress in running.recentProgress if progress["numInputRows"]]
    assert [one.partitions for (one,) in behind] == [{("orders", 0): rest} for rest in (6, 2, 0)]
    (last,) = lag(running.lastProgress)
    assert last.metrics == {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 0, "avgOffsetsBehindLatest": 0}


@pytest.mark.parametrize("form", [dict, json.dumps])
def test_each_seglog_source_of_a_query_has_its_figures(form: Any) -> None:
    (one,) = lag(form({"sources": [KAFKA, SOURCE, RATE, {"endOffset": None, "latestOffset": None}]}))
    assert one.partitions == {("orders", 0): 3, ("orders", 1): 0, ("new", 0): 2}
    assert one.total == 5
    assert one.metrics == {"minOffsetsBehindLatest": 0, "maxOffsetsBehindLatest": 3, "avgOffsetsBehindLatest": 5 / 3}


def test_a_query_that_has_not_begun_has_no_figures() -> None:
    assert lag(None) == []
    assert lag({"sources": [{**SOURCE, "endOffset": json.dumps(SOURCE["endOffset"])}]})[0].total == 5


@pytest.mark.parametrize("value", [5, "no JSON", [], b"x"])
def test_what_is_no_progress_is_refused(value: Any) -> None:
    with pytest.raises(InvalidType):
        lag(value)
