"""A copy of one log, by path."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, Mirror, Retention
from seglog.types import Lag
from tests.replication.conftest import KEYED, SMALL, fill

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.replication.source import Held


def test_a_copy_has_every_record_at_its_offset(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, SMALL) as log, Mirror(source, target) as mirror:
        fill(log, 200)
        log.append(None, key=b"1", timestamp=5)
        log.append(b"", key=b"")
        assert mirror.step() > 0
        same(source, target)
        assert mirror.step() == 0
        assert mirror.lag == Lag(0, 0, 0.0)
        fill(log, 3)
        mirror.step()
        same(source, target)


def test_a_copy_begins_at_the_lowest_offset_of_its_source(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, LogConfig(segment_bytes=512, initial_offset=1000, retention=Retention(bytes=1200))) as log:
        fill(log, 100)
        log.expire()
        assert log.lowest_offset > 1000
        with Mirror(source, target) as mirror:
            mirror.step()
        same(source, target)


def test_a_copy_works_between_storages(same: Any) -> None:
    source, target = seglog.MemoryStorage(), seglog.MemoryStorage()
    with seglog.open(source, SMALL) as log:
        fill(log, 50)
    with Mirror(source, target) as mirror:
        mirror.step()
    same(source, target)


def test_a_record_longer_than_a_window_is_copied(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source) as log:
        fill(log, 5)
        log.append(bytes(3_000_000), key=b"long")
        fill(log, 5)
        log.append(bytes(9_000_000), key=b"longer than a fetch")
        fill(log, 5)
        with Mirror(source, target) as mirror:
            while mirror.step():
                pass
        same(source, target)


def test_gaps_and_a_gap_at_the_end_are_copied(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, KEYED) as log:
        fill(log, 60, keys=3)
        for key in (b"0", b"1", b"2"):
            log.append(None, key=key)
        log.compact(roll=True)
        log.compact(roll=True)
        assert [record.offset for record in log.scan()] == []
        with Mirror(source, target) as mirror:
            mirror.step()
            same(source, target)
            assert log.append(b"next", key=b"k") == 63
            mirror.step()
            same(source, target)


def test_dense_records_follow_compacted_ones_in_a_copy(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, LogConfig(segment_bytes=512, retention=Retention(compact=True))) as log:
        for _ in range(3):
            fill(log, 40, keys=5)
            log.compact(roll=True)
            log.append(b"kept", key=b"alone")
            with Mirror(source, target) as mirror:
                mirror.step()
        fill(log, 20)
        with Mirror(source, target) as mirror:
            mirror.step()
            for segment in seglog.open(target, mode="r").segments:
                assert segment.bytes <= 512
        assert list(seglog.open(target, mode="r").scan())[-20:] == list(log.scan())[-20:]
        assert seglog.verify(target).ok


def test_a_copy_follows_a_truncate_although_the_source_has_grown_again(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, SMALL) as log, Mirror(source, target) as mirror:
        fill(log, 100, "old")
        mirror.step()
        log.truncate(3)
        fill(log, 97, "new")
        mirror.step()
        same(source, target)
        with seglog.open(target, mode="r") as copy:
            assert copy.read(3).value == b"new 0"


def test_a_copy_that_was_away_during_many_truncates_cuts_to_the_last_common_offset(
    source: Path, target: Path, same: Any
) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 100, "old")
        with Mirror(source, target) as mirror:
            mirror.step()
        for cut in (90, 95, 40, 60, 50):
            fill(log, 100, f"until {cut}")
            log.truncate(cut)
        fill(log, 80, "last")
        with Mirror(source, target) as mirror:
            mirror.step()
        same(source, target)


def test_a_reader_of_the_copy_learns_of_the_truncate(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log, Mirror(source, target) as mirror:
        fill(log, 20, "old")
        mirror.step()
        with seglog.open(target, mode="r") as copy:
            tail = copy.tail(20)
            log.truncate(10)
            fill(log, 30, "new")
            mirror.step()
            with pytest.raises(seglog.LogTruncated):
                tail.poll()


def test_a_copy_goes_on_where_it_was_closed(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, SMALL) as log:
        for _ in range(5):
            fill(log, 17)
            with Mirror(source, target) as mirror:
                assert 0 < mirror.step() < 2500
            same(source, target)


def test_a_copy_rejects_other_writers(source: Path, target: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 5)
        with Mirror(source, target) as mirror:
            mirror.step()
        with pytest.raises(seglog.LogReadOnly, match="promote"):
            seglog.open(target)
        with seglog.open(target, mode="r") as copy:
            assert copy.next_offset == 5


def test_a_copy_that_was_away_longer_than_retention_says_so_and_can_restart(
    source: Path, target: Path, same: Any
) -> None:
    with seglog.open(source, LogConfig(segment_bytes=512, retention=Retention(bytes=1024))) as log:
        fill(log, 10)
        with Mirror(source, target) as mirror:
            mirror.step()
        fill(log, 200)
        log.expire()
        with pytest.raises(seglog.CopyExpired, match="--restart"):
            Mirror(source, target)
        with seglog.open(target, mode="r") as copy:
            assert copy.next_offset == 10  # unchanged
        with Mirror(source, target, restart=True) as mirror:
            mirror.step()
        same(source, target)


def test_a_copy_of_another_log_is_rejected(source: Path, target: Path, tmp_path: Path, same: Any) -> None:
    with seglog.open(source) as log, seglog.open(tmp_path / "other") as other:
        fill(log, 5)
        fill(other, 9, "other")
        with Mirror(source, target) as mirror:
            mirror.step()
        with pytest.raises(seglog.CopyDiverged, match="another log"):
            Mirror(tmp_path / "other", target)
        same(source, target)
        with Mirror(tmp_path / "other", target, restart=True) as mirror:
            mirror.step()
        same(tmp_path / "other", target)


def test_a_source_restored_from_a_backup_does_not_cut_its_copy(source: Path, target: Path, tmp_path: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 5)
        log.backup(tmp_path / "backup")
        fill(log, 5)
        with Mirror(source, target) as mirror:
            mirror.step()
    with pytest.raises(seglog.CopyDiverged, match="ahead"):
        Mirror(tmp_path / "backup", target)
    with seglog.open(target, mode="r") as copy:
        assert copy.next_offset == 10


def test_a_log_of_its_own_is_not_overwritten(source: Path, target: Path) -> None:
    with seglog.open(source) as log, seglog.open(target) as other:
        fill(log, 5)
        fill(other, 3)
    with pytest.raises(seglog.CopyDiverged):
        Mirror(source, target)
    with seglog.open(target) as other:
        assert other.next_offset == 3
        other.append(b"still a leader")


def test_damage_in_the_source_stops_the_copy_before_it(source: Path, target: Path) -> None:
    with seglog.open(source) as log:
        fill(log, 50)
    store = next(source.glob("*.store"))
    data = bytearray(store.read_bytes())
    data[len(data) // 2] ^= 1
    store.write_bytes(data)
    with seglog.open(source, mode="r") as log:
        with pytest.raises(seglog.CorruptRecord) as damage:
            list(log.scan())
        with Mirror(source, target) as mirror:
            with pytest.raises(seglog.CorruptRecord) as reported:
                mirror.step()
            assert seglog.open(target, mode="r").next_offset == damage.value.offset == reported.value.offset
            assert reported.value.position == damage.value.position
            assert str(source) in str(reported.value)


def test_a_change_of_retention_is_copied(source: Path, target: Path) -> None:
    with seglog.open(source, LogConfig(segment_bytes=512)) as log, Mirror(source, target) as mirror:
        fill(log, 5)
        mirror.step()
        log.alter(retention=Retention(compact=True, delete_retention=60, age=3600))
        mirror.step()
        assert seglog.open(target, mode="r").config == log.config
        log.alter(retention=Retention(age=None, compact=False))
        mirror.step()
        assert seglog.open(target, mode="r").config == log.config


def test_settings_that_are_altered_are_copied(source: Path, target: Path) -> None:
    with seglog.open(source, LogConfig(segment_bytes=512)) as log, Mirror(source, target) as mirror:
        fill(log, 5)
        mirror.step()
        for change in ({"segment_bytes": 4096}, {"flush_records": 2, "segment_age": 60}, {"compression": "zstd"}):
            log.alter(**change)
            mirror.step()
            assert seglog.open(target, mode="r").config == log.config


@pytest.mark.parametrize("lowered", [False, True])
def test_a_record_is_copied_that_only_the_altered_segment_bytes_admit(
    source: Path, target: Path, same: Any, lowered: bool
) -> None:
    with seglog.open(source, LogConfig(segment_bytes=512)) as log, Mirror(source, target) as mirror:
        fill(log, 5)
        mirror.step()
        log.alter(segment_bytes=100_000)
        for size in (5000, 10, 140_000):
            log.append(b"x" * size)
        if lowered:
            log.alter(segment_bytes=512)
        fill(log, 50)
        mirror.catch_up()
        same(source, target)
        assert seglog.open(target, mode="r").config == log.config


def test_what_the_source_expired_leaves_the_copy(source: Path, target: Path) -> None:
    with seglog.open(source, LogConfig(segment_bytes=512)) as log, Mirror(source, target) as mirror:
        fill(log, 100)
        mirror.step()
        log.alter(retention=Retention(bytes=1024))
        log.expire()
        mirror.step()
        assert log.lowest_offset > 50
        assert log.lowest_offset - 20 < seglog.open(target, mode="r").lowest_offset <= log.lowest_offset


def test_the_copy_pins_its_position_at_the_source(source: Path, target: Path) -> None:
    with seglog.open(source, KEYED) as log:
        log.append(b"1", key=b"a")
        with Mirror(source, target) as mirror:
            mirror.step()
        assert list(log.pins.values()) == [1]
        log.append(None, key=b"a")
        log.compact(roll=True)
        log.compact(roll=True)
        assert [record.offset for record in log.scan()] == [1], "the tombstone waits for the copy"
        with Mirror(source, target) as mirror:
            mirror.step()
            assert seglog.open(target, mode="r").read(1).value is None
        log.compact(roll=True)
        assert list(log.scan()) == []


def test_a_copy_whose_pin_was_removed_says_so_if_tombstones_may_be_gone(source: Path, target: Path, same: Any) -> None:
    with seglog.open(source, KEYED) as log:
        log.append(b"1", key=b"a")
        with Mirror(source, target) as mirror:
            mirror.step()
        (pin,) = log.pins
        log.unpin(pin)
        with Mirror(source, target) as mirror:
            mirror.step()  # nothing was compacted meanwhile
        log.unpin(pin)
        log.append(None, key=b"a")
        log.append(b"1", key=b"b")
        log.compact(roll=True)
        log.compact(roll=True)
        with pytest.raises(seglog.CopyExpired, match="pin"):
            Mirror(source, target)
        with Mirror(source, target, restart=True) as mirror:
            mirror.step()
        same(source, target)


def test_a_truncate_below_what_the_copy_compacted_brings_the_removed_records_back(
    source: Path, target: Path, same: Any
) -> None:
    with seglog.open(source, KEYED) as log, Mirror(source, target) as mirror:
        for number in range(20):
            log.append(b"%d" % number, key=b"k")
        mirror.step()
        mirror._logs["", 0].log.compact(roll=True)
        assert [record.offset for record in seglog.open(target, mode="r").scan()] == [19]
        log.truncate(15)
        mirror.step()
        same(source, target)


def test_a_source_that_is_cut_while_the_position_is_stored_does_not_stop_the_mirror(
    source: Path, target: Path, same: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.replication.log_mirror.PIN_SECONDS", 0)
    with seglog.open(source, SMALL) as log, Mirror(source, target) as mirror:
        fill(log, 50)
        one = mirror._logs["", 0]
        real = one.source.pin

        def pin(held: Held) -> None:
            log.truncate(20)
            real(held)

        monkeypatch.setattr(one.source, "pin", pin)
        mirror.step()
        monkeypatch.setattr(one.source, "pin", real)
        assert list(log.pins.values()) == [0]
        mirror.step()
        same(source, target)
        assert list(log.pins.values()) == [20]


def test_a_backup_that_replaces_its_leader_is_noticed_although_both_were_cut(
    source: Path, target: Path, same: Any, tmp_path: Path
) -> None:
    backup = tmp_path / "backup"
    with seglog.open(source, SMALL) as log, Mirror(source, target) as mirror:
        fill(log, 80)
        log.backup(backup)
        fill(log, 20)
        log.truncate(90)
        fill(log, 10)
        mirror.step()
    with seglog.open(backup) as log:  # it counted the same epoch as the leader's truncate did
        for number in range(30):
            log.append(b"only in what was a backup %d" % number)
        with Mirror(backup, target) as mirror:
            mirror.step()
    same(backup, target)
    with pytest.raises(seglog.CopyDiverged), Mirror(source, target) as mirror:
        mirror.step()


def test_two_backups_of_one_log_become_logs_with_histories_of_their_own(source: Path, tmp_path: Path) -> None:
    places = [tmp_path / "one", tmp_path / "two"]
    with seglog.open(source, SMALL) as log:
        fill(log, 10)
        for place in places:
            log.backup(place)
    epochs = []
    for place in places:
        with seglog.open(place) as log:
            epochs.append(log.epoch)
        with seglog.open(place) as log:
            assert log.epoch == epochs[-1]
    assert epochs[0] != epochs[1]
    assert min(epochs) > 2**16
