from __future__ import annotations

import threading
from pathlib import Path

import pytest

from seglog.storage import system_calls
from seglog.table import durable_files
from seglog.table.durable_files import DurableFileIO
from tests.waiting import HANG_SECONDS


def test_a_large_file_is_synced_while_it_is_written_and_when_it_is_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(durable_files, "SYNC_BYTES", 1000)
    synced: list[str] = []
    began = threading.Event()

    def fdatasync(_: int) -> None:
        synced.append("data")
        began.set()

    monkeypatch.setattr(system_calls, "sync_data", fdatasync)
    monkeypatch.setattr(system_calls, "sync_descriptor", lambda _: synced.append("all"))
    with DurableFileIO({}).new_output(f"file://{tmp_path}/a/file").create() as file:
        file.write(b"x" * 2000)
        assert began.wait(HANG_SECONDS)
    assert synced[0] == "data"
    assert synced[-2:] == ["all", "all"]  # of the file and its directory
    assert (tmp_path / "a" / "file").read_bytes() == b"x" * 2000


def test_a_sync_that_fails_meanwhile_fails_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_files, "SYNC_BYTES", 1000)

    def fdatasync(_: int) -> None:
        raise OSError(5, "the disk failed")

    monkeypatch.setattr(system_calls, "sync_data", fdatasync)
    file = DurableFileIO({}).new_output(f"file://{tmp_path}/file").create()
    file.write(b"x" * 2000)
    with pytest.raises(OSError, match="the disk failed"):
        file.close()
    assert file.closed
