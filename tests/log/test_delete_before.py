"""Records before an offset are deleted: the log begins exactly there, also after it is opened again."""

from __future__ import annotations

import pytest

import seglog
from seglog.log.holds import drop_hold, set_hold
from seglog.storage.local import LocalStorage
from tests.waiting import until

SMALL = seglog.LogConfig(segment_bytes=1024)


@pytest.fixture
def log(tmp_path):
    with seglog.open(tmp_path / "log", config=SMALL) as log:
        for number in range(40):
            log.append(b"%d" % number * 40, key=b"k", timestamp=number * 1000)
        yield log


def offsets(log):
    return [record.offset for record in log.scan()]


def test_the_log_begins_at_the_offset(log, tmp_path):
    bases = [one.base_offset for one in log.segments]
    middle = bases[1] + 1
    assert log.delete_before(middle) == middle
    assert (log.lowest_offset, offsets(log)) == (middle, list(range(middle, 40)))
    assert [one.base_offset for one in log.segments] == bases[1:]
    with pytest.raises(seglog.OffsetOutOfRange):
        log.read(middle - 1)
    with pytest.raises(seglog.OffsetOutOfRange):
        log.tail(middle - 1)
    with seglog.open(tmp_path / "log", mode="r") as reader:
        assert offsets(reader) == list(range(middle, 40))
        assert next(iter(reader.batches())).column("offset")[0].as_py() == middle
        assert reader.records_from(0) == 40 - middle


def test_an_earlier_offset_changes_nothing(log):
    log.delete_before(20)
    version = log.view().manifest.version
    assert log.delete_before(3) == log.delete_before(20) == 20
    assert log.view().manifest.version == version


@pytest.mark.parametrize("offset", [-1, 41])
def test_an_offset_outside_the_log_is_refused(log, offset):
    with pytest.raises(seglog.OffsetOutOfRange):
        log.delete_before(offset)


def test_everything_is_deleted_and_the_disk_is_freed(log, tmp_path):
    assert log.delete_before(40) == 40
    assert offsets(log) == []
    until(lambda: len(list((tmp_path / "log").glob("**/*.store"))) == 1)
    assert log.append(b"next") == 40
    assert offsets(log) == [40]


def test_the_log_begins_there_after_it_is_opened_again(log, tmp_path):
    log.delete_before(21)
    log.close()
    with seglog.open(tmp_path / "log") as again:
        assert offsets(again) == list(range(21, 40))
        again.truncate(30)
        assert again.append(b"x") == 30
        assert again.verify().ok


def test_a_time_is_searched_from_the_beginning_on(log):
    log.append(b"late", timestamp=500)
    log.delete_before(21)
    assert log.offset_at(3000) == 21
    assert log.offset_at(21_000) == 21
    assert log.offset_at(30_000) == 30
    assert log.offset_at(0) == 21


def test_a_compaction_keeps_the_beginning(log):
    log.alter(retention=seglog.Retention(compact=True))
    log.delete_before(21)
    log.compact(roll=True)
    assert (log.lowest_offset, offsets(log)) == (21, [39])


def test_what_is_held_for_an_archive_is_kept_in_whole_segments(log, tmp_path):
    bases = [one.base_offset for one in log.segments]
    storage = LocalStorage(tmp_path / "log")
    set_hold(storage, "archive", bases[2], log.epoch)
    assert log.delete_before(40) == bases[2]
    drop_hold(storage, "archive")
    assert log.delete_before(bases[2] + 1) == bases[2] + 1


def test_a_new_copy_begins_where_its_leader_begins(log, tmp_path):
    log.delete_before(21)
    with seglog.Mirror(tmp_path / "log", tmp_path / "copy") as mirror:
        mirror.step()
    with seglog.open(tmp_path / "copy", mode="r") as copy:
        assert offsets(copy) == list(range(21, 40))


def test_a_reader_cannot_delete(log, tmp_path):
    with seglog.open(tmp_path / "log", mode="r") as reader, pytest.raises(seglog.LogReadOnly):
        reader.delete_before(3)
