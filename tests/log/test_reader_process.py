"""Readers and writers in processes of their own: what one does the other sees, and no death leaves anything locked."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, Retention
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

SMALL = LogConfig(segment_bytes=512)


def fill(log: seglog.Log, count: int, mark: bytes = b"v") -> None:
    for _ in range(count):
        log.append((mark + b"%d-" % log.next_offset).ljust(57, b"-"), timestamp=log.next_offset)


OFFSETS = "[record.offset for record in log.scan()]"


def test_a_reader_follows_appends_rolls_and_a_restart_of_the_writer(path: Path, process: Any) -> None:
    with seglog.open(path, SMALL) as writer:
        there = process(path)
        for count in (1, 2, 5, 20):
            fill(writer, count)
            assert there("log.next_offset") == str(writer.next_offset)
            assert there("len(log.segments)") == str(len(writer.segments))
            assert there(OFFSETS) == str(list(range(writer.next_offset)))
            last = writer.next_offset - 1
            assert there(f"log.read({last})") == repr(writer.read(last))
    with seglog.open(path) as writer:
        fill(writer, 3)
        assert there("log.next_offset") == "31"
        assert there("log.to_arrow().num_rows, log.offset_at(30)") == "(31, 30)"
        assert there("log.append(b'v')").startswith("LogReadOnly")


def test_a_reader_meets_expiry(path: Path, process: Any) -> None:
    with seglog.open(path, LogConfig(segment_bytes=512, retention=Retention(bytes=0))) as writer:
        fill(writer, 3)
        there = process(path)
        assert there("kept.setdefault('tail', log.tail(0)).poll(1)[0].offset") == "0"
        fill(writer, 20)
        assert there("log.lowest_offset") == "20"
        assert there("log.read(5)") == (
            "OffsetOutOfRange: offset 5 is out of range: the log holds 20 up to, not including, 23"
        )
        assert there("kept['tail'].poll()").startswith("OffsetOutOfRange: offset 1 is out of range")


def test_a_reader_meets_a_cut(path: Path, process: Any) -> None:
    with seglog.open(path, SMALL) as writer:
        fill(writer, 12)
        there = process(path)
        assert there("len(kept.setdefault('tail', log.tail(0)).poll())") == "12"
        writer.truncate(7)
        assert there("log.next_offset") == "7"
        assert there("log.read(7)").startswith("OffsetOutOfRange")
        fill(writer, 10, b"new")
        assert there("log.read(7).value[:4]") == "b'new7'"
        assert there("log.read(6).value[:3]") == "b'v6-'"
        assert there("kept['tail'].poll()").startswith("LogTruncated")


def test_an_iterator_keeps_its_files_until_it_is_done(path: Path, process: Any) -> None:
    with seglog.open(path, SMALL) as writer:
        fill(writer, 12)
    with seglog.open(path, LogConfig(segment_bytes=512, retention=Retention(bytes=0))) as writer:
        there, first = process(path), path / writer.segments[0].name
        assert there("next(kept.setdefault('records', log.scan())).offset") == "0"
        assert writer.expire() == 2
        assert there("log.lowest_offset") == "10"
        writer.expire()
        assert first.exists()
        assert there("[record.offset for record in kept['records']]") == str(list(range(1, 12)))
        there("kept.clear()")
        assert there("log.lowest_offset") == "10"
        writer.expire()
        assert not first.exists()
        assert there(OFFSETS) == "[10, 11]"


def test_the_lease_of_a_reader_that_was_killed_holds_nothing(path: Path, process: Any) -> None:
    with seglog.open(path, SMALL) as writer:
        fill(writer, 12)
    with seglog.open(path, LogConfig(segment_bytes=512, retention=Retention(bytes=0))) as writer:
        there, first = process(path), path / writer.segments[0].name
        assert there("next(kept.setdefault('records', log.scan())).offset") == "0"
        writer.expire()
        assert first.exists()
        there.kill()
        assert len(list((path / "readers").iterdir())) == 1
        writer.expire()
        assert not first.exists()
        assert list((path / "readers").iterdir()) == []


def test_a_durable_reader_sees_what_was_synced(path: Path, process: Any) -> None:
    with seglog.open(path, SMALL) as writer:
        there = process(path, expose="durable")
        fill(writer, 3)
        assert there("log.next_offset") == "0"
        writer.sync()
        assert there("log.next_offset") == "3"
        fill(writer, 3)  # rolls, and a roll syncs the records before it
        assert there("log.next_offset") == str(writer.durable_offset) == "5"


def test_follow_waits_for_another_process(path: Path, process: Any) -> None:
    there = process(path, mode="a")
    with seglog.open(path, mode="r") as reader:
        records = reader.follow(0, timeout=HANG_SECONDS)
        for offset in range(5):
            assert there("log.append(b'v')") == str(offset)
            assert next(records).offset == offset


def test_a_second_writer_is_turned_away_at_once_wherever_it_is(path: Path, process: Any) -> None:
    there = process(path, mode="a")
    with pytest.raises(seglog.LogLocked, match="open for writing already") as caught:
        seglog.open(path)
    assert isinstance(caught.value, OSError)
    assert caught.value.retriable
    with pytest.raises(seglog.LogLocked):
        seglog.repair(path)
    assert there("log.append(b'v')") == "0"
    assert there("log.close()") == "None"
    with seglog.open(path) as log:
        assert log.next_offset == 1
        assert there("seglog.open(log.path)").startswith("LogLocked")


def test_two_writers_in_one_process(place: Any) -> None:
    with seglog.open(place) as first:
        with pytest.raises(seglog.LogLocked):
            seglog.open(place)
        first.append(b"v")
    with seglog.open(place) as second:
        assert second.next_offset == 1


def test_an_opening_that_failed_leaves_the_log_free(path: Path) -> None:
    seglog.open(path, LogConfig(initial_offset=5)).close()
    with pytest.raises(seglog.ConfigError):
        seglog.open(path, LogConfig(initial_offset=6))
    seglog.open(path).close()


def test_a_writer_nobody_holds_any_more_is_no_writer(path: Path) -> None:
    log = seglog.open(path)
    log.append(b"v")
    del log
    gc.collect()
    with seglog.open(path) as log:
        assert log.next_offset == 1


def test_kill_9_frees_the_log_and_loses_nothing_that_was_acknowledged(path: Path, process: Any) -> None:
    for round_ in range(3):
        there = process(path, mode="a")
        for offset in range(20 * round_, 20 * round_ + 20):
            assert there(f"log.append(b'{offset}')") == str(offset)
        there.kill()
    with seglog.open(path) as log:
        assert [record.value for record in log.scan()] == [b"%d" % offset for offset in range(60)]
        assert log.append(b"v") == 60


FORK = """
import os, sys, seglog
log = seglog.open(sys.argv[1], seglog.LogConfig(flush_interval=0.01, buffer_bytes=int(sys.argv[2])))
log.append(b"before")
child = os.fork()
if child == 0:
    try:
        for call in (lambda: log.append(b"child"), lambda: log.append_stream([b"child"]), lambda: log.truncate(0),
                     log.sync, log.expire):
            try:
                call()
                os._exit(1)
            except seglog.LogReadOnly as error:
                assert "fork" in str(error), error
        log.close()
        try:
            seglog.open(sys.argv[1])
            os._exit(2)
        except seglog.LogLocked:
            pass
        os._exit(0)
    except BaseException as error:
        print(repr(error), flush=True)
        os._exit(3)
_, status = os.waitpid(child, 0)
print(os.waitstatus_to_exitcode(status), log.append(b"after"), [record.value for record in log.scan()])
log.close()
with seglog.open(sys.argv[1]) as log:
    print([record.value for record in log.scan()])
"""


@pytest.mark.parametrize("buffer_bytes", [0, 10_000])
def test_a_forked_child_does_not_write_and_the_parent_goes_on(path: Path, script: Any, buffer_bytes: int) -> None:
    assert script(FORK, path, buffer_bytes).splitlines() == [
        "0 1 [b'before', b'after']",
        "[b'before', b'after']",
    ]
