"""Space allocated after the records of an active store: what processes, crashes and full disks make of it."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.log.repair.repair import repair_storage
from seglog.storage import LocalStorage
from seglog.testing.faulty import Fault, FaultyStorage
from seglog.types import Draft

if TYPE_CHECKING:
    from pathlib import Path

AHEAD = 3000
ALLOCATING = seglog.LogConfig(allocate_bytes=AHEAD, index_interval_bytes=64)
EXPOSED = ["appended", "durable"]


def size(scene: Any) -> int:
    return int(scene.file().stat().st_size)


def end(scene: Any) -> int:
    """The position after the last record."""
    last = scene.places()[-1]
    return int(last.position + last.length)


def test_single_appends_write_over_zeros_until_they_are_used_up(scene: Any) -> None:
    with seglog.open(scene.path, ALLOCATING) as log:
        sizes = set()
        for _ in range(10):
            log.append(b"v" * 68)
            sizes.add(size(scene))
        assert sizes == {64 + AHEAD}
        assert scene.file().read_bytes()[64 + 1000 :] == bytes(AHEAD - 1000)
        for _ in range(30):
            log.append(b"v" * 68)
        assert 64 + AHEAD < size(scene) <= 64 + 4000 + AHEAD
        assert [record.value for record in log.scan()] == [b"v" * 68] * 40


def test_a_record_that_is_longer_than_the_space_and_a_batch_take_what_they_need(scene: Any) -> None:
    with seglog.open(scene.path, ALLOCATING) as log:
        log.append(b"short")
        log.append(b"long" * AHEAD)
        assert size(scene) == end(scene)
        log.append(b"short")
        log.append_batch(pa.table({"value": [b"v" * 50] * 100}))
        log.append_each([Draft(b"one"), Draft(b"two")])
        assert [len(record.value or b"") for record in log.scan()] == [5, 4 * AHEAD, 5, *[50] * 100, 3, 3]
        assert log.verify().problems == ()
        assert log.verify().tail_bytes == 0


def test_a_close_gives_the_space_back_and_begins_no_epoch(scene: Any) -> None:
    scene.fill([b"a", b"b"], ALLOCATING)
    epoch = scene.manifest().epoch
    assert size(scene) == end(scene)
    with seglog.open(scene.path) as log:
        assert log.recovery.clean
        assert log.append(b"c") == 2
        assert size(scene) > end(scene)
    assert scene.manifest().epoch == epoch


def test_what_a_crash_has_left_is_used_again(scene: Any) -> None:
    scene.fill_and_crash([b"a"], [b"b"], ALLOCATING)
    before = size(scene)
    assert before == 64 + AHEAD
    with seglog.open(scene.path) as log:
        assert log.recovery.clean
        log.append(b"c")
        assert size(scene) == before
    assert scene.values() == [b"a", b"b", b"c"]


def test_a_log_that_allocates_no_more_gives_back_what_is_left(scene: Any) -> None:
    scene.fill_and_crash([b"a"], [], ALLOCATING)
    with seglog.open(scene.path, seglog.LogConfig(allocate_bytes=0)) as log:
        assert log.recovery.clean
        assert size(scene) == end(scene)
        log.append(b"b")
        assert size(scene) == end(scene)
    with seglog.open(scene.path) as log:
        assert log.recovery.clean
    assert scene.values() == [b"a", b"b"]


@pytest.mark.parametrize("left", [8, 30, 60], ids=["checksum", "half of the head", "half of the value"])
def test_a_torn_record_is_cut_with_the_space_behind_it(scene: Any, left: int) -> None:
    scene.fill_and_crash([b"a"], [b"b" * 50], ALLOCATING)
    last = scene.places()[-1]
    scene.overwrite(scene.file(), last.position + left, bytes(last.length - left))
    with seglog.open(scene.path) as log:
        (event,) = log.recovery.events
        assert (event.kind, event.offset, event.position) == ("torn", 1, last.position)
        assert log.append(b"next") == 1
    assert len(scene.torn_files()) == 1
    assert scene.values() == [b"a", b"next"]


def test_what_is_no_zero_behind_the_records_is_cut_and_kept(scene: Any) -> None:
    scene.fill_and_crash([b"a"], [], ALLOCATING)
    scene.overwrite(scene.file(), 1000, b"?")
    with seglog.open(scene.path) as log:
        assert [event.kind for event in log.recovery.events] == ["torn"]
        assert log.append(b"b") == 1
    assert scene.torn_files()[0].read_bytes()[-1:] == b"?"


def test_zeros_where_a_durable_record_was_are_damage(scene: Any) -> None:
    scene.fill_and_crash([b"a", b"b", b"c"], [], ALLOCATING)
    last = scene.places()[-1]
    scene.overwrite(scene.file(), last.position, bytes(last.length))
    with seglog.open(scene.path) as log:
        assert log.recovery.damaged
        assert log.append(b"d") == 3, "the offset of a durable record is never assigned again"
        with pytest.raises(seglog.CorruptRecord):
            log.read(2)
        assert [log.read(offset).value for offset in (0, 1, 3)] == [b"a", b"b", b"d"]


def test_zeros_where_a_reader_saw_a_record_begin_another_epoch(scene: Any) -> None:
    """As after a write that failed in the background: the record was read, and is lost."""
    with scene.dying(ALLOCATING) as log:
        log.append(b"a")
        log.sync()
        log.append(b"lost")
    with seglog.open(scene.path, mode="r") as reader:
        records = reader.tail(0)
        assert [record.value for record in records.poll()] == [b"a", b"lost"]
        last = scene.places()[-1]
        scene.overwrite(scene.file(), last.position, bytes(last.length))
        with seglog.open(scene.path) as log:
            assert log.recovery.clean
            assert log.append(b"other") == 1
            log.append(b"and on")
            with pytest.raises(seglog.LogTruncated):
                records.poll()


@pytest.mark.parametrize("expose", EXPOSED)
def test_a_reader_of_another_process_sees_each_record_that_is_written_over_zeros(scene: Any, expose: str) -> None:
    with seglog.open(scene.path, ALLOCATING) as log, seglog.open(scene.path, mode="r", expose=expose) as reader:
        for number in range(60):
            log.append(b"value %04d" % number * 10)
            log.sync()
            assert reader.next_offset == number + 1
            assert reader.read(number).value == b"value %04d" % number * 10
        log.append_batch(pa.table({"value": [b"v" * 50] * 100}))
        log.sync()
        assert reader.next_offset == 160
        assert sum(batch.num_rows for batch in reader.batches()) == 160


@pytest.mark.parametrize("expose", EXPOSED)
def test_a_reader_goes_on_over_rolls(scene: Any, expose: str) -> None:
    rolling = seglog.LogConfig(segment_bytes=1024, allocate_bytes=400, flush_records=1)
    with seglog.open(scene.path, rolling) as log, seglog.open(scene.path, mode="r", expose=expose) as reader:
        for number in range(50):
            log.append(b"value %04d" % number * 10)
            assert reader.next_offset == number + 1
        assert len(log.segments) > 3
        sealed = log.segments[:-1]
        assert [(scene.path / segment.name).stat().st_size for segment in sealed] == [one.bytes for one in sealed]
        assert [record.offset for record in reader.scan()] == [*range(50)]
        assert log.verify().problems == ()
        assert reader.verify().problems == ()


def test_a_backup_and_a_log_without_a_manifest_have_all_records(scene: Any, tmp_path: Path) -> None:
    rolling = seglog.LogConfig(segment_bytes=1024, allocate_bytes=400)
    values = [b"value %04d" % number * 10 for number in range(30)]
    with seglog.open(scene.path, rolling) as log:
        for value in values:
            log.append(value)
        log.backup(tmp_path / "copy")
    (scene.path / "MANIFEST").unlink()
    (scene.path / "MANIFEST.prev").unlink(missing_ok=True)
    repair_storage(LocalStorage(scene.path))
    for path in (scene.path, tmp_path / "copy"):
        with seglog.open(path) as log:
            assert [record.value for record in log.scan()] == values
            assert log.append(b"and on") == 30
            assert log.verify().problems == ()


def test_compaction_and_compression_take_only_the_records(scene: Any) -> None:
    keyed = seglog.LogConfig(
        segment_bytes=1024, allocate_bytes=400, retention=seglog.Retention(compact=True), compression="zstd"
    )
    with seglog.open(scene.path, keyed) as log:
        for number in range(40):
            log.append(b"value %04d" % number * 10, key=b"k%d" % (number % 3))
        log.compact(roll=True)
        log.compress()
        assert {record.key: record.value for record in log.scan()} == {
            b"k%d" % (number % 3): b"value %04d" % number * 10 for number in range(40)
        }
        assert log.verify().problems == ()


def test_without_space_for_zeros_a_log_grows_with_its_records(scene: Any) -> None:
    storage = FaultyStorage(LocalStorage(scene.path))
    with seglog.open(storage, ALLOCATING) as log:
        storage.fault = Fault(operations=frozenset({"pwrite"}), name=".store", error=errno.ENOSPC, keep=0.5)
        log.append(b"a")
        assert size(scene) == end(scene)
        log.append(b"b")
        assert size(scene) == end(scene)
    assert scene.values() == [b"a", b"b"]


def test_a_failed_write_is_undone_with_the_space_behind_it(scene: Any) -> None:
    storage = FaultyStorage(LocalStorage(scene.path))
    with seglog.open(storage, ALLOCATING) as log:
        log.append(b"a")
        storage.fault = Fault(operations=frozenset({"pwrite"}), name=".store", error=errno.EIO, keep=0.5)
        with pytest.raises(seglog.StorageError):
            log.append(b"refused")
        assert log.append(b"b") == 1
        assert size(scene) > end(scene)
    assert scene.values() == [b"a", b"b"]
