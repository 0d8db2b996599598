"""What changes of a log's structure do to MANIFEST: they are appended, and neither lost, nor put into another log's."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, MemoryStorage, Retention
from seglog.format import manifest_changes
from seglog.log import journal
from seglog.log.catalog import read_manifest, write_manifest
from seglog.log.journal import read_file
from seglog.log.locks.ownership import Ownership
from seglog.storage import LocalStorage
from seglog.testing.faulty import Fault, FaultyStorage
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from seglog.format.manifest_changes import ManifestFile
    from seglog.storage import Storage

SMALL = LogConfig(segment_bytes=512)
VALUE = b"v" * 300  # one record fills a segment: every append but the first one rolls
MANIFEST = frozenset({"pwrite"})


def fill(log: seglog.Log, count: int) -> None:
    for _ in range(count):
        log.append(VALUE)


def file_of(storage: Storage) -> ManifestFile:
    found = read_file(storage)
    assert found is not None
    return found


def made(place: Any, records: int = 9) -> seglog.Log:
    """Return an open log to whose MANIFEST changes were appended already."""
    log = seglog.open(place, SMALL)
    fill(log, records)
    return log


# --- what is appended ---------------------------------------------------------------------------------------------


def test_rolls_publishes_and_expiries_are_appended_and_the_rest_replaces_the_file(path: Path) -> None:
    with made(path) as log:
        storage = LocalStorage(path)
        before, inode = file_of(storage), (path / "MANIFEST").stat().st_ino
        assert before.changes > 0
        fill(log, 2)
        log.publish([], query="q", batch=0)
        after = file_of(storage)
        assert (after.base, after.changes) == (before.base, before.changes + 3)
        assert (path / "MANIFEST").stat().st_ino == inode
        assert after.sound
        log.alter(retention=Retention(bytes=900))
        assert file_of(storage).changes == 0
        fill(log, 2)
        fresh = file_of(storage)
        assert log.lowest_offset > 0
        log.append(VALUE)
        assert (file_of(storage).base, file_of(storage).changes) == (fresh.base, fresh.changes + 2)


def test_the_first_change_after_an_opening_is_a_base_and_the_next_is_appended_to_it(path: Path) -> None:
    made(path).close()
    before = file_of(LocalStorage(path))
    with seglog.open(path) as log:
        assert file_of(LocalStorage(path)) == before
        fill(log, 1)
        fresh = file_of(LocalStorage(path))
        assert (fresh.base, fresh.changes) == (before.manifest.version + 1, 0)
        fill(log, 1)
        assert file_of(LocalStorage(path)).changes == 1
        assert log.recovery.clean


def test_the_file_before_the_base_gets_every_change_as_well(path: Path) -> None:
    made(path).close()
    with seglog.open(path) as log:
        fill(log, 4)
        log.publish([], query="q", batch=3)
        both = [read_manifest(LocalStorage(path), name) for name in ("MANIFEST", "MANIFEST.prev")]
        assert both[0] == both[1] == log.view().manifest
        log.alter(retention=Retention(bytes=10**6))
        fill(log, 2)
        both = [read_manifest(LocalStorage(path), name) for name in ("MANIFEST", "MANIFEST.prev")]
        assert both[0] == both[1] == log.view().manifest


def test_many_changes_become_a_base(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifest_changes, "LEAST_BYTES", 8000)
    with made(path) as log:
        sizes = []
        for _ in range(30):
            fill(log, 1)
            sizes.append((path / "MANIFEST").stat().st_size)
        assert sum(later < earlier for earlier, later in pairwise(sizes)) >= 3
        assert len(log.segments) == 39
    with seglog.open(path) as log:
        assert [record.offset for record in log.scan()] == list(range(39))


def test_a_manifest_of_an_earlier_version_is_read_and_replaced_by_the_first_change(path: Path) -> None:
    made(path).close()
    storage = LocalStorage(path)
    manifest = read_manifest(storage)
    assert manifest is not None
    write_manifest(storage, manifest, open_ended=False)
    with seglog.open(path) as log:
        assert not file_of(storage).open_ended
        fill(log, 1)
        assert file_of(storage).open_ended
        assert [record.offset for record in log.scan()] == list(range(10))


def test_a_backup_has_a_manifest_that_earlier_versions_read(path: Path, tmp_path: Path) -> None:
    with made(path) as log:
        log.backup(tmp_path / "backup")
    assert not file_of(LocalStorage(tmp_path / "backup")).open_ended
    assert (tmp_path / "backup" / "MANIFEST").read_bytes().startswith(b'{"format": 1,')
    with seglog.open(tmp_path / "backup") as copy:
        assert copy.next_offset == 9


def test_a_file_that_is_manifest_prev_as_well_becomes_two(path: Path) -> None:
    """As a crash between the renames of an install leaves them."""
    made(path).close()
    (path / "MANIFEST.prev").unlink()
    os.link(path / "MANIFEST", path / "MANIFEST.prev")
    with seglog.open(path) as log:
        fill(log, 2)
        assert (path / "MANIFEST.prev").stat().st_ino != (path / "MANIFEST").stat().st_ino
        assert read_manifest(LocalStorage(path)) == log.view().manifest


# --- readers ------------------------------------------------------------------------------------------------------


def test_a_reader_reads_only_what_was_appended(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(path) as log, seglog.open(path, mode="r") as reader:
        assert reader.next_offset == 9
        fill(log, 1)
        assert reader.next_offset == 10
        monkeypatch.setattr(journal, "decode_file", lambda *_: pytest.fail("it reads the whole file"))
        for count in range(11, 15):
            fill(log, 1)
            assert reader.next_offset == count
            assert len(reader.segments) == count
        (path / "MANIFEST").touch()
        assert reader.read(13).value == VALUE


def test_a_reader_reads_the_whole_file_after_it_was_replaced(path: Path) -> None:
    with made(path) as log, seglog.open(path, mode="r") as reader:
        fill(log, 1)
        assert reader.next_offset == 10
        log.truncate(4)
        assert reader.next_offset == 4
        fill(log, 3)
        assert [record.offset for record in reader.scan()] == list(range(7))


def test_a_reader_sees_a_change_once_it_is_whole(path: Path) -> None:
    """Half a line makes it look again at every call, though neither time nor size of the file may change any more."""
    with made(path) as log:
        before, previous = ((path / name).read_bytes() for name in ("MANIFEST", "MANIFEST.prev"))
        fill(log, 1)
        after = (path / "MANIFEST").read_bytes()
    assert after.startswith(before)
    (path / "MANIFEST").write_bytes(before)
    (path / "MANIFEST.prev").write_bytes(previous)
    with seglog.open(path, mode="r") as reader:
        assert len(reader.segments) == 9
        for length in range(len(before), len(after), 97):
            with (path / "MANIFEST").open("r+b") as file:
                file.truncate(len(before))
                file.seek(len(before))
                file.write(after[len(before) : length].ljust(len(after) - len(before), b"\0"))
            assert len(reader.segments) in (9, 10)
        (path / "MANIFEST").write_bytes(after)
        assert len(reader.segments) == 10


PROGRAM = """
import sys, seglog
log, seen = seglog.open(sys.argv[1], mode="r"), 0
tail = log.tail(0)
print("ready", flush=True)
while seen < int(sys.argv[2]):
    for record in tail.poll():
        assert record.offset == seen, (record.offset, seen)
        seen += 1
    assert log.read(log.lowest_offset).offset == log.lowest_offset
    assert len(log.segments) >= seen // 2
