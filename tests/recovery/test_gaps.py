"""Segments whose offsets have gaps: damage costs what it hit, neither its neighbours nor an offset given twice."""

from __future__ import annotations

from typing import Any

import pytest

import seglog


def fill(scene: Any, offsets: list[int] | range, damaged: list[int]) -> None:
    """Append durable records at the offsets, close, and damage some."""
    with seglog.open(scene.path) as log:
        for offset in offsets:
            log.append_at(offset, seglog.Record(offset, 1, None, b"value %05d " % offset * 10))
    data = scene.file().read_bytes()
    for offset in damaged:
        scene.flip(scene.file(), data.index(b"value %05d " % offset))


def readable(log: seglog.Log, offsets: list[int] | range) -> list[int]:
    found = []
    for offset in offsets:
        try:
            found.append(log.read(offset).offset)
        except seglog.CorruptRecord:
            continue
    return found


def test_records_behind_two_damaged_ones_are_neither_cut_nor_are_their_offsets_given_again(scene: Any) -> None:
    offsets = [10, 2000, 3000, 4000, 5000, 6000]
    fill(scene, offsets, [2000, 4000])
    for following in (6001, 6002):
        with seglog.open(scene.path) as log:
            assert {event.kind for event in log.recovery.events} == {"damage"}
            assert readable(log, offsets) == [10, 3000, 5000, 6000]
            assert log.append(b"next") == following


def test_damage_of_the_last_durable_record_does_not_give_its_offset_again(scene: Any) -> None:
    fill(scene, [10, 2000, 3000, 4000], [4000])
    for _ in range(2):
        with seglog.open(scene.path) as log:
            assert log.next_offset == 4001
            assert scene.torn_files() == []
    with seglog.open(scene.path) as log:
        assert log.append(b"next") == 4001
    with seglog.open(scene.path) as log:
        assert log.read(4001).value == b"next"


def test_one_damaged_record_hides_no_neighbour(scene: Any) -> None:
    offsets = range(10, 400, 2)
    fill(scene, offsets, [12, 200])
    sound = [offset for offset in offsets if offset not in (12, 200)]
    with seglog.open(scene.path) as log:
        assert readable(log, offsets) == sound
        errors: list[seglog.CorruptRecord] = []
        assert [record.offset for record in log.scan(on_corrupt=errors.append)] == sound
        assert len(errors) == 2
        with pytest.raises(seglog.OffsetCompacted):
            log.read(205)


def test_a_scan_from_behind_damage_on_meets_no_damage_and_nothing_before_its_start(scene: Any) -> None:
    fill(scene, range(10, 400, 2), [200])
    with seglog.open(scene.path) as log:
        assert [record.offset for record in log.scan(202, 210)] == [202, 204, 206, 208]
        errors: list[seglog.CorruptRecord] = []
        assert [record.offset for record in log.scan(200, 206, on_corrupt=errors.append)] == [202, 204]
        assert len(errors) == 1


def test_a_reader_of_durable_records_goes_as_far_as_was_synced(scene: Any) -> None:
    with seglog.open(scene.path) as log:
        log.append_at(10, seglog.Record(10, 1, None, b"one"))
        log.append_at(2000, seglog.Record(2000, 1, None, b"two"))
        with seglog.open(scene.path, mode="r", expose="durable") as reader:
            assert reader.next_offset == 10
            log.sync()
            log.append_at(3000, seglog.Record(3000, 1, None, b"three"))
            assert reader.next_offset == 2001
            log.sync()
            assert reader.next_offset == 3001
