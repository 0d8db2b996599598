"""What other programs do to a table: deletes in files of their own, their own reading of changes."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
)
from pyiceberg.table import Table
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update.snapshot import _FastAppendFiles
from pyiceberg.typedef import Record

from seglog.errors import InvalidArgument
from seglog.table import TableSync, release, sync
from seglog.table.merging import FEWEST
from seglog.table.reading import read_rows
from seglog.table.warehouse import TableFile, Warehouse, directly_readable, files_of
from tests.table.conftest import Shop, files, stored

PATH_ID, POSITION_ID = 2147483546, 2147483545  # of the columns of a file of deletes, by Iceberg's specification


class _DeleteWriter(ManifestWriterV2):
    def content(self) -> ManifestContent:
        return ManifestContent.DELETES


class _AddDeletes(_FastAppendFiles):
    """A commit of deletes, as engines that merge on read make it."""

    deletes: DataFile

    def _manifests(self) -> list[ManifestFile]:
        table = self._transaction.table_metadata
        target = self._io.new_output(f"{table.location}/metadata/{self.commit_uuid}-deletes.avro")
        with _DeleteWriter(table.spec(), table.schema(), target, self._snapshot_id, "deflate") as writer:
            status = ManifestEntryStatus.ADDED
            writer.add(ManifestEntry.from_args(status=status, snapshot_id=self._snapshot_id, data_file=self.deletes))
        return [*self._existing_manifests(), writer.to_manifest_file()]


def _deletes(files: FileIO, file: TableFile, positions: list[int], content: DataFileContent) -> DataFile:
    """Write which rows of a file are deleted."""
    schema = pa.schema(
        [
            pa.field("file_path", pa.string(), False, {"PARQUET:field_id": str(PATH_ID)}),
            pa.field("pos", pa.int64(), False, {"PARQUET:field_id": str(POSITION_ID)}),
        ]
    )
    location = file.location.replace(".parquet", f"-{content.name}.parquet")
    with files.new_output(location).create() as sink:
        pq.write_table(pa.table([[file.location] * len(positions), positions], schema=schema), sink)
    return DataFile.from_args(
        content=content,
        file_path=location,
        file_format=FileFormat.PARQUET,
        partition=Record(file.partition),
        record_count=len(positions),
        file_size_in_bytes=len(files.new_input(location)),
        equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
    )


def delete_rows(
    table: Table, file: TableFile, positions: list[int], content: DataFileContent = DataFileContent.POSITION_DELETES
) -> None:
    with table.transaction() as transaction:
        update = _AddDeletes(Operation.DELETE, transaction, table.io)
        update.deletes = _deletes(table.io, file, positions, content)
        update.commit()


def _table(shop: Shop) -> Table:
    return Warehouse(shop.warehouse).table("orders")


def test_rows_that_an_engine_deleted_in_files_of_its_own_stay_deleted_when_a_file_is_rewritten(shop: Shop) -> None:
    shop.append(40)
    shop.sync()
    table = _table(shop)
    file = next(one for one in files_of(table) if one.partition == 0)
    delete_rows(table, file, [0, 2])
    assert table.scan().to_arrow().num_rows == 38
    shop.topic.partition(0).truncate(5)
    shop.append(10, "new")
    shop.sync()
    expected = [row for row in shop.records() if row[:2] not in {(0, 0), (0, 2)}]
    assert shop.rows() == expected
    assert _table(shop).scan().to_arrow().num_rows == len(expected)


def test_a_file_with_such_deletes_is_not_merged(shop: Shop) -> None:
    shop.append(20)
    shop.sync()
    table = _table(shop)
    file = next(one for one in files_of(table) if one.partition == 0)
    delete_rows(table, file, [1])
    for _ in range(FEWEST + 1):
        shop.append(4)
        shop.sync()
    assert _table(shop).scan().to_arrow().num_rows == len(shop.records()) - 1


def test_the_newest_records_keep_such_deletes(shop: Shop) -> None:
    shop.append(14)
    sync(shop.place, shop.warehouse, active=True, latest=True)
    table = Warehouse(shop.warehouse).table("orders_latest")
    file = next(one for one in files_of(table) if one.partition == 0 and one.rows > 1)
    gone = next(read_rows(table, file)).column("key")[0].as_py()
    other = next(read_rows(table, file)).column("key")[1].as_py()
    delete_rows(table, file, [0])
    shop.topic.append(b"newer", key=other)
    shop.topic.sync()
    sync(shop.place, shop.warehouse, active=True, latest=True)
    keys = [row[3] for row in stored(shop.warehouse, "orders_latest")]
    assert gone not in keys
    assert keys.count(other) == 1


def test_who_reads_the_files_directly_is_refused(shop: Shop) -> None:
    shop.append(20)
    shop.sync()
    table = _table(shop)
    assert len(directly_readable(table)) == 2
    delete_rows(table, next(files_of(table)), [0])
    with pytest.raises(InvalidArgument, match="rewrite_data_files"):
        directly_readable(table)


def test_deletes_that_pyiceberg_cannot_read_are_refused_and_change_nothing(shop: Shop) -> None:
    shop.append(20)
    shop.sync()
    table = _table(shop)
    before = set(files(shop.warehouse, "orders"))
    delete_rows(table, next(files_of(table)), [0], DataFileContent.EQUALITY_DELETES)
    shop.topic.partition(0).truncate(1)
    with pytest.raises(InvalidArgument, match="rewrite the data files"):
        shop.sync()
    assert before <= {str(path) for path in (shop.warehouse / "orders" / "data").glob("*.parquet")}


def test_a_merge_is_a_change_of_files_for_who_reads_the_changes(shop: Shop) -> None:
    for _ in range(FEWEST):
        shop.append(4)
        shop.sync()
    *_, last = _table(shop).snapshots()
    assert last.summary is not None
    assert last.summary.operation is Operation.REPLACE
    shop.append(4)
    shop.sync()
    assert shop.rows() == shop.records()


def test_a_release_can_be_of_one_table(shop: Shop, tmp_path: Path) -> None:
    shop.append(4)
    other = tmp_path / "other"
    for place in (shop.warehouse, other):
        sync(shop.place, place, active=True, hold=True)
    assert release(shop.place, tmp_path / "elsewhere" / "orders") == 0
    assert release(shop.place, other / "orders") == 2
    assert release(shop.place) == 2


def test_a_search_for_a_key_an_offset_or_a_time_skips_files_and_row_groups(shop: Shop) -> None:
    for round_ in range(4):
        shop.append(60, f"{round_}-")
        shop.sync()
    table = _table(shop)
    late = datetime.fromtimestamp(sorted(row[2] for row in shop.rows())[-20] / 1e6, UTC).isoformat()
    for row_filter, most in (
        ("partition = 0", 4),
        ("partition = 0 and offset < 5", 1),
        (f"timestamp >= '{late}'", 2),
    ):
        assert 0 < len(list(table.scan(row_filter=row_filter).plan_files())) <= most
    for path in files(shop.warehouse, "orders"):
        (excluded,) = duckdb.execute(
            "SELECT bloom_filter_excludes FROM parquet_bloom_probe(?, 'key', ?)", [path, b"no such key"]
        ).fetchall()
        assert excluded == (True,)


def test_a_snapshot_with_a_tag_of_another_program_does_not_expire(shop: Shop) -> None:
    with TableSync(shop.place, shop.warehouse, active=True, snapshots=timedelta(0)) as tables:
        shop.append(5)
        tables.step()
        table = _table(shop)
        tagged = table.current_snapshot()
        assert tagged is not None
        table.manage_snapshots().create_tag(tagged.snapshot_id, "audit").commit()
        for _ in range(3):
            shop.append(5)
            tables.step()
    table = _table(shop)
    assert {one.snapshot_id for one in table.snapshots()} == {tagged.snapshot_id, table.metadata.current_snapshot_id}
    assert table.scan(snapshot_id=tagged.snapshot_id).to_arrow().num_rows == 5


@pytest.mark.parametrize(("value", "codec"), [(bytes(100), "ZSTD"), (None, "UNCOMPRESSED")], ids=["zeros", "random"])
def test_values_that_do_not_get_smaller_are_not_compressed(shop: Shop, value: bytes | None, codec: str) -> None:
    for number in range(200):
        shop.topic.append(secrets.token_bytes(100) if value is None else value, key=b"key-%d" % number)
    shop.topic.append(None, key=b"k")
    shop.topic.sync()
    shop.sync()
    assert shop.rows() == shop.records()
    for path in files(shop.warehouse, "orders"):
        group = pq.ParquetFile(path).metadata.row_group(0)
        found = {group.column(index).path_in_schema: group.column(index) for index in range(group.num_columns)}
        assert found["value"].compression == codec
        assert found["offset"].compression == found["headers.list.element.value"].compression == "ZSTD"
