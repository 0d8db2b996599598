"""Readers of another process beside a writer that crashes, undoes, or writes a batch, and beside damage."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.testing.internals import active_of, followed_of
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable


class Wrapped:
    """A file that calls `after` after every call of one method."""

    def __init__(self, file: Any, method: str, after: Callable[[], None]) -> None:
        self._file, self._method, self._after = file, method, after

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._file, name)
        if name != self._method:
            return found

        def call(*arguments: Any) -> Any:
            result = found(*arguments)
            self._after()
            return result

        return call


def test_a_reader_of_durable_records_goes_on_after_the_writer_crashed_and_opened_again(scene: Any) -> None:
    scene.fill([b"a"])
    with seglog.open(scene.path, mode="r", expose="durable") as reader:
        assert reader.next_offset == 1
        scene.fill_and_crash([], [b"b"])
        with seglog.open(scene.path) as log:
            for _ in range(3):
                log.append(b"c")
                log.sync()
            assert reader.next_offset == 5


def test_intact_durable_records_stay_readable_beside_a_damaged_last_one(scene: Any) -> None:
    values = [b"value %d" % number for number in range(10)]
    scene.fill(values)
    for number in (1, 9):
        scene.flip(scene.file(), scene.file().read_bytes().index(values[number]))
    with seglog.open(scene.path, mode="r") as reader:
        assert reader.next_offset == 10
        assert [reader.read(number).value for number in (0, *range(2, 9))] == [values[0], *values[2:9]]
        for number in (1, 9):
            with pytest.raises(seglog.CorruptRecord):
                reader.read(number)
        with seglog.open(scene.path) as log:
            for _ in range(5):
                log.append(b"new")
            log.sync()
            assert reader.next_offset == 15
            assert reader.read(14).value == b"new"
            assert reader.read(8).value == values[8]


@pytest.mark.parametrize("dense", [True, False])
def test_a_follower_sees_all_of_a_batch_or_nothing(scene: Any, dense: bool) -> None:
    """It takes the store's size in the middle of the batch, and goes on when all of it is written."""
    with seglog.open(scene.path) as log:
        log.append_at(0 if dense else 5, seglog.Record(0 if dense else 5, 1, None, b"first"))
        reader = seglog.open(scene.path, mode="r")
        first, active, follower = reader.next_offset, active_of(log), followed_of(reader)
        middle, go_on, writes = threading.Event(), threading.Event(), iter(range(1000))

        def pause() -> None:
            if next(writes) == 1:
                middle.set()
                go_on.wait(HANG_SECONDS)

        active._files.store = Wrapped(active._files.store, "pwrite", pause)
        writer = threading.Thread(target=lambda: log.append_batch(pa.table({"value": [b"y" * 100] * 50_000})))
        writer.start()
        assert middle.wait(HANG_SECONDS)

        def finish() -> None:
            go_on.set()
            writer.join()

        follower._store = Wrapped(follower._store, "size", finish)
        assert reader.next_offset in (first, first + 50_000)
        assert reader.next_offset == first + 50_000
        reader.close()


@pytest.mark.parametrize("dense", [True, False])
def test_a_follower_starts_over_where_what_it_saw_was_undone(scene: Any, dense: bool) -> None:
    with seglog.open(scene.path) as log:
        log.append_at(0 if dense else 5, seglog.Record(0 if dense else 5, 1, None, b"first"))
        first = log.next_offset
        with seglog.open(scene.path, mode="r") as reader:
            size = scene.file().stat().st_size
            log.append(b"undone" * 20)
            assert reader.next_offset == first + 1
            active = active_of(log)
            scene.cut(scene.file(), size)
            assert reader.next_offset == first
            active._written = active.reader.size = size  # as after a rollback
            active.next_offset = active.reader.next_offset = first
            if active._index.dense is not None:
                del active._index.dense.pending[-16:]
            for _ in range(5):
                log.append(b"new")
            assert reader.next_offset == first + 5
            assert [record.value for record in reader.scan()] == [b"first", *[b"new"] * 5]


def test_an_interrupt_of_the_last_write_keeps_the_record_and_stops_the_writer(scene: Any) -> None:
    log, reader = seglog.open(scene.path), seglog.open(scene.path, mode="r")

    def interrupt() -> None:
        raise KeyboardInterrupt

    active = active_of(log)
    active._files.store = Wrapped(active._files.store, "pwrite", interrupt)
    with pytest.raises(KeyboardInterrupt):
        log.append(b"seen")
    assert reader.next_offset == 1
    with pytest.raises(seglog.LogPoisoned):
        log.append(b"next")
    active._files.store = active._files.store._file
    log.close()
    reader.close()
    assert scene.values() == [b"seen"]


def test_an_interrupt_of_the_rollback_of_a_batch_stops_the_writer(scene: Any) -> None:
    log = seglog.open(scene.path)
    active, file = active_of(log), active_of(log)._files.store

    def interrupt() -> None:
        raise KeyboardInterrupt

    active._files.store = Wrapped(Wrapped(file, "pwrite", interrupt), "truncate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        log.append_batch(pa.table({"value": [b"a", b"b"]}))
    with pytest.raises(seglog.LogPoisoned):
        log.append(b"next")
    active._files.store = file
    log.close()


def test_an_interrupt_while_entries_are_hashed_stops_the_writer(scene: Any) -> None:
    log = seglog.open(scene.path)
    log.append(b"a")
    active = active_of(log)
    hasher = active.tally.digest

    class Interrupted:
        def update(self, data: bytes) -> None:
            hasher.update(data)
            raise KeyboardInterrupt

    active.tally.digest = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        log.sync()
    assert not active.settled
    active.tally.digest = hasher
    log.close()
