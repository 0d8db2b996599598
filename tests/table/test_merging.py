"""Small files are replaced by larger ones; every reader sees the same rows before, during and after."""

from __future__ import annotations

import random
import sys
from concurrent.futures import ThreadPoolExecutor
from math import log2
from pathlib import Path
from types import SimpleNamespace

import duckdb
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.manifest import PartitionFieldSummary

import seglog
from seglog import LogConfig, Retention
from seglog.cli import main
from seglog.errors import StorageError
from seglog.table import TableSync, merging, snapshots, warehouse
from seglog.table.describe import describe
from seglog.table.merging import FEWEST, first_of
from seglog.table.warehouse import Warehouse
from tests.table.conftest import Shop, files, stored
from tests.table.test_latest import newest, rows


@given(st.lists(st.integers(1, 1 << 25), min_size=1, max_size=300), st.booleans())
def test_a_run_stays_short_and_its_rows_are_rarely_rewritten(sizes: list[int], equal: bool) -> None:
    run: list[int] = []
    rewritten = 0
    for size in [sizes[0]] * len(sizes) if equal else sizes:
        run.append(size)
        first = first_of(run)
        if first is not None:
            merged = sum(run[first:])
            rewritten += merged
            run[first:] = [merged]
        doublings = log2(sum(run) / min(run)) + 1
        assert len(run) <= FEWEST + doublings
        assert rewritten <= sum(run) * (log2(sum(run)) + 2)


def test_many_rounds_leave_few_files(shop: Shop) -> None:
    with TableSync(shop.place, shop.warehouse, active=True) as tables:
        for round_ in range(40):
            shop.append(6, f"{round_}-")
            tables.step()
    assert len(files(shop.warehouse, "orders")) <= 2 * (FEWEST + 3)
    assert shop.rows() == shop.records()
    assert len(shop.rows()) == 240


def test_one_commit_merges_and_keeps_what_the_table_holds(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(FEWEST - 1):
        shop.append(4)
        shop.sync()
    before = next(describe(shop.warehouse))
    shop.append(4)
    assert main(["table", "sync", str(shop.place), str(shop.warehouse), "--all"]) == 0
    assert f"{2 * FEWEST} small files merged" in capsys.readouterr().out
    after = next(describe(shop.warehouse))
    assert (after.snapshots, after.files) == (before.snapshots + 2, 2)
    assert shop.sync().records == 0
    assert shop.rows() == shop.records()


def test_a_reader_that_has_planned_before_a_merge_reads_its_rows(shop: Shop) -> None:
    for _ in range(FEWEST - 1):
        shop.append(4)
        shop.sync()
    catalog = SqlCatalog("seglog", uri=f"sqlite:///{shop.warehouse}/catalog.db")
    table = catalog.load_table("seglog.orders")
    planned = files(shop.warehouse, "orders")
    shop.append(4)
    assert shop.sync().merged > 0
    count = 4 * (FEWEST - 1)
    assert table.scan().to_arrow().num_rows == count
    assert polars.read_parquet(planned).height == count
    assert duckdb.execute("SELECT count(*) FROM read_parquet(?)", [planned]).fetchall() == [(count,)]
    catalog.engine.dispose()


def test_a_truncate_into_a_merged_file_deletes_its_later_rows(shop: Shop) -> None:
    for _ in range(FEWEST):
        shop.append(10)
        merged = shop.sync().merged
    assert merged > 0
    shop.topic.partition(0).truncate(5)
    shop.append(10, "new")
    assert shop.sync().deleted > 0
    assert shop.rows() == shop.records()


def test_files_of_other_programs_stay_as_they_are(shop: Shop) -> None:
    shop.append(30)
    shop.sync()
    opened = Warehouse(shop.warehouse)
    opened.table("orders").delete("partition = 1 and offset < 5")
    opened.close()
    theirs = set(files(shop.warehouse, "orders")) - {
        path for path in files(shop.warehouse, "orders") if len(Path(path).stem) == 32
    }
    assert theirs
    for _ in range(FEWEST + 1):
        shop.append(4)
        shop.sync()
    assert theirs <= set(files(shop.warehouse, "orders"))
    assert shop.rows() == [row for row in shop.records() if row[0] != 1 or row[1] >= 5]


def test_large_files_are_not_rewritten(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "SMALL_BYTES", 1)
    for _ in range(FEWEST + 1):
        shop.append(4)
        assert shop.sync().merged == 0


def test_a_merge_that_fails_changes_nothing_and_its_files_are_deleted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(FEWEST - 1):
        shop.append(4)
        shop.sync()
    shop.append(4)
    with monkeypatch.context() as patch:
        patch.setattr(warehouse, "replace_files", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(StorageError, match="no space"):
            shop.sync(hold=True)
    for number in range(2):  # the holds have moved nevertheless: the table has these records
        log = shop.topic.partition(number)
        assert log.delete_before(log.next_offset) == log.next_offset > 0
    assert len(shop.rows()) == 4 * FEWEST
    left = on_disk(shop)
    shop.append(4)
    assert shop.sync().merged > 2 * FEWEST
    assert len(shop.rows()) == 4 * FEWEST + 4
    assert shop.rows()[-1] in shop.records()
    assert len(left - on_disk(shop)) == 2  # one of each partition


def on_disk(shop: Shop) -> set[Path]:
    return set((shop.warehouse / "orders" / "data").glob("*.parquet"))


def test_the_table_of_the_newest_records_is_merged_too(tmp_path: Path) -> None:
    chance = random.Random(5)
    place, tables_at = tmp_path / "log", tmp_path / "warehouse"
    with (
        seglog.open(place, LogConfig(retention=Retention(compact=True))) as log,
        TableSync(place, tables_at, active=True, latest=True) as tables,
    ):
        for _ in range(30):
            for _ in range(5):
                log.append(chance.randbytes(20) if chance.random() < 0.9 else None, key=b"%d" % chance.randrange(500))
            log.sync()
            tables.step()
        assert rows(tables_at) == newest(log)
        assert len(files(tables_at, "log_latest")) <= FEWEST + 4
        assert len(stored(tables_at, "log")) == 150


def test_manifests_are_evaluated_apart_though_pyiceberg_evaluates_several_at_a_time(shop: Shop) -> None:
    shop.append(20)
    shop.sync()
    table = Warehouse(shop.warehouse).table("orders")
    update = snapshots.rewritten(table.transaction(), {})
    for file in warehouse.files_of(table):
        update.delete_data_file(file.entry)
    update._build_delete_files_partition_predicate()
    evaluate = update._build_manifest_evaluator(table.spec().spec_id)
    (manifest,) = table.current_snapshot().manifests(table.io)
    bound = (99).to_bytes(4, "little")
    field = PartitionFieldSummary.from_args(
        contains_null=False, contains_nan=False, lower_bound=bound, upper_bound=bound
    )
    foreign = SimpleNamespace(partitions=[field])
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(4) as threads:
            for one, matches in threads.map(lambda one: (one, evaluate(one)), [manifest, foreign] * 2000):
                assert matches is (one is manifest)
    finally:
        sys.setswitchinterval(interval)