print(seen)
"""


@pytest.fixture
def running() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start a program in a process of its own; it is gone when the test ends."""
    started: list[subprocess.Popen[str]] = []

    def start(program: str, *arguments: object) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", program, *map(str, arguments)]
        pipe = subprocess.PIPE
        started.append(subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True))
        return started[-1]

    yield start
    for one in started:
        one.kill()
        one.communicate()


def test_readers_in_other_processes_poll_while_changes_are_appended_and_bases_replaced(
    path: Path, running: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(manifest_changes, "LEAST_BYTES", 16_000)
    with made(path, 1) as log:
        readers = [running(PROGRAM, path, 200) for _ in range(2)]
        for reader in readers:
            assert reader.stdout.readline() == "ready\n"
        fill(log, 199)
        for reader in readers:
            out, err = reader.communicate(timeout=HANG_SECONDS)
            assert (out, reader.returncode) == ("200\n", 0), err


def test_a_log_with_a_torn_change_opens_on_a_full_disk() -> None:
    """To delete what is not needed; the tear goes with the next base."""
    memory = MemoryStorage()
    made(memory).close()
    file = memory.open("MANIFEST", writable=True)
    file.pwrite(b'{"change":', file.size())
    full = Fault(operations=frozenset({"pwrite"}), name="tmp/MANIFEST", error=errno.ENOSPC, forever=True)
    with seglog.open(FaultyStorage(memory, full)) as log:
        assert log.next_offset == 9
        assert not file_of(memory).sound
    with seglog.open(memory) as log:
        assert log.next_offset == 9
        assert file_of(memory).sound


# --- refusals and other logs --------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [0.0, 0.3, 0.5, 0.8, 1.0])
def test_a_change_that_could_not_be_written_is_undone(keep: float) -> None:
    memory = MemoryStorage()
    storage = FaultyStorage(memory)
    with made(storage) as log:
        before = memory.open("MANIFEST").pread(10**6, 0)
        storage.fault = Fault(operations=MANIFEST, name="MANIFEST", error=errno.ENOSPC, keep=keep)
        with pytest.raises(seglog.StorageError):
            log.append(VALUE)
        assert storage.struck
        assert memory.open("MANIFEST").pread(10**6, 0) == before
        assert log.append(VALUE) == 9
        assert file_of(memory).changes == 0  # another file: no reader takes it for the one with the undone change
    with seglog.open(memory) as log:
        assert [record.offset for record in log.scan()] == list(range(10))


@pytest.mark.parametrize("operation", ["datasync", "truncate"])
def test_a_change_that_may_be_on_the_disk_or_not_stops_the_writer(operation: str) -> None:
    memory = MemoryStorage()
    inner = FaultyStorage(memory)
    storage = FaultyStorage(inner)
    log = made(storage)
    if operation == "truncate":
        inner.fault = Fault(operations=MANIFEST, name="MANIFEST", error=errno.ENOSPC, keep=1.0)
    storage.fault = Fault(operations=frozenset({operation}), name="MANIFEST", error=errno.EIO)
    with pytest.raises(seglog.LogPoisoned):
        log.append(VALUE)
    with pytest.raises(seglog.LogPoisoned):
        log.append(b"more")
    log.close()
    with seglog.open(memory) as log:
        assert log.next_offset == 9
        assert log.recovery.clean or not log.recovery.damaged


def test_an_opening_makes_a_change_durable_that_a_dead_writer_may_not_have_synced() -> None:
    memory = MemoryStorage()
    made(memory).close()
    storage = FaultyStorage(memory)
    with seglog.open(storage):
        calls = [call.operation for call in storage.calls if call.name == "MANIFEST"]
    assert calls.index("pwrite") < calls.index("datasync")


def test_a_change_never_gets_into_the_manifest_of_a_log_that_took_the_directory(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The directory is exchanged at the last moment, after every check."""
    other = path.with_name("other")
    made(other, 30).close()
    shutil.copytree(other, path.with_name("kept"))
    stale = made(path)
    check = Ownership.check_manifest

    def exchanged(*args: Any) -> None:
        check(*args)
        path.rename(path.with_name("away"))
        other.rename(path)

    with monkeypatch.context() as patched:
        patched.setattr(Ownership, "check_manifest", exchanged)
        stale.append(VALUE)
    with pytest.raises(seglog.LogPoisoned):
        stale.sync()
    stale.close()
    for name in ("MANIFEST", "MANIFEST.prev"):
        assert (path / name).read_bytes() == (path.with_name("kept") / name).read_bytes()
    with seglog.open(path) as log:
        assert log.next_offset == 30
        assert log.recovery.clean


def test_a_manifest_that_was_put_in_place_of_this_one_stops_the_writer(path: Path) -> None:
    other = path.with_name("other")
    made(other, 30).close()
    with made(path) as log:
        shutil.copy(other / "MANIFEST", path / "MANIFEST")
        before = (path / "MANIFEST").read_bytes()
        with pytest.raises(seglog.LogPoisoned, match="MANIFEST"):
            log.append(VALUE)
        assert (path / "MANIFEST").read_bytes() == before


# --- damage -------------------------------------------------------------------------------------------------------


def ends_of(data: bytes) -> list[int]:
    """Return the ends of the base and of each change."""
    lines = data.splitlines(keepends=True)
    first = next(number for number, line in enumerate(lines) if line.startswith(b'{"check"')) + 1
    return [sum(map(len, lines[:number])) for number in range(first, len(lines) + 1, 3)]


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_acknowledged_rolls_that_a_damaged_manifest_lost_are_found_by_their_stores(path: Path, lost: int) -> None:
    """Both copies of the last changes are gone without a trace, as if the file had been cut exactly there."""
    with made(path, 12) as log:
        log.sync()
    data = (path / "MANIFEST").read_bytes()
    (path / "MANIFEST").write_bytes(data[: ends_of(data)[-1 - lost]])
    with seglog.open(path, mode="r") as reader:
        assert [record.offset for record in reader.scan()] == list(range(12))
        assert not reader.recovery.clean
    with seglog.open(path) as log:
        assert [event.kind for event in log.recovery.events] == ["manifest"]
        assert [record.offset for record in log.scan()] == list(range(12))


@pytest.mark.parametrize(("keep", "prev"), [("nothing", "there"), ("the changes", "there"), ("the changes", "lost")])
def test_a_manifest_without_its_base_is_rebuilt_with_all_records_and_all_that_it_said(
    path: Path, keep: str, prev: str
) -> None:
    with made(path, 12) as log:
        log.publish([], query="q", batch=7)
        fill(log, 2)
        before = log.view().manifest
    if prev == "lost":
        (path / "MANIFEST.prev").unlink()
    data = (path / "MANIFEST").read_bytes()
    if keep == "nothing":
        (path / "MANIFEST").unlink()
    else:
        (path / "MANIFEST").write_bytes(b"\0" * 50 + data[50:])
    with seglog.open(path) as log:
        assert [event.kind for event in log.recovery.events] == ["manifest"]
        assert [record.offset for record in log.scan()] == list(range(14))
        after = log.view().manifest
    assert after.version > before.version
    assert (after.log_id, after.config, after.epoch) == (before.log_id, before.config, before.epoch + 1)
    assert after.published == before.published == {"q": 7}


def test_a_damaged_copy_of_a_change_is_reported_and_written_anew(path: Path) -> None:
    made(path).close()
    data = bytearray((path / "MANIFEST").read_bytes())
    data[-700] ^= 4
    (path / "MANIFEST").write_bytes(data)
    assert [problem.kind for problem in seglog.verify(path).problems] == ["manifest"]
    with seglog.open(path) as log:
        assert log.next_offset == 9
        assert log.verify().ok
    assert file_of(LocalStorage(path)).sound


def test_repair_replaces_a_manifest_with_a_damaged_copy(path: Path) -> None:
    made(path).close()
    data = bytearray((path / "MANIFEST").read_bytes())
    data[-700] ^= 4
    (path / "MANIFEST").write_bytes(data)
    assert [action.kind for action in seglog.repair(path).actions] == ["accept"]
    assert seglog.verify(path).ok
    with seglog.open(path) as log:
        assert log.next_offset == 9
