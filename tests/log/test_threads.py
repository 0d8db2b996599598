"""Many threads on one log: nothing lost, nothing twice, each thread's order kept; and one sync serves all who wait."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig
from tests.waiting import HANG_SECONDS

THREADS = 8
EACH = 200


def by_append(log: seglog.Log, thread: int) -> list[int]:
    return [log.append(b"%d" % number, key=b"%d" % thread) for number in range(EACH)]


def by_stream(log: seglog.Log, thread: int) -> list[int]:
    return [log.append_stream([b"%d" % number], key=b"%d" % thread) for number in range(EACH)]


def by_batch(log: seglog.Log, thread: int) -> list[int]:
    offsets: list[int] = []
    for first in range(0, EACH, 20):
        values = pa.array([b"%d" % number for number in range(first, first + 20)], pa.binary())
        offsets += log.append_batch(pa.table({"value": values, "key": pa.array([b"%d" % thread] * 20, pa.binary())}))
    return offsets


@pytest.mark.parametrize("config", [{}, {"buffer_bytes": 700}, {"flush_records": 50}, {"open_segments_max": 1}])
def test_eight_threads_append_and_four_read(place: Any, together: Any, config: Any) -> None:
    given: list[list[int]] = [[] for _ in range(THREADS)]
    done = threading.Event()

    def append(log: seglog.Log, thread: int) -> Any:
        way = (by_append, by_stream, by_batch, by_append)[thread % 4]
        return lambda: given[thread].extend(way(log, thread))

    def read(log: seglog.Log) -> None:
        while not done.is_set():
            records = list(log.scan())
            assert [record.offset for record in records] == list(range(len(records)))
            assert log.to_arrow().num_rows >= len(records)
            for record in records[:: max(len(records) // 20, 1)]:
                assert log.read(record.offset) == record

    with (
        seglog.open(place, LogConfig(segment_bytes=4096, **config)) as log,
        seglog.open(place, mode="r") as reader,
    ):
        readers = [threading.Thread(target=read, args=(one,), daemon=True) for one in (log, log, reader, reader)]
        failed: list[Any] = []
        hook, threading.excepthook = threading.excepthook, failed.append
        try:
            for one in readers:
                one.start()
            together(*(append(log, thread) for thread in range(THREADS)))
        finally:
            done.set()
            for one in readers:
                one.join()
            threading.excepthook = hook
        assert not failed, failed[0].exc_value
        assert sorted(offset for offsets in given for offset in offsets) == list(range(THREADS * EACH))
        assert all(offsets == sorted(offsets) for offsets in given)
        for thread, offsets in enumerate(given):
            assert [log.read(offset).value for offset in offsets] == [b"%d" % number for number in range(EACH)]
            assert all(log.read(offset).key == b"%d" % thread for offset in offsets)
    with seglog.open(place) as log:
        assert log.next_offset == THREADS * EACH
        assert log.verify().ok


def test_only_one_of_many_gets_the_offset_it_expects(place: Any, together: Any) -> None:
    won: list[int] = []
    lost: list[int] = []

    def append(log: seglog.Log, thread: int) -> Any:
        def call() -> None:
            for offset in range(50):
                try:
                    log.append(b"%d" % thread, expected_offset=offset)
                    won.append(offset)
                except seglog.OffsetConflict:
                    lost.append(offset)

        return call

    with seglog.open(place) as log:
        together(*(append(log, thread) for thread in range(THREADS)))
        assert log.next_offset == len(won) == len(set(won))
        assert len(won) + len(lost) == THREADS * 50


def test_cutting_while_others_append_and_read_leaves_whole_records_in_order(place: Any, together: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=1024, flush_records=3)) as log:

        def append() -> None:
            for number in range(150):
                log.append(b"%d" % number * 10)

        def cut() -> None:
            for _ in range(40):
                log.truncate(max(log.lowest_offset, log.next_offset * 2 // 3))

        def read() -> None:
            for _ in range(40):
                offsets = [record.offset for record in log.scan()]
                assert offsets == list(range(len(offsets)))

        together(append, append, append, cut, read)
        assert [record.offset for record in log.scan()] == list(range(log.next_offset))
        assert log.durable_offset <= log.next_offset
        assert log.verify().ok


# --- one sync for all who wait -----------------------------------------------------------------------------------


def test_threads_that_wait_for_the_medium_share_a_sync(watched: Any, until: Any) -> None:
    threads, go_on, syncs = 32, threading.Event(), []

    def sync(path: str) -> None:
        syncs.append(path)
        go_on.wait(HANG_SECONDS)

    with seglog.open(watched, LogConfig(flush_records=1)) as log:
        watched.on_sync = sync
        waiting = [threading.Thread(target=log.append, args=(b"v",), daemon=True) for _ in range(threads)]
        for thread in waiting:
            thread.start()
        until(lambda: log.next_offset == threads)  # the first sync still runs; appends continue
        assert log.durable_offset == 0
        assert all(thread.is_alive() for thread in waiting), "nobody is told before the medium has it"
        go_on.set()
        for thread in waiting:
            thread.join(HANG_SECONDS)
        assert log.durable_offset == threads
        assert len(syncs) <= 3
        log.sync()
        assert len(syncs) <= 3, "nothing is left to sync"


def test_without_holding_anything_up_there_are_fewer_syncs_than_appends(watched: Any, together: Any) -> None:
    syncs: list[str] = []
    with seglog.open(watched, LogConfig(flush_records=1)) as log:
        watched.on_sync = syncs.append
        together(*(lambda: [log.append(b"v") for _ in range(20)] for _ in range(32)))
        assert (log.next_offset, log.durable_offset) == (640, 640)
        assert len(syncs) < 640


def test_concurrent_syncs_are_one(watched: Any, together: Any, until: Any) -> None:
    go_on, syncs = threading.Event(), []

    def sync(path: str) -> None:
        syncs.append(path)
        go_on.wait(HANG_SECONDS)

    def let_go() -> None:
        until(lambda: syncs)
        go_on.set()

    with seglog.open(watched) as log:
        log.append(b"v")
        watched.on_sync = sync
        together(*[log.sync] * 15, let_go)
        assert len(syncs) == 1


def test_a_failed_sync_is_told_to_everybody_who_waited(watched: Any, until: Any) -> None:
    threads, go_on = 8, threading.Event()
    answers: list[Exception | int] = []

    def fail(path: str) -> None:
        go_on.wait(HANG_SECONDS)
        raise seglog.StorageError(5, "Input/output error", path)

    def append(log: seglog.Log) -> None:
        try:
            answers.append(log.append(b"v"))
        except Exception as error:  # noqa: BLE001 - looked at below
            answers.append(error)

    log = seglog.open(watched, LogConfig(flush_records=1))
    watched.on_sync = fail
    waiting = [threading.Thread(target=append, args=(log,), daemon=True) for _ in range(threads)]
    for thread in waiting:
        thread.start()
    until(lambda: log.next_offset == threads)
    go_on.set()
    for thread in waiting:
        thread.join(HANG_SECONDS)
    assert len(answers) == threads
    assert all(isinstance(answer, seglog.LogPoisoned) for answer in answers)
    with pytest.raises(seglog.LogPoisoned):
        log.append(b"v")
    assert list(log.scan()) == []
    log.close()
