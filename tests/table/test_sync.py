from __future__ import annotations

import shutil
import sys
from datetime import timedelta
from pathlib import Path

import polars
import pyarrow.parquet as pq
import pytest
from pyiceberg.catalog.sql import SqlCatalog

import seglog
import seglog.table
from seglog import LogConfig, MemoryStorage, Retention, Topic
from seglog.cli import main
from seglog.errors import (
    CopyDiverged,
    CopyExpired,
    InvalidArgument,
    LogLocked,
    LogNotFound,
    LogTruncated,
    MissingExtra,
    SeglogError,
    StorageError,
    TopicNotFound,
)
from seglog.storage import LocalStorage
from seglog.table import TableSync, release, sync
from seglog.table.describe import describe
from seglog.table.latest import LatestRound
from seglog.table.synchronize import LOCK
from seglog.table.warehouse import Warehouse, opened
from tests.table.conftest import Shop, files, stored


def test_a_table_has_every_record_once_after_each_round(shop: Shop) -> None:
    for count in (100, 1, 0, 50):
        shop.append(count)
        assert shop.sync().records == count
        assert shop.rows() == shop.records()


def test_only_sealed_segments_are_taken_unless_all_is_asked_for(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", LogConfig(segment_bytes=4096)) as log:
        for number in range(200):
            log.append(b"%d" % number * 10)
        log.sync()
        (report,) = sync(tmp_path / "log", tmp_path / "warehouse")
        assert report.held == {0: log.segments[-1].base_offset}
        (rest,) = sync(tmp_path / "log", tmp_path / "warehouse", active=True)
        assert report.records + rest.records == 200


def test_what_is_not_synced_yet_is_not_taken(shop: Shop) -> None:
    shop.append(10)
    shop.topic.append(b"not synced", key=b"k")
    assert shop.sync().records == 10
    shop.topic.sync()
    assert shop.sync().records == 1


def test_pyiceberg_polars_and_pyarrow_read_the_table(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POLARS_ICEBERG_PLANNER", "pyiceberg")  # polars warns that its own planner is not installed
    shop.append(90)
    shop.sync()
    catalog = SqlCatalog("seglog", uri=f"sqlite:///{shop.warehouse}/catalog.db")
    table = catalog.load_table("seglog.orders")
    assert table.scan(row_filter="partition = 1").to_arrow().num_rows == len(shop.topic.partition(1))
    assert table.scan().to_arrow().num_rows == 90
    assert polars.scan_iceberg(table).select(polars.len()).collect().item() == 90
    paths = files(shop.warehouse, "orders")
    assert polars.read_parquet(paths).height == 90
    assert sum(pq.read_table(path).num_rows for path in paths) == 90
    catalog.engine.dispose()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc: the files that a process has open")
def test_no_round_leaves_the_catalog_open(shop: Shop, tmp_path: Path) -> None:
    shop.append(10)
    shop.sync()
    shop.topic.partition(0).truncate(0)
    with pytest.raises(LogTruncated):
        shop.sync(on_truncate="refuse")
    with opened(shop.warehouse / "orders") as table:
        assert table.metadata.current_snapshot_id is not None
        assert open_files(shop.warehouse)
    assert not open_files(shop.warehouse)


def open_files(folder: Path) -> list[Path]:
    """The files of this folder alone: another test's may be open until they are collected."""
    opened = [one.readlink() for one in Path("/proc/self/fd").iterdir() if one.is_symlink()]
    return [path for path in opened if path.is_relative_to(folder)]


def test_rows_of_records_that_were_cut_off_are_deleted_and_replaced_in_one_commit(shop: Shop) -> None:
    shop.append(100)
    shop.sync()
    snapshots = next(describe(shop.warehouse)).snapshots
    shop.topic.partition(0).truncate(10)
    shop.append(30, "new")
    report = shop.sync()
    assert report.deleted > 0
    assert shop.rows() == shop.records()
    assert next(describe(shop.warehouse)).snapshots == snapshots + 1


def test_a_truncate_is_refused_on_request_and_changes_nothing(shop: Shop) -> None:
    shop.append(100)
    shop.sync()
    before = shop.rows()
    shop.topic.partition(0).truncate(10)
    with pytest.raises(LogTruncated, match="--on-truncate delete"):
        shop.sync(on_truncate="refuse")
    assert shop.rows() == before


def test_a_table_keeps_what_retention_deletes_and_reports_what_it_missed(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=4096, retention=Retention(bytes=20_000))) as log:
        for round_ in range(2):
            for number in range(60):
                log.append(b"x" * 50, key=b"%d-%d" % (round_, number))
            log.sync()
            sync(place, warehouse, active=True)
        assert len(stored(warehouse, "log")) == 120
        for _ in range(2000):
            log.append(b"x" * 50)
        log.sync()
        assert log.lowest_offset > 120
        with pytest.raises(CopyExpired):
            sync(place, warehouse, active=True)
        (report,) = sync(place, warehouse, active=True, skip_expired=True)
        assert report.records == len(log)
        assert len(stored(warehouse, "log")) == 120 + len(log)


def test_another_log_at_the_same_path_is_noticed_and_replaces_the_rows_on_request(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place) as log:
        log.append(b"a")
    sync(place, warehouse, active=True)
    shutil.rmtree(place)
    with seglog.open(place) as log:
        log.append(b"c")
    with pytest.raises(CopyDiverged):
        sync(place, warehouse, active=True)
    sync(place, warehouse, active=True, restart=True)
    assert [row[4] for row in stored(warehouse, "log")] == [b"c"]


def test_a_compacted_topic_keeps_its_history_in_the_table(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=4096, retention=Retention(compact=True))) as log:
        for number in range(300):
            log.append(b"%d" % number * 20, key=b"%d" % (number % 5))
        log.sync()
        sync(place, warehouse, active=True)
        log.compact()
        assert log.records_from(0) < 300
        (report,) = sync(place, warehouse, active=True)
        assert report.records == 0
        assert len(stored(warehouse, "log")) == 300


