"""Each question whether a file is that of this log, asked by itself: tests of whole operations pass several of them."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.clock import system_clock
from seglog.errors import CorruptLog, InvalidArgument, LogLocked
from seglog.format import filename
from seglog.format.index import encode_times, is_bound
from seglog.log import journal
from seglog.log.catalog import read_manifest
from seglog.log.locks.write_lock import is_written_around
from seglog.log.repair import file_identity, rebuild_manifest
from seglog.log.repair.repair import accept_home
from seglog.segment.follower import ActiveFollower
from seglog.storage import LocalStorage
from seglog.testing.faulty import FaultyStorage

if TYPE_CHECKING:
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=512)


def make(path: Path, count: int = 30) -> LocalStorage:
    """Make a log of some segments, closed."""
    with seglog.open(path, SMALL) as log:
        for number in range(count):
            log.append(b"value %d" % number)
    return LocalStorage(path)


def manifest_of(storage: LocalStorage, name: str = filename.MANIFEST) -> Any:
    manifest = read_manifest(storage, name)
    assert manifest is not None
    return manifest


def stores(path: Path) -> list[Path]:
    return sorted(path.glob("*.store"))


# --- what belongs to the log ------------------------------------------------------------------------------------------


def test_two_manifests_of_another_log_prove_nothing_about_the_stores(tmp_path: Path) -> None:
    mine, other = make(tmp_path / "mine"), make(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "MANIFEST", tmp_path / "mine" / "MANIFEST")
    assert file_identity.is_foreign(mine, manifest_of(other)), "MANIFEST.prev is of the stores' log"
    shutil.copy(tmp_path / "other" / "MANIFEST.prev", tmp_path / "mine" / "MANIFEST.prev")
    assert not file_identity.is_foreign(mine, manifest_of(other))


def test_a_file_number_or_a_salt_that_is_known_for_another_file_is_out_of_place(tmp_path: Path) -> None:
    storage = make(tmp_path / "log")
    first, second = manifest_of(storage).segments[:2]
    known = {entry.file: entry for entry in (first, second)}

    def check(number: int, salt: int) -> None:
        file_identity._check_known(storage, {file_identity._Place(0, number): salt}, known)

    check(first.file, first.salt)
    check(99, 1)  # a new file
    for number, salt in ((99, first.salt), (second.file, first.salt), (first.file, 1)):
        with pytest.raises(CorruptLog, match="belongs to another file"):
            check(number, salt)


def test_a_store_of_another_log_does_not_make_a_manifest_outdated(tmp_path: Path) -> None:
    storage, other = make(tmp_path / "log"), make(tmp_path / "other", 60)
    manifest = manifest_of(storage)
    name = f"{1000:020d}-{manifest.next_file + 5}.store"
    shutil.copy(stores(tmp_path / "log")[0], tmp_path / "log" / name)
    assert not rebuild_manifest._is_unknown(storage, name, manifest), "its salt is that of a known store"
    shutil.copy(stores(tmp_path / "other")[0], tmp_path / "log" / name)
    assert not rebuild_manifest._is_unknown(storage, name, manifest)
    assert rebuild_manifest._is_unknown(storage, name, replace(manifest, log_id=manifest_of(other).log_id))


def test_only_a_later_manifest_of_the_same_log_shows_that_a_manifest_is_outdated(tmp_path: Path) -> None:
    path = tmp_path / "log"
    make(path, 10)
    old = (path / "MANIFEST").read_bytes()
    with seglog.open(path) as log:
        for number in range(60):
            log.append(b"later %d" % number)
    storage = LocalStorage(path)
    (path / "MANIFEST").write_bytes(old)
    outdated = journal.read_file(storage)
    assert outdated is not None
    assert rebuild_manifest._objection(storage, outdated, storage.names()) is not None
    make(tmp_path / "other", 300)
    shutil.copy(tmp_path / "other" / "MANIFEST.prev", path / "MANIFEST.prev")
    assert manifest_of(storage, filename.MANIFEST_PREVIOUS).version > outdated.manifest.version
    assert rebuild_manifest._objection(storage, outdated, storage.names()) is None


def test_a_reader_that_meets_a_writer_reads_its_manifest_again(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        for number in range(30):
            log.append(b"value %d" % number)

        class Meeting(FaultyStorage):
            def names(self, directory: str = "") -> list[str]:
                while not directory and log.next_offset < 90:  # the writer rolls while the reader opens
                    log.append(b"more")
                return super().names(directory)

        manifest, event = rebuild_manifest.read_or_rebuild(Meeting(LocalStorage(tmp_path / "log")), system_clock)
        assert event is None
        assert manifest.version == log.view().manifest.version


def test_marks_of_another_store_are_not_bound_to_this_one() -> None:
    data = encode_times(b"", 4096, 7)
    assert is_bound(data, 7)
    assert not is_bound(data, 8)
    assert not is_bound(data[:-1] + bytes([data[-1] ^ 1]), 7)


def test_a_follower_reads_the_index_that_a_recovery_has_put_in_place_of_the_old_one(tmp_path: Path) -> None:
    storage = make(tmp_path / "log", 5)
    entry = manifest_of(storage).active
    follower = ActiveFollower(storage, entry, interval=4096, durable=False)
    index = tmp_path / "log" / entry.name(filename.INDEX)
    first = follower._open_index()
    assert follower._open_index() is first
    shutil.copy(index, tmp_path / "copy")
    (tmp_path / "copy").replace(index)
    assert follower._open_index() is not first


# --- backups ----------------------------------------------------------------------------------------------------------


def test_a_backup_does_not_go_over_that_of_another_log(tmp_path: Path) -> None:
    for name in ("mine", "other"):
        make(tmp_path / name)
    with seglog.open(tmp_path / "other") as other, seglog.open(tmp_path / "mine") as mine:
        other.backup(tmp_path / "backup")
        before = {path.name: path.read_bytes() for path in (tmp_path / "backup").glob("*.*")}
        with pytest.raises(InvalidArgument, match="holds another log"):
            mine.backup(tmp_path / "backup")
        assert {path.name: path.read_bytes() for path in (tmp_path / "backup").glob("*.*")} == before
        for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS):
            (tmp_path / "backup" / name).unlink(missing_ok=True)
        with pytest.raises(InvalidArgument, match="a log without a readable manifest"):
            mine.backup(tmp_path / "backup")
        other.backup(tmp_path / "backup")


# --- locks ------------------------------------------------------------------------------------------------------------


def test_a_log_that_is_open_is_neither_repaired_nor_given_to_another_partition(tmp_path: Path) -> None:
    make(tmp_path / "log")
    home = ("topic", 1)
    with seglog.open(tmp_path / "log"):
        with pytest.raises(LogLocked):
            seglog.repair(tmp_path / "log")
        with pytest.raises(LogLocked):
            accept_home(LocalStorage(tmp_path / "log"), home, is_held=False)
    storage = FaultyStorage(LocalStorage(tmp_path / "log"))
    accept_home(storage, home, is_held=False)
    assert storage.calls[-1] == ("write", "LOCK"), "the lock is released, and says so"
    assert manifest_of(LocalStorage(tmp_path / "log")).home == home


def test_a_log_within_an_open_directory_is_written_around(tmp_path: Path) -> None:
    with seglog.Broker(tmp_path) as broker:
        broker.create_topic("orders")
        assert is_written_around(LocalStorage(tmp_path / "orders" / "0"))
    assert not is_written_around(LocalStorage(tmp_path / "orders" / "0"))
