"""Torn ends: what a crash leaves at the end of a store, and damage in the part that was known to be synced.

The numbers are those of the list of what the log must survive (docs/reliability.md).
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
VALUES = [b"value %04d " % number * 4 for number in range(20)]


def read_all_but(log: seglog.Log, damaged: set[int], values: list[bytes]) -> None:
    for offset, value in enumerate(values):
        if offset in damaged:
            with pytest.raises(seglog.CorruptRecord) as caught:
                log.read(offset)
            assert caught.value.offset == offset
        else:
            assert log.read(offset).value == value


# --- 1, 2, 3: the tail ----------------------------------------------------------------------------------------------


def test_01_a_torn_last_record_is_cut_its_bytes_are_kept_and_every_earlier_record_is_intact(scene: Any) -> None:
    scene.fill_and_crash([b"one"], [b"two", b"three" * 20])
    last, whole = scene.places()[-1], scene.file().read_bytes()
    store, index, known = scene.file(), scene.file(kind="index"), scene.file(kind="index").read_bytes()
    for left in range(1, last.length):
        store.write_bytes(whole[: last.position + left])
        index.write_bytes(known)
        with seglog.open(scene.path) as log:
            (event,) = log.recovery.events
            assert (event.kind, event.offset, event.position) == ("torn", 2, last.position)
            assert (event.bytes, event.path) == (left, str(store))
            assert [record.value for record in log.scan()] == [b"one", b"two"]
            kept = whole[last.position : last.position + left].rstrip(b"\0")  # a checksum may begin with zeros
            assert [path.read_bytes() for path in scene.torn_files()] == ([kept] if kept else [])
            assert log.append(b"next") == 2
        assert scene.values() == [b"one", b"two", b"next"]
        for path in scene.torn_files():
            path.unlink()


def test_01_recovery_is_reported_once(scene: Any) -> None:
    scene.fill_and_crash([b"one"], [b"two"])
    scene.cut(scene.file(), scene.places()[-1].position + 20)
    with seglog.open(scene.path) as log:
        assert not log.recovery.clean
        assert not log.recovery.damaged, "nothing of it was ever acknowledged"
    with seglog.open(scene.path) as log:
        assert log.recovery.clean


def test_01_a_reader_sees_the_whole_records_and_leaves_the_tear_alone(scene: Any) -> None:
    scene.fill_and_crash([b"one"], [b"two", b"three"])
    scene.cut(scene.file(), scene.file().stat().st_size - 1)
    before = scene.snapshot()
    with seglog.open(scene.path, mode="r") as log:
        assert [record.value for record in log.scan()] == [b"one", b"two"]
        report = log.verify()
        assert report.ok
        assert report.tail_bytes == 36
    assert scene.snapshot() == before


@pytest.mark.parametrize("zeros", [1, 7, 8, 31, 32, 33, 4096, 70_000, 5_000_000])
def test_02_a_tail_of_zeros_is_cut(scene: Any, zeros: int) -> None:
    scene.fill_and_crash([b"one"], [b"two"])
    size = scene.file().stat().st_size
    scene.cut(scene.file(), size + zeros)
    with seglog.open(scene.path) as log:
        (event,) = log.recovery.events
        assert (event.kind, event.offset, event.position, event.bytes) == ("torn", 2, size, zeros)
        assert [record.value for record in log.scan()] == [b"one", b"two"]
        assert scene.file().stat().st_size == size
        assert log.append(b"three") == 2
    assert scene.torn_files() == [], "zeros are not worth keeping"


def test_02_a_record_whose_end_never_arrived_is_cut(scene: Any) -> None:
    scene.fill_and_crash([b"one"], [b"two", b"x" * 10_000])
    last = scene.places()[-1]
    scene.overwrite(scene.file(), last.position + 512, bytes(last.length - 512))
    with seglog.open(scene.path) as log:
        (event,) = log.recovery.events
        assert (event.kind, event.bytes) == ("torn", last.length)
        assert log.next_offset == 2
    assert len(scene.torn_files()[0].read_bytes()) == 512


@pytest.mark.parametrize("length", [1, 31, 32, 100, 5000, 70_000, 4_500_000])
def test_03_a_tail_of_garbage_is_cut_and_kept(scene: Any, length: int) -> None:
    scene.fill_and_crash([b"one"], [b"two"])
    size, garbage = scene.file().stat().st_size, random.Random(length).randbytes(length - 1) + b"!"
    scene.overwrite(scene.file(), size, garbage)
    with seglog.open(scene.path) as log:
        (event,) = log.recovery.events
        assert (event.kind, event.position, event.bytes) == ("torn", size, length)
        assert [record.value for record in log.scan()] == [b"one", b"two"]
    assert scene.torn_files()[0].read_bytes() == garbage


def test_03_valid_records_of_another_log_are_garbage(scene: Any, tmp_path: Any) -> None:
    scene.fill_and_crash([b"one"], [b"two"])
    other = type(scene)(tmp_path / "other")
    other.fill([b"one", b"two", b"three", b"four"])
    scene.overwrite(scene.file(), scene.file().stat().st_size, other.file().read_bytes()[other.places()[2].position :])
    assert scene.values() == [b"one", b"two"]


def test_03_an_old_record_of_the_same_file_does_not_come_back(scene: Any) -> None:
    scene.fill_and_crash([b"one"], [b"two"])
    first = scene.places()[0]
    data = scene.file().read_bytes()
    scene.overwrite(scene.file(), len(data), data[first.position : first.position + first.length])
    with seglog.open(scene.path) as log:
        assert [event.kind for event in log.recovery.events] == ["torn"]
        assert [record.value for record in log.scan()] == [b"one", b"two"]


# --- 4: a hole ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hole", ["zeros", "garbage", "one bit"])
def test_04_behind_a_hole_everything_is_cut_and_kept(scene: Any, hole: str) -> None:
    scene.fill_and_crash([b"one"], [b"two", b"three", b"four"])
    lost, following = scene.places()[2], scene.places()[3]
    data = {"zeros": bytes(lost.length), "garbage": b"\xa5" * lost.length}.get(hole)
    if data is None:
        scene.flip(scene.file(), lost.position + 33)
    else:
        scene.overwrite(scene.file(), lost.position, data)
    tail = scene.file().read_bytes()[lost.position :]
    with seglog.open(scene.path) as log:
        (event,) = log.recovery.events
        assert (event.offset, event.position, event.bytes) == (2, lost.position, len(tail))
        if hole != "zeros":  # a batch writes its first head last: zeros there are a write that was not finished
            assert event.kind == "damage"
            assert f"offset {following.offset} follows" in event.detail
            assert log.recovery.damaged
        assert [record.value for record in log.scan()] == [b"one", b"two"]
        assert log.append(b"new") == 2
    assert scene.torn_files()[0].read_bytes() == tail
    assert scene.values() == [b"one", b"two", b"new"]


# --- 5: below the durable position ----------------------------------------------------------------------------------


@pytest.mark.parametrize("damaged", [0, 1, 4], ids=["the first", "one between", "the last"])
@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_05_bad_bytes_below_the_durable_position_are_damage_and_never_cut(
    scene: Any, damaged: int, crashed: bool
) -> None:
    values = VALUES[:5]
    if crashed:
        scene.fill_and_crash(values, [])
    else:
        scene.fill(values)
    place, size = scene.places()[damaged], scene.file().stat().st_size
    for at in range(0, place.length, 3):
        scene.flip(scene.file(), place.position + at)
        with seglog.open(scene.path) as log:
            (event,) = log.recovery.events
            assert (event.kind, event.offset, event.position) == ("damage", damaged, place.position)
            assert log.recovery.damaged
            assert scene.file().stat().st_size == size
            read_all_but(log, {damaged}, values)
            assert log.next_offset == 5, "its offset is never given out again"
        scene.flip(scene.file(), place.position + at)


def test_05_the_log_goes_on_behind_the_damage(scene: Any) -> None:
    scene.fill(VALUES[:5])
    scene.flip(scene.file(), scene.places()[3].position + 9)
    for number in range(5, 8):
        with seglog.open(scene.path) as log:
            assert [event.kind for event in log.recovery.events] == ["damage"]
            assert log.append(VALUES[number]) == number
            read_all_but(log, {3}, VALUES[: number + 1])
            skipped: list[seglog.CorruptRecord] = []
            assert [record.offset for record in log.scan(on_corrupt=skipped.append)] == [
                offset for offset in range(number + 1) if offset != 3
            ]
            assert [error.offset for error in skipped] == [3]


def test_05_every_run_of_damaged_records_is_reported(scene: Any) -> None:
    scene.fill(VALUES[:9])
    for number in (1, 2, 5, 8):
        scene.flip(scene.file(), scene.places()[0].position + number * scene.places()[0].length + 40)
    with seglog.open(scene.path) as log:
        assert [event.offset for event in log.recovery.events] == [1, 5, 8]
        read_all_but(log, {1, 2, 5, 8}, VALUES[:9])
        assert [problem.offset for problem in log.verify().problems] == [1, 5, 8]
        assert log.verify().records == 5


def test_05_a_store_cut_below_the_durable_position_never_gives_its_offsets_out_again(scene: Any) -> None:
    scene.fill(VALUES[:5])
    scene.cut(scene.file(), scene.places()[3].position)
    with seglog.open(scene.path) as log:
        assert log.recovery.damaged
        assert log.next_offset == 5
        assert log.append(VALUES[5]) == 5
        read_all_but(log, {3, 4}, VALUES[:6])
    with seglog.open(scene.path) as log:
        assert log.next_offset == 6
        read_all_but(log, {3, 4}, VALUES[:6])


@pytest.mark.parametrize("left", [0, 3])
def test_05_no_way_of_reading_hides_that_a_store_ends_too_early(scene: Any, left: int) -> None:
    scene.fill(VALUES[:5])
    scene.cut(scene.file(), scene.places()[left].position)
    with seglog.open(scene.path) as log:
        read_all_but(log, set(range(left, 5)), VALUES[:5])
        calls: list[Callable[[], object]] = [
            lambda: list(log.scan()),
            lambda: list(log.scan(left)),
            lambda: list(log.scan(4)),
            log.to_arrow,
            lambda: log.to_arrow(left + 1),
            lambda: log.offset_at(1000),
        ]
        for call in calls:
            with pytest.raises(seglog.CorruptRecord, match=r"ends before|bytes are left") as caught:
                call()
            assert left <= caught.value.offset < 5
        assert not log.verify().ok


@pytest.mark.parametrize("then", ["active", "sealed", "cut"])
def test_05_a_search_for_the_time_of_a_damaged_record_does_not_pass_it_by(scene: Any, then: str) -> None:
    times, config = [10, 20, 90, 30, 40], seglog.LogConfig(index_interval_bytes=64, segment_bytes=1024)
    with seglog.open(scene.path, config) as log:
        for time in times:
            log.append(b"value " * 10, timestamp=time)
    scene.flip(scene.file(), scene.places()[2].position + 40)
    with seglog.open(scene.path) as log:
        if then == "sealed":
            while len(log.segments) == 1:
                log.append(b"value " * 10, timestamp=5)
        if then == "cut":
            log.truncate(4)
        log.append(b"last", timestamp=100)
        assert [log.offset_at(time) for time in (10, 20)] == [0, 1]
        for late in (21, 90):
            with pytest.raises(seglog.CorruptRecord) as caught:
                log.offset_at(late)
            assert caught.value.offset == 2


def test_05_a_record_in_the_place_of_a_lost_one_before_it_stays_readable(scene: Any) -> None:
    scene.fill_and_crash(VALUES[:3], VALUES[3:5])
    lost, data = scene.places()[2], scene.file().read_bytes()
    scene.file().write_bytes(data[: lost.position] + data[lost.position + lost.length :])
    with seglog.open(scene.path) as log:
        read_all_but(log, {2}, VALUES[:5])
    seglog.repair(scene.path)
    with seglog.open(scene.path) as log:
        assert [record.offset for record in log.scan()] == [0, 1, 3, 4]


def test_05_a_damaged_header_is_reported_and_nothing_is_lost(scene: Any) -> None:
    scene.fill(VALUES[:5])
    for position in range(0, 64, 5):
        scene.flip(scene.file(), position)
        with seglog.open(scene.path) as log:
            assert [event.kind for event in log.recovery.events] == ["header"]
            read_all_but(log, set(), VALUES[:5])
        scene.flip(scene.file(), position)


def test_what_is_cut_twice_at_one_position_is_kept_twice(scene: Any) -> None:
    scene.fill([b"a"])
    for junk in (b"first evidence " * 5, b"second"):
        with scene.file().open("ab") as file:
            file.write(junk)
        seglog.open(scene.path).close()
    assert sorted(path.read_bytes() for path in scene.torn_files()) == [b"first evidence " * 5, b"second"]
