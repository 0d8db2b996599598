"""When records are synced: after a number of records, after a time, on request, and at close."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig
from seglog.log.durability import IntervalSync
from seglog.testing.internals import syncer_of
from tests.waiting import HANG_SECONDS


@pytest.fixture
def syncs(watched: Any) -> list[str]:
    """The paths of the files that were synced, once a test has asked for it by `watched`."""
    seen: list[str] = []
    watched.on_sync = seen.append
    return seen


def stores(syncs: list[str]) -> int:
    return sum(path.endswith(".store") for path in syncs)


def test_without_a_policy_nothing_is_synced_until_asked(watched: Any, syncs: list[str]) -> None:
    with seglog.open(watched) as log:
        syncs.clear()
        for _ in range(1000):
            log.append(b"v")
        assert (log.durable_offset, syncs) == (0, [])
        log.sync()
        assert (log.durable_offset, stores(syncs)) == (1000, 1)


def test_after_so_many_records(watched: Any, syncs: list[str]) -> None:
    with seglog.open(watched, LogConfig(flush_records=3)) as log:
        syncs.clear()
        durable = []
        for _ in range(10):
            log.append(b"v")
            durable.append(log.durable_offset)
        assert durable == [0, 0, 3, 3, 3, 6, 6, 6, 9, 9]
        assert stores(syncs) == 3


@pytest.mark.parametrize("buffer_bytes", [0, 10_000])
def test_every_record_of_any_kind_under_flush_records_1(watched: Any, syncs: list[str], buffer_bytes: int) -> None:
    with seglog.open(watched, LogConfig(flush_records=1, buffer_bytes=buffer_bytes)) as log:
        syncs.clear()
        calls: list[Any] = [
            lambda: log.append(b"v"),
            lambda: log.append_stream([b"v"]),
            lambda: log.append_batch(pa.table({"value": pa.array([b"v"] * 50, pa.binary())})),
            lambda: log.append_at(log.next_offset, seglog.Record(0, 0, None, b"v")),
        ]
        for number, call in enumerate(calls, 1):
            call()
            assert log.durable_offset == log.next_offset
            assert stores(syncs) == number
        assert log.next_offset == 53


def test_after_so_long(place: Any, until: Any) -> None:
    with seglog.open(place, LogConfig(flush_interval=0.005)) as log:
        for count in (1, 2, 3):
            log.append(b"v")
            until(lambda count=count: log.durable_offset == count)


def test_the_interval_leaves_a_quiet_log_alone(watched: Any, syncs: list[str], until: Any) -> None:
    with seglog.open(watched, LogConfig(flush_interval=3600)) as opened:
        log: Any = opened
        log.append(b"v")
        syncer_of(log).sync_quietly()  # what the thread calls at the end of every interval
        assert log.durable_offset == 1
        syncs.clear()
        syncer_of(log).sync_quietly()
        assert syncs == []


def test_the_interval_thread_ends_with_the_log(place: Any, until: Any) -> None:
    def flushers() -> list[str]:
        return [thread.name for thread in threading.enumerate() if thread.name == "seglog-flush"]

    log = seglog.open(place, LogConfig(flush_interval=3600))
    assert flushers() == ["seglog-flush"]
    log.close()
    until(lambda: flushers() == [])


def test_a_close_does_not_need_a_join_which_signals_may_leave_locked(place: Any, monkeypatch: Any) -> None:
    def join(thread: Any, timeout: Any = None) -> None:
        raise AssertionError(f"{thread.name} was joined")

    monkeypatch.setattr(threading.Thread, "join", join)
    seglog.open(place, LogConfig(flush_interval=0.001)).close()


def test_every_caller_of_a_stop_returns_once_the_last_sync_has_ended() -> None:
    class Slow:
        def __init__(self) -> None:
            self.begun, self.may_end = threading.Event(), threading.Event()

        def sync(self) -> None:
            self.begun.set()
            assert self.may_end.wait(HANG_SECONDS)

    slow = Slow()
    interval = IntervalSync(0.001, slow.sync)
    assert slow.begun.wait(HANG_SECONDS)
    callers = [threading.Thread(target=interval.stop) for _ in range(3)]
    for caller in callers:
        caller.start()
    assert all(caller.is_alive() for caller in callers)
    slow.may_end.set()
    for caller in callers:
        caller.join(HANG_SECONDS)
    assert not any(caller.is_alive() for caller in callers)


def test_the_interval_goes_on_after_the_medium_had_no_space(watched: Any, until: Any) -> None:
    refused: list[str] = []

    def no_space(path: str) -> None:
        if path.endswith(".store"):
            refused.append(path)
            raise seglog.StorageError(28, "No space left on device", path)

    with seglog.open(watched, LogConfig(flush_interval=0.002, buffer_bytes=10_000)) as log:
        watched.on_write, free = no_space, watched.on_write
        log.append(b"v")
        until(lambda: len(refused) > 2)
        assert log.durable_offset == 0
        watched.on_write = free
        until(lambda: log.durable_offset == 1)
    with seglog.open(watched, mode="r") as log:
        assert [record.value for record in log.scan()] == [b"v"]


def test_a_roll_puts_what_stood_before_it_on_the_medium(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        for _ in range(6):
            log.append(b"v" * 57)
        assert (log.next_offset, log.durable_offset) == (6, 5)


def test_close_syncs_once_and_leaves_nothing_open(watched: Any, syncs: list[str]) -> None:
    log = seglog.open(watched)
    log.append(b"v")
    syncs.clear()
    log.close()
    assert stores(syncs) == 1
    log.close()
    assert stores(syncs) == 1


def test_a_log_that_was_closed_is_durable_when_opened(place: Any) -> None:
    with seglog.open(place) as log:
        log.append(b"v")
    with seglog.open(place, mode="r", expose="durable") as log:
        assert log.next_offset == 1
    with seglog.open(place) as log:
        assert log.durable_offset == 1


def test_leaving_a_context_by_an_error_closes_the_log_and_keeps_the_error(place: Any) -> None:
    with pytest.raises(KeyError, match="mine"), seglog.open(place) as log:
        log.append(b"v")
        raise KeyError("mine")
    with pytest.raises(seglog.LogClosed):
        log.append(b"v")
    with seglog.open(place) as log:
        assert log.next_offset == 1


def test_a_reader_is_a_context_too(place: Any) -> None:
    with seglog.open(place) as log:
        log.append(b"v")
    with seglog.open(place, mode="r") as reader:
        assert reader.next_offset == 1
    with pytest.raises(seglog.LogClosed):
        reader.read(0)
