"""The load job: a round of `seglog.table.sync` on executors, with the same rows and the same snapshot."""

from __future__ import annotations

import json
from contextlib import ExitStack
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import seglog
import seglog.spark
from seglog import LogConfig, Topic
from seglog.errors import CopyDiverged, InvalidArgument, LogLocked, LogTruncated, SeglogError
from seglog.spark import load as job
from seglog.spark.load import __main__ as program
from seglog.spark.load import load
from seglog.table import TableSync, sync
from seglog.table.warehouse import Warehouse, held_by
from tests.spark.test_warehouse import append, rows
from tests.table.conftest import files, logged, stored

pytestmark = pytest.mark.spark
SMALL = LogConfig(segment_bytes=4096)


def held(warehouse: Path) -> dict[int, int]:
    opened = Warehouse(warehouse)
    try:
        return {number: one.end for number, one in held_by(opened.table("orders")).items()}
    finally:
        opened.close()


def test_a_load_equals_a_sync_and_a_sync_continues_from_it(spark: SparkSession, tmp_path: Path) -> None:
    warehouse, other = tmp_path / "ware house", tmp_path / "other"
    with Topic.create(tmp_path / "orders", partitions=3, config=SMALL) as topic:
        append(topic, 300, "a")
        (report,) = load(spark, tmp_path / "orders", warehouse)
        (same,) = sync(tmp_path / "orders", other)
        assert (report.records, report.held) == (same.records, same.held)
        assert stored(warehouse, "orders") == stored(other, "orders")  # by DuckDB
        assert held(warehouse) == held(other)
        assert rows(seglog.spark.table(spark, warehouse / "orders")) == logged(topic)  # by Spark
        (again,) = load(spark, tmp_path / "orders", warehouse)
        assert (again.records, again.files) == (0, 0)
        append(topic, 50, "b")
        sync(tmp_path / "orders", warehouse, active=True)
        topic.partition(0).truncate(5)
        append(topic, 20, "c")
        (last,) = load(spark, tmp_path / "orders", warehouse, active=True)
        assert last.deleted > 0
        assert stored(warehouse, "orders") == logged(topic)


def test_a_load_that_fails_changes_nothing_and_its_files_are_deleted(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    warehouse = tmp_path / "warehouse"
    with Topic.create(tmp_path / "orders", partitions=2, config=SMALL) as topic:
        append(topic, 200, "a")
        write = job._write

        def fail(share: job._Share) -> object:
            yield from write(share)  # the files are there
            if share.part.partition == 1:
                raise OSError("the executor is gone")

        monkeypatch.setattr(job, "_write", fail)
        with pytest.raises(SeglogError, match="the executor is gone"):
            load(spark, tmp_path / "orders", warehouse, active=True)
        monkeypatch.undo()
        left = set((warehouse / "orders" / "data").glob("*.parquet"))
        assert left
        assert files(warehouse, "orders") == []
        load(spark, tmp_path / "orders", warehouse, active=True)
        assert stored(warehouse, "orders") == logged(topic)
        assert not left & set((warehouse / "orders" / "data").glob("*.parquet"))


def test_records_that_are_cut_off_meanwhile_end_the_load(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Topic.create(tmp_path / "orders", partitions=2, config=SMALL) as topic:
        append(topic, 100, "a")
        ranges = job._ranges

        def then_cut(*arguments: object) -> object:
            found = ranges(*arguments)  # type: ignore[arg-type] # passed on as they are
            topic.partition(0).truncate(4)
            return found

        monkeypatch.setattr(job, "_ranges", then_cut)
        with pytest.raises(LogTruncated, match="truncated below"):
            load(spark, tmp_path / "orders", tmp_path / "warehouse", active=True)
        assert files(tmp_path / "warehouse", "orders") == []


def test_what_a_sync_refuses_a_load_refuses(spark: SparkSession, tmp_path: Path) -> None:
    with Topic.create(tmp_path / "orders", partitions=1) as topic:
        topic.append(b'{"a": 1}')
        topic.sync()
    sync(tmp_path / "orders", tmp_path / "typed", schema="infer", active=True)
    with pytest.raises(InvalidArgument, match="has typed columns"):
        load(spark, tmp_path / "orders", tmp_path / "typed")
    load(spark, tmp_path / "orders", tmp_path / "warehouse", active=True)
    with TableSync(tmp_path / "orders", tmp_path / "warehouse") as other:
        table = other._warehouse.table("orders")
        with ExitStack() as resources, pytest.raises(LogLocked):
            other._lock(table, resources)
            load(spark, tmp_path / "orders", tmp_path / "warehouse")
    (tmp_path / "orders").rename(tmp_path / "moved")
    with Topic.create(tmp_path / "orders", partitions=1) as topic:
        topic.append(b"another log")
        topic.sync()
    with pytest.raises(CopyDiverged):
        load(spark, tmp_path / "orders", tmp_path / "warehouse", active=True)


def test_the_program_says_what_it_did(
    spark: SparkSession, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v")
        log.sync()
    arguments = [str(tmp_path / "log"), str(tmp_path / "warehouse"), "--all"]
    assert program.main(arguments) == 0
    assert b"log: 1 record in 1 file" in capfdbinary.readouterr().out
    assert program.main([*arguments, "--json"]) == 0
    assert json.loads(capfdbinary.readouterr().out)[0]["held"] == {"0": 1}