def test_each_topic_of_a_directory_becomes_a_table(tmp_path: Path) -> None:
    for name in ("orders", "payments"):
        with Topic.create(tmp_path / "shop" / name, partitions=2) as topic:
            topic.append(name.encode())
            topic.sync()
    reports = sync(tmp_path / "shop", tmp_path / "warehouse", active=True)
    assert [(one.table, one.records) for one in reports] == [("orders", 1), ("payments", 1)]
    assert [one.rows for one in describe(tmp_path / "warehouse")] == [1, 1]
    with pytest.raises(InvalidArgument, match="several topics"):
        sync(tmp_path / "shop", tmp_path / "warehouse", name="both")


def test_files_that_an_interrupted_round_left_are_deleted(shop: Shop) -> None:
    shop.append(10)
    shop.sync()
    left = shop.warehouse / "orders" / "data" / f"{'0' * 32}.parquet"  # as rounds name their files
    left.write_bytes(b"half a file")
    shop.append(1)
    shop.sync()
    assert not left.exists()
    assert shop.rows() == shop.records()


def _delete_as_another_program(shop: Shop) -> None:
    warehouse = Warehouse(shop.warehouse)
    warehouse.table("orders").delete("partition = 1 and offset < 5")
    warehouse.close()


def test_a_snapshot_of_another_program_keeps_the_offsets(shop: Shop) -> None:
    shop.append(50)
    shop.sync()
    _delete_as_another_program(shop)
    shop.append(20)
    shop.sync()
    assert shop.rows() == [row for row in shop.records() if row[0] != 1 or row[1] >= 5]


def test_old_snapshots_are_forgotten_and_their_files_deleted(shop: Shop) -> None:
    with TableSync(shop.place, shop.warehouse, active=True, snapshots=timedelta(0)) as tables:
        for _ in range(3):
            shop.append(20)
            tables.step()
        shop.topic.partition(0).truncate(1)
        tables.step()
        tables.step()
    assert next(describe(shop.warehouse)).snapshots == 1
    on_disk = {str(path) for path in (shop.warehouse / "orders" / "data").rglob("*.parquet")}
    assert on_disk == set(files(shop.warehouse, "orders"))
    assert shop.rows() == shop.records()


