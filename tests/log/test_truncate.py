"""Cutting a log: records after the cut never come back, and records before it are unchanged."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig
from tests.waiting import HANG_SECONDS

SMALL = LogConfig(segment_bytes=512)
RECORDS = 23  # five a segment: bases 0, 5, 10, 15, 20
EVERYWHERE = [0, 1, 4, 5, 6, 9, 10, 11, 19, 20, 21, 22, 23]


def old(offset: int) -> bytes:
    return (b"old-%d-" % offset).ljust(57, b"o")


def new(offset: int) -> bytes:
    return (b"new-%d-" % offset).ljust(57, b"n")


def filled(place: Any, **options: Any) -> seglog.Log:
    log = seglog.open(place, SMALL, **options)
    for offset in range(RECORDS):
        log.append(old(offset), timestamp=offset)
    return log


def values(log: seglog.Log) -> list[bytes | None]:
    by_scan = [record.value for record in log.scan()]
    assert [log.read(offset).value for offset in range(log.lowest_offset, log.next_offset)] == by_scan
    assert log.to_arrow().column("value").to_pylist() == by_scan
    return by_scan


@pytest.mark.parametrize("cut", EVERYWHERE)
def test_what_is_behind_the_cut_is_gone_and_what_is_before_it_stays(place: Any, cut: int) -> None:
    expected: list[bytes] = [old(offset) for offset in range(cut)]
    with filled(place) as log:
        log.truncate(cut)
        assert (log.lowest_offset, log.next_offset, log.durable_offset) == (0, cut, cut if cut < RECORDS else 20)
        assert values(log) == expected
        assert log.offset_at(cut) is None
        assert log.offset_at(cut - 1) == (cut - 1 if cut else None)
        with pytest.raises(seglog.OffsetOutOfRange):
            log.read(cut)
    with seglog.open(place) as log:
        assert log.recovery.clean
        assert values(log) == expected
        assert log.verify().ok
    with seglog.open(place, mode="r") as log:
        assert values(log) == expected


@pytest.mark.parametrize("cut", EVERYWHERE)
def test_new_records_take_the_offsets_and_the_old_ones_never_come_back(place: Any, cut: int) -> None:
    expected = [old(offset) for offset in range(cut)] + [new(offset) for offset in range(cut, 40)]
    with filled(place) as log:
        log.truncate(cut)
        assert log.append(new(cut), timestamp=cut) == cut
        batch = pa.array([new(offset) for offset in range(cut + 1, 30)], pa.binary())
        log.append_batch(pa.table({"value": batch, "timestamp": list(range(cut + 1, 30))}))
        for offset in range(30, 40):
            log.append_stream([new(offset)], timestamp=offset)
        assert values(log) == expected
        assert [log.offset_at(offset) for offset in range(40)] == list(range(40))
    for _ in range(2):
        with seglog.open(place) as log:
            assert log.recovery.clean
            assert values(log) == expected
            assert log.verify().ok


@pytest.mark.parametrize("cut", EVERYWHERE)
def test_a_cut_of_a_log_that_was_reopened(place: Any, cut: int) -> None:
    filled(place).close()
    with seglog.open(place) as log:
        log.truncate(cut)
        assert values(log) == [old(offset) for offset in range(cut)]


def test_cut_after_cut_in_the_same_segment(place: Any) -> None:
    with filled(place) as log:
        for cut in (22, 18, 17, 17, 16, 8, 8, 7, 6, 5, 1, 0):
            log.truncate(cut)
            assert values(log) == [old(offset) for offset in range(cut)]
        assert log.size == 64
        assert log.append(new(0)) == 0
        assert values(log) == [new(0)]


def test_cuts_and_appends_by_turns(place: Any) -> None:
    expected: list[bytes] = []
    with seglog.open(place, SMALL) as log:
        for turn in range(30):
            for _ in range(7):
                value = b"%d-%d" % (turn, len(expected)) * 8
                expected.append(value)
                log.append(value)
            cut = len(expected) - turn % 7
            log.truncate(cut)
            del expected[cut:]
        assert values(log) == expected
    with seglog.open(place) as log:
        assert values(log) == expected
        assert log.verify().ok


def test_a_cut_at_the_end_changes_nothing(path: Any, contents: Any) -> None:
    with filled(path) as log:
        log.sync()
        before = contents(path)
        log.truncate(RECORDS)
        assert contents(path) == before


def test_a_cut_at_the_start_of_a_log_that_expired(place: Any) -> None:
    with filled(place) as log:
        pass
    with seglog.open(place, LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=0))) as log:
        log.expire()
        assert log.lowest_offset == 20
        log.truncate(20)
        assert (log.lowest_offset, log.next_offset, list(log.scan())) == (20, 20, [])
        assert log.append(new(20)) == 20
        assert values(log) == [new(20)]


def test_an_iterator_begun_before_goes_on_as_the_log_was(place: Any) -> None:
    with filled(place) as log:
        records, batches = log.scan(), log.batches(max_records=2)
        first, batch = next(records), next(batches)
        log.truncate(3)
        for offset in range(3, 30):
            log.append(new(offset))
        rest = [record.value for record in records]
        assert [first.value, *rest] == [old(offset) for offset in range(RECORDS)]
        rest = [value for one in batches for value in one.column("value").to_pylist()]
        assert batch.column("value").to_pylist() + rest == [old(offset) for offset in range(RECORDS)]
        assert values(log) == [old(offset) for offset in range(3)] + [new(offset) for offset in range(3, 30)]


def test_a_table_read_before_the_cut_keeps_its_bytes(path: Any) -> None:
    with filled(path) as log:
        table = log.to_arrow()
        log.truncate(0)
        for offset in range(RECORDS):
            log.append(new(offset))
        log.expire()
        assert table.column("value").to_pylist() == [old(offset) for offset in range(RECORDS)]


def test_a_cut_record_in_the_buffer_is_gone_too(place: Any) -> None:
    with seglog.open(place, LogConfig(buffer_bytes=100_000)) as log:
        for offset in range(5):
            log.append(old(offset))
        log.truncate(2)
        log.append(new(2))
    with seglog.open(place) as log:
        assert values(log) == [old(0), old(1), new(2)]


def test_the_files_of_what_was_cut_are_gone(path: Any) -> None:
    with filled(path) as log:
        log.truncate(3)
        assert sorted(found.name for found in path.glob("*.store")) == [segment.name for segment in log.segments]
        assert len(log.segments) == 2


def test_truncate_while_another_thread_waits_for_the_medium(watched: Any, until: Any, is_held: Any) -> None:
    """The waiting thread's records were cut off: they must not count as durable, and the thread must not hang."""
    entered, go_on = threading.Event(), threading.Event()

    def hold_up(path: str) -> None:
        if not go_on.is_set():
            entered.set()
            go_on.wait(HANG_SECONDS)

    with seglog.open(watched, LogConfig(flush_records=1)) as log:
        watched.on_sync = hold_up
        waiting = threading.Thread(target=lambda: log.append(b"cut off"), daemon=True)
        waiting.start()
        until(entered.is_set)
        cutting = threading.Thread(target=lambda: log.truncate(0), daemon=True)
        cutting.start()
        until(lambda: is_held(log))  # it waits for the sync under way, and who syncs then waits for the log
        go_on.set()
        waiting.join(HANG_SECONDS)
        cutting.join(HANG_SECONDS)
        assert not waiting.is_alive()
        assert not cutting.is_alive()
        assert (log.next_offset, log.durable_offset) == (0, 0)
        synced: list[str] = []
        watched.on_sync = synced.append
        log.append(b"stays")
        assert synced, "the record that took its offset was acknowledged without a sync"
        assert log.durable_offset == 1
