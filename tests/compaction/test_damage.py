"""Damaged sources: left as they are and named; never silently dropped, and nothing rests on what they hold."""

from __future__ import annotations

from typing import Any

import pytest

import seglog
from seglog import CorruptRecord
from seglog.format.store import HEADER_BYTES
from seglog.testing.internals import storage_of

HOUR = 3600.0


def damage(log: seglog.Log, segment: int, position: int) -> None:
    """Change one byte of a sealed store, `position` bytes after its header."""
    store = storage_of(log).open(log.segments[segment].name, writable=True)
    old = store.pread(1, HEADER_BYTES + position)
    store.pwrite(bytes([old[0] ^ 0x40]), HEADER_BYTES + position)


def readable(log: seglog.Log) -> list[int]:
    return [record.offset for record in log.scan(on_corrupt=lambda error: None)]


@pytest.mark.parametrize("where", ["value", "key", "metadata_len", "value_len", "offset", "checksum"])
@pytest.mark.parametrize("segment", [0, 1, 2])
def test_a_segment_with_a_damaged_record_is_left_as_it_is(shop: Any, where: str, segment: int) -> None:
    position = {"checksum": 3, "metadata_len": 9, "value_len": 14, "offset": 18, "key": 32, "value": 33}[where]
    with shop.open(segment_bytes=512) as log:
        for number in range(16):  # five records a segment
            log.append(b"x" * 56, key=b"%d" % (number % 4))
        before = log.segments
        damage(log, segment, position)
        report = log.compact()
        (error,) = report.damaged
        assert isinstance(error, CorruptRecord)
        assert error.path.endswith(before[segment].name)
        assert before[segment] in log.segments
        mine = range(before[segment].base_offset, before[segment].next_offset)
        assert set(readable(log)) >= set(mine[1:]) | {15}
        others = [offset for offset in readable(log) if offset not in mine and offset < 15]
        latest = {offset % 4: offset for offset in range(15) if offset not in mine}
        assert others == sorted(latest.values())
        assert log.compact().damaged[0].position == error.position  # it stays dirty
        log.repair()
        assert log.compact().damaged == ()
        lost = mine[0]
        latest = {offset % 4: offset for offset in range(16) if offset != lost}
        assert set(latest.values()) <= set(readable(log))


def test_what_a_damaged_key_says_kills_nobody(shop: Any) -> None:
    """A damaged dirty record may name another key: it must not supersede that one's latest record."""
    with shop.open(segment_bytes=512) as log:
        for key in (b"a", b"b", b"c", b"d", b"e", b"E", b"f", b"g", b"h", b"i", b"j"):
            log.append(b"x" * 56, key=key)
        damage(log, 1, 32)  # E, in the second segment: 0x45 -> 0x05
        store = storage_of(log).open(log.segments[1].name, writable=True)
        store.pwrite(b"a", HEADER_BYTES + 32)
        (error,) = log.compact().damaged
        assert "checksum" in error.reason
        assert readable(log) == [0, 1, 2, 3, 4, 6, 7, 8, 9, 10]


def test_damage_in_a_clean_segment_is_found_when_it_would_be_copied(shop: Any) -> None:
    with shop.open(segment_bytes=512) as log:
        for number in range(10):
            log.append(b"x" * 56, key=b"%d" % number)
        shop.put(log, "|")
        assert log.compact().damaged == ()
        damage(log, 0, 40)
        shop.put(log, "new |")
        assert log.compact().damaged == ()  # no record is obsolete there: it was not read
        shop.put(log, "3 |")
        assert len(log.compact().damaged) == 1
        assert readable(log) == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
        log.repair()
        assert log.compact().damaged == ()
        assert readable(log) == [1, 2, 4, 5, 6, 7, 8, 9, 10, 11]


def test_a_tombstone_behind_damage_does_not_go(shop: Any, clock: Any) -> None:
    """What it deletes may stand in the segment that was left as it is, and would come back."""
    with shop.open(segment_bytes=512, delete_retention=HOUR) as log:
        for key in (b"a", b"b", b"c", b"d", b"e"):
            log.append(b"x" * 56, key=key)
        shop.put(log, "b- |")
        damage(log, 0, 40)
        for _ in range(3):
            assert len(log.compact().damaged) == 1
            clock.advance(2 * HOUR)
        assert readable(log) == [1, 2, 3, 4, 5]
        log.repair()
        log.compact()
        assert readable(log) == [2, 3, 4, 5]
        clock.advance(HOUR)
        log.compact()
        assert readable(log) == [2, 3, 4]


@pytest.mark.parametrize("byte", [9, 11, 15])
def test_damage_to_a_length_is_told_where_it_is(shop: Any, byte: int) -> None:
    with shop.open(segment_bytes=2**23) as log:
        for key in (b"a", b"b", b"a"):
            log.append(b"x" * (3 * 2**19), key=key)
        shop.put(log, "|")
        store = storage_of(log).open(log.segments[0].name, writable=True)
        store.pwrite(b"\x7f", HEADER_BYTES + byte)
        (error,) = log.compact().damaged
        assert error.position == HEADER_BYTES
        assert readable(log) == [1, 2]