def test_two_rounds_on_one_table_exclude_each_other(shop: Shop) -> None:
    shop.append(1)
    shop.sync()
    lock = LocalStorage(shop.warehouse / "orders").try_lock(LOCK)
    assert lock is not None
    with pytest.raises(LogLocked, match="another process synchronizes"):
        shop.sync()
    lock.release()
    shop.sync()


def test_a_log_in_memory_becomes_a_table(tmp_path: Path) -> None:
    storage = MemoryStorage()
    with seglog.open(storage) as log:
        log.append(b"v")
        log.sync()
        (report,) = sync(storage, tmp_path / "warehouse", name="memory", active=True)
    assert report.records == 1


def test_wrong_arguments_are_rejected_before_anything_is_created(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="on_truncate"):
        shop.sync(on_truncate="maybe")
    with pytest.raises(LogNotFound):
        sync(tmp_path / "missing", shop.warehouse)
    assert not shop.warehouse.exists()
    with pytest.raises(InvalidArgument, match="needs a catalog"):
        sync(shop.place, "s3://bucket/warehouse")
    with pytest.raises(LogNotFound, match="no warehouse"):
        list(describe(tmp_path / "elsewhere"))
    shop.sync()
    with pytest.raises(TopicNotFound):
        Warehouse(shop.warehouse).table("other")


def test_without_pyiceberg_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyiceberg", None)
    with pytest.raises(MissingExtra, match=r"tables need pyiceberg: install seglog\[table\]"):
        seglog.table.require_pyiceberg()


def test_retention_waits_for_the_table_until_it_is_released(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=4096, retention=Retention(bytes=8192))) as log:
        log.append(b"v")
        log.sync()
        sync(place, warehouse, active=True, hold=True)
        for number in range(500):
            log.append(b"%d" % number * 20)
        log.sync()
        log.expire()
        assert log.lowest_offset == 0
        sync(place, warehouse, active=True, hold=True)
        assert log.expire() > 0
        assert len(stored(warehouse, "log")) == 501
        lowest = log.lowest_offset
        for number in range(500):
            log.append(b"%d" % number * 20)
        log.expire()
        assert log.lowest_offset <= 501
        assert release(place) == 1
        assert log.expire() > 0
        assert log.lowest_offset > lowest


def test_files_that_another_program_has_not_committed_yet_are_not_deleted(shop: Shop) -> None:
    shop.append(1)
    shop.sync()
    coming = shop.warehouse / "orders" / "data" / "00000-0-of-a-rewrite.parquet"
    coming.write_bytes(b"to be committed soon")
    shop.append(1)
    shop.sync()
    assert coming.exists()


def test_rows_that_were_cut_off_do_not_stay_where_later_records_expired(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=Retention(bytes=4096))) as log:
        for number in range(50):
            log.append(b"%d" % number * 5)
        log.sync()
        sync(place, warehouse, active=True)
        held = log.next_offset
        log.truncate(held - 5)
        for _ in range(500):
            log.append(b"new" * 10)
        log.sync()
        log.expire()
        assert log.lowest_offset > held
        with pytest.raises(LogTruncated):
            sync(place, warehouse, active=True, skip_expired=True, on_truncate="refuse")
        sync(place, warehouse, active=True, skip_expired=True)
        offsets = [row[1] for row in stored(warehouse, "log")]
        assert len(set(offsets)) == len(offsets)
        assert not set(range(held - 5, log.lowest_offset)) & set(offsets)


def test_a_log_whose_records_expired_is_not_another_log(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=Retention(bytes=4096))) as log:
        log.append(b"only in the table")
        log.sync()
        sync(place, warehouse, active=True)
        for _ in range(500):
            log.append(b"new" * 10)
        log.sync()
        log.expire()
        with pytest.raises(CopyExpired):
            sync(place, warehouse, active=True, restart=True)
    assert [row[4] for row in stored(warehouse, "log")] == [b"only in the table"]


