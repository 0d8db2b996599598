"""The order in which a backup reaches the disk: nothing gets its name before it is durable itself."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig
from seglog.storage.copies import share_file
from seglog.testing.system import FaultySystem

if TYPE_CHECKING:
    from pathlib import Path

SMALL = LogConfig(segment_bytes=512)


def fill(log: Any, count: int) -> None:
    for _ in range(count):
        log.append(b"v" * 100)
    log.sync()


def calls_of_backup(log: Any, place: Path) -> list[tuple[str, str]]:
    """Back up a log, copying all bytes, and return the writes, syncs and renames that it made."""
    with FaultySystem(place.parent) as system:
        log.backup(place, share=False)
    return [(call.operation, call.name) for call in system.calls if call.operation not in ("pread", "stat", "fstat")]


def check_order(calls: list[tuple[str, str]], directory: str) -> None:
    """Check that each file is durable before its name, and all names before the MANIFEST."""
    names: set[str] = set()
    copied, unsynced = f"{directory}/tmp/backup", False  # noqa: S108 - of the log
    for operation, name in calls:
        if operation.startswith("pwrite") and name == copied:
            unsynced = True
        elif operation == "fdatasync" and name == copied:
            unsynced = False
        elif operation == "rename" and name == f"{directory}/MANIFEST":
            assert not names, f"{names} may be missing although the MANIFEST names them"
        elif operation == "rename" and name.startswith(f"{directory}/") and not name.endswith(".prev"):
            assert not unsynced, f"{name} may be empty"
            names.add(name)
        elif operation == "fsync" and name == directory:
            names.clear()


def test_a_first_backup_is_durable_before_its_manifest_and_gets_its_name_last(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 12)
        log.pin("follower", 3)
        calls = calls_of_backup(log, tmp_path / "copy")
    check_order(calls, ".copy.backup")
    assert [call for call in calls if call[0] in ("rename", "fsync")][-2:] == [("rename", "copy"), ("fsync", "")]


def test_a_later_backup_replaces_a_store_durably_before_an_index_that_knows_more(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 9)
        log.backup(tmp_path / "copy")
        grown = log.segments[-1].base_offset
        fill(log, 9)
        calls = calls_of_backup(log, tmp_path / "copy")
    check_order(calls, "copy")
    renamed = [name for what, name in calls if what == "rename" and name.startswith(f"copy/{grown:020}")]
    (store,) = [name for name in renamed if name.endswith(".store")]
    (index,) = [name for name in renamed if name.endswith(".index")]
    between = calls[calls.index(("rename", store)) : calls.index(("rename", index))]
    assert ("fsync", "copy") in between


def test_a_file_that_shares_its_bytes_is_durable_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def clone(target: int, _: int, source: int) -> None:
        """Stand in for a file system with reflinks."""
        os.pwrite(target, os.pread(source, 100, 0), 0)

    monkeypatch.setattr("fcntl.ioctl", clone)
    (tmp_path / "old").write_bytes(b"bytes")
    with FaultySystem(tmp_path) as system:
        assert share_file(str(tmp_path / "old"), str(tmp_path / "new"))
    assert ("fsync", "new") in [(call.operation, call.name) for call in system.calls]
    assert (tmp_path / "new").read_bytes() == b"bytes"
