"""Parquet files of a table: rows in order, one group written while the next is made, nothing left by an error."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import seglog
from seglog.errors import StorageError
from seglog.storage import system_calls
from seglog.table import files, sync
from seglog.table.durable_files import DurableFileIO
from seglog.table.files import write_rows
from seglog.table.schema import ARROW
from tests.waiting import HANG_SECONDS


def batches(count: int) -> Iterator[pa.RecordBatch]:
    for number in range(count):
        offsets = range(number * 10, number * 10 + 10)
        rows = [
            {"offset": one, "partition": 0, "timestamp": one, "key": None, "value": b"v", "headers": None}
            for one in offsets
        ]
        yield pa.RecordBatch.from_pylist(rows, ARROW)


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "GROUP_BYTES", 1)


@pytest.mark.usefixtures("small_groups")
def test_row_groups_and_files_have_the_order_of_the_rows(tmp_path: Path) -> None:
    limit = 3 * next(batches(1)).nbytes
    written = list(write_rows(DurableFileIO({}), f"file://{tmp_path}", batches(8), limit=limit))
    stored = [pq.ParquetFile(one.removeprefix("file://")) for one in written]
    assert [one.num_row_groups for one in stored] == [3, 3, 2]
    assert [offset for one in stored for offset in one.read(["offset"]).column(0).to_pylist()] == list(range(80))
    assert sum(1 for _ in tmp_path.iterdir()) == 3


@pytest.mark.usefixtures("small_groups")
def test_a_group_is_written_while_the_next_one_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    began = threading.Event()
    write = pq.ParquetWriter.write_table

    def noted(*args: object, **options: object) -> None:
        began.set()
        write(*args, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", noted)

    def watched() -> Iterator[pa.RecordBatch]:
        one, two, three = batches(3)
        yield one
        yield two  # completes the first group
        assert began.wait(HANG_SECONDS)
        yield three

    assert len(list(write_rows(DurableFileIO({}), f"file://{tmp_path}", watched()))) == 1


@pytest.mark.usefixtures("small_groups")
def test_rows_that_cannot_be_read_leave_no_file(tmp_path: Path) -> None:
    def broken() -> Iterator[pa.RecordBatch]:
        yield from batches(3)
        raise StorageError(5, "cannot be read")

    with pytest.raises(StorageError, match="cannot be read"):
        list(write_rows(DurableFileIO({}), f"file://{tmp_path}", broken()))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_groups")
def test_a_write_that_fails_leaves_no_file_and_the_next_round_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with seglog.open(tmp_path / "log") as log:
        for number in range(5):
            log.append(b"%d" % number)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(system_calls, "sync_descriptor", full)
        with pytest.raises(StorageError, match="No space left"):
            sync(tmp_path / "log", tmp_path / "warehouse", active=True)
    (report,) = sync(tmp_path / "log", tmp_path / "warehouse", active=True)
    assert report.records == 5
    assert sum(1 for _ in (tmp_path / "warehouse" / "log" / "data").iterdir()) == 1


@pytest.mark.usefixtures("small_groups")
def test_a_caller_that_stops_early_leaves_no_file_that_is_incomplete(tmp_path: Path) -> None:
    limit = next(batches(1)).nbytes
    written = write_rows(DurableFileIO({}), f"file://{tmp_path}", batches(9), limit=limit)
    first = next(written)
    written.close()
    for path in tmp_path.iterdir():
        assert pq.ParquetFile(path).metadata.num_rows == 10
    assert (tmp_path / Path(first).name).exists()