def test_the_snapshot_that_names_the_offsets_is_kept_behind_those_of_another_program(shop: Shop) -> None:
    shop.append(50)
    shop.sync()
    _delete_as_another_program(shop)
    with TableSync(shop.place, shop.warehouse, active=True, snapshots=timedelta(0)) as tables:
        for _ in range(2):
            tables.step()
    shop.append(20)
    shop.sync()
    assert shop.rows() == [row for row in shop.records() if row[0] != 1 or row[1] >= 5]


def test_a_warehouse_may_have_any_name_that_its_locations_can_have(shop: Shop, tmp_path: Path) -> None:
    shop.warehouse = tmp_path / "my wärehouse %41"
    shop.append(20)
    shop.sync()
    assert shop.rows() == shop.records()
    assert {Path(path).parent for path in files(shop.warehouse, "orders")} == {shop.warehouse / "orders" / "data"}
    with pytest.raises(InvalidArgument, match="without"):
        sync(shop.place, tmp_path / "what?")


def test_rounds_without_new_records_write_nothing(shop: Shop) -> None:
    shop.append(5)
    with TableSync(shop.place, shop.warehouse, active=True, hold=True, latest=True) as tables:
        tables.step()
        before = {path: path.stat().st_mtime_ns for path in shop.warehouse.parent.rglob("*") if path.is_file()}
        tables.step()
        assert {path: path.stat().st_mtime_ns for path in before} == before
        assert {path for path in shop.warehouse.parent.rglob("*") if path.is_file()} == set(before)


def test_expired_snapshots_leave_no_file(shop: Shop) -> None:
    with TableSync(shop.place, shop.warehouse, active=True, snapshots=timedelta(0)) as tables:
        for _ in range(4):
            shop.append(20)
            tables.step()
    lists = list((shop.warehouse / "orders" / "metadata").glob("snap-*.avro"))
    assert len(lists) == 1


def test_retention_waits_for_the_table_of_the_newest_records_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=Retention(bytes=4096))) as log:
        for number in range(200):
            log.append(b"%d" % number * 5, key=b"%d" % number)
        log.sync()
        monkeypatch.setattr(LatestRound, "make", lambda *_: (_ for _ in ()).throw(OSError(28, "no space")))
        with pytest.raises(StorageError, match="log_latest"):
            sync(place, warehouse, active=True, latest=True, hold=True)
        monkeypatch.undo()
        lowest = log.lowest_offset
        for number in range(200):
            log.append(b"%d" % number * 5, key=b"%d" % number)
        log.expire()
        assert log.lowest_offset == lowest
        sync(place, warehouse, active=True, latest=True, hold=True)
        assert log.expire() > 0


def test_a_catalog_that_fails_is_an_error_of_seglog_and_does_not_stop_other_topics(tmp_path: Path) -> None:
    for name in ("orders", "payments"):
        with Topic.create(tmp_path / "shop" / name, partitions=1) as topic:
            topic.append(name.encode())
            topic.sync()
    sync(tmp_path / "shop", tmp_path / "warehouse", active=True)
    for path in (tmp_path / "warehouse" / "orders" / "metadata").glob("*.metadata.json"):
        path.write_bytes(b"damaged")
    with Topic.open(tmp_path / "shop" / "payments") as topic:
        topic.append(b"more")
        topic.sync()
    with pytest.raises(SeglogError):
        sync(tmp_path / "shop", tmp_path / "warehouse", active=True)
    assert len(stored(tmp_path / "warehouse", "payments")) == 2


def test_the_command_ends_that_retention_waits(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    shop.append(1)
    assert main(["table", "sync", str(shop.place), str(shop.warehouse), "--all", "--hold"]) == 0
    assert main(["table", "release", str(shop.place), "--json"]) == 0
    assert '{"released": 2}' in capsys.readouterr().out
    assert release(shop.place) == 0
