"""What a worker of Spark has loaded is not looked at again behind every task."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import seglog
from seglog.spark.jobs.tasks import records, spread
from seglog.spark.read.explain import explain_read
from seglog.spark.worker_process import keep_loaded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from seglog.spark.read.plan import OffsetRange


def frozen_after_reading(part: OffsetRange) -> Iterator[pa.RecordBatch]:
    rows = sum(len(batch) for batch in records(part, ["value"]))
    frozen = gc.get_freeze_count()
    assert sum(len(batch) for batch in records(part, ["value"])) == rows
    yield pa.RecordBatch.from_pydict({"rows": [rows], "frozen": [frozen], "then": [gc.get_freeze_count()]})


@pytest.mark.spark
def test_a_worker_that_has_read_does_not_collect_what_it_loaded_and_only_once(
    spark: SparkSession, tmp_path: Path
) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append_batch(pa.table({"value": [b"v"] * 7}))
    work = spread(
        spark, explain_read(tmp_path / "log").ranges, frozen_after_reading, "rows bigint, frozen bigint, then bigint"
    )
    ((rows, frozen, then),) = work.collect()
    assert rows == 7
    assert frozen > 50_000
    assert frozen >= then > 50_000  # what is let go of leaves; nothing is added


def test_a_process_that_is_not_sparks_is_left_alone() -> None:
    frozen = gc.get_freeze_count()  # by whatever ran here before
    keep_loaded()
    assert gc.get_freeze_count() == frozen
