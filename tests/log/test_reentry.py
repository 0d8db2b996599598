"""A signal handler, a callback or an iterable calls the log in the middle of a call: nothing is lost, nothing hangs."""

from __future__ import annotations

import random
import signal
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.log.appends.group import Draft
from tests.deadlocks import in_time
from tests.log.moments import at_moments
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

CONFIGS = {
    "buffered": LogConfig(buffer_bytes=200, segment_bytes=600),
    "plain": LogConfig(segment_bytes=512),
    "flushed": LogConfig(flush_records=2, segment_bytes=512),
}
MODULES = (
    "writer.py",
    "writer_state.py",
    "syncer.py",
    "appends/stream.py",
    "appends/batch.py",
    "durability.py",
    "active.py",
    "active_index.py",
    "live_segments.py",
    "appends/group.py",
    "catalog.py",
)


class Ledger:
    """A log, and what it acknowledged: offset -> value."""

    def __init__(self, config: LogConfig) -> None:
        self.storage = seglog.MemoryStorage()
        self.log = seglog.open(self.storage, config)
        self.acknowledged: dict[int, bytes] = {}
        self.refused = 0
        for number in range(3):
            self.append(b"before %d" % number)
        self.log.sync()

    def append(self, value: bytes) -> None:
        self.note(self.log.append(value), value)

    def note(self, offset: int, value: bytes) -> None:
        assert offset not in self.acknowledged, f"offset {offset} was given twice"
        self.acknowledged[offset] = value

    def work(self) -> None:
        """Let the buffer run over, a segment roll, and several records be appended together."""
        for number in range(6):
            self.append(b"work %d" % number * 5)
        each = [b"each %d" % number for number in range(3)]
        for offset, value in zip(self.log.append_each([Draft(value) for value in each]), each, strict=True):
            assert isinstance(offset, int)
            self.note(offset, value)
        self.log.sync()

    def call_all(self) -> None:
        """Call the log as a handler does that knows nothing of what it interrupts."""
        changes: list[Callable[[], Any]] = [
            lambda: self.append(b"handled"),
            self.log.sync,
            self.log.expire,
            lambda: self.log.append_each([]),
            lambda: self.log.truncate(self.log.next_offset),
        ]
        for change in changes:
            try:
                change()
            except seglog.ReentrantCall:
                self.refused += 1
        assert self.log.read(0).value == b"before 0"
        assert len(list(self.log.scan())) <= self.log.next_offset
        assert self.log.segments
        assert self.log.durable_offset <= self.log.next_offset

    def content(self) -> dict[int, bytes | None]:
        with seglog.open(self.storage) as log:
            assert not log.recovery.events
            assert log.verify().ok
            return {record.offset: record.value for record in log.scan()}


@pytest.mark.parametrize("config", CONFIGS)
def test_a_handler_that_calls_the_log_at_any_moment_of_a_change_destroys_nothing(config: str) -> None:
    refused = 0

    def story() -> None:
        nonlocal refused
        moment, moments = 1, 1
        while moment <= moments:
            ledger = Ledger(CONFIGS[config])
            moments = at_moments(ledger.work, {moment, moment + 40}, MODULES, ledger.call_all)
            assert ledger.log.failure is None, f"at moment {moment}"
            ledger.log.close()
            assert ledger.content() == ledger.acknowledged, f"at moment {moment}"
            refused += ledger.refused
            moment += 5

    in_time(story)
    assert refused, "no handler came in the middle of a change"


@pytest.mark.parametrize("config", CONFIGS)
def test_a_handler_that_closes_and_exits_at_any_moment_loses_nothing(config: str) -> None:
    def story() -> None:
        moment, ended = 1, True
        while ended:
            ledger, ended = Ledger(CONFIGS[config]), False

            def handle(ledger: Ledger = ledger) -> None:
                ledger.log.close()
                raise SystemExit

            try:
                at_moments(ledger.work, {moment}, MODULES, handle, raises=True)
            except SystemExit:
                ended = True
            ledger.log.close()
            with pytest.raises(seglog.LogClosed):
                ledger.log.append(b"late")
            kept = ledger.content()
            assert kept.items() >= ledger.acknowledged.items(), f"at moment {moment}"
            assert list(kept) == list(range(len(kept)))
            assert len(kept) <= len(ledger.acknowledged) + 3, f"at moment {moment}"  # at most what was under way
            moment += 5
        assert moment > 100, "nothing was interrupted at all"

    in_time(story)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_handler_that_only_closes_lets_the_interrupted_call_end(config: str) -> None:
    def story() -> None:
        last = at_moments(Ledger(CONFIGS[config]).work, (), MODULES, lambda: None)
        assert last > 100
        for moment in range(1, last, 5):
            ledger = Ledger(CONFIGS[config])
            with suppress(seglog.LogClosed):  # the next call
                at_moments(ledger.work, {moment}, MODULES, ledger.log.close)
            with pytest.raises(seglog.LogClosed):
                ledger.log.append(b"late")
            kept = ledger.content()
            assert kept.items() >= ledger.acknowledged.items(), f"at moment {moment}"
            assert len(kept) <= len(ledger.acknowledged) + 3

    in_time(story)


@pytest.mark.parametrize("buffer_bytes", [0, 4096])
def test_a_signal_handler_that_reads_while_the_main_thread_appends(path: Any, buffer_bytes: int) -> None:
    log = seglog.open(path, LogConfig(buffer_bytes=buffer_bytes, segment_bytes=20_000))
    acknowledged: dict[int, bytes] = {}
    handled = 0

    def handle(*_: object) -> None:
        nonlocal handled
        handled += 1
        if acknowledged:
            offset = random.choice(list(acknowledged)) if handled % 4 == 0 else 0
            try:
                assert log.read(offset).value == acknowledged[offset]
            except seglog.ReentrantCall:  # it waits in the buffer of the append that was interrupted
                assert buffer_bytes

    old = signal.signal(signal.SIGALRM, handle)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    try:
        end = time.monotonic() + HANG_SECONDS
        while handled < 200 and time.monotonic() < end:
            value = b"%d" % len(acknowledged)
            offset = log.append(value)
            assert offset not in acknowledged
            acknowledged[offset] = value
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, old)
    assert handled >= 50
    assert log.failure is None
    log.close()
    with seglog.open(path) as log:
        assert {record.offset: record.value for record in log.scan()} == acknowledged


def test_a_clock_that_appends_is_refused_and_loses_nothing(place: Any) -> None:
    inner = False

    def clock() -> int:
        nonlocal inner
        if log is not None and not inner and log.next_offset > 2:
            inner = True
            try:
                log.append(b"inner", timestamp=1)
            finally:
                inner = False
        return 1_000_000

    log: seglog.Log | None = None
    log = seglog.open(place, LogConfig(segment_bytes=512, segment_age=1e6, retention=Retention(age=1e6)), clock=clock)
    for number in range(3):
        log.append(b"%d" % number, timestamp=1)
    for value in (b"small", b"x" * 500):  # the second one rolls
        with pytest.raises(seglog.ReentrantCall):
            log.append(value, timestamp=1)
    with pytest.raises(seglog.ReentrantCall):
        log.truncate(1)
    assert log.failure is None
    values = [record.value for record in log.scan()]
    assert values[:3] == [b"0", b"1", b"2"]
    assert b"inner" not in values
    assert b"small" not in values
    log.close()


def test_chunks_that_close_the_log_store_nothing(place: Any) -> None:
    log = seglog.open(place)
    log.append(b"before")

    def chunks(*, last: bool) -> Iterator[bytes]:
        yield b"a"
        log.close()
        if not last:
            yield b"b"

    for last in (False, True):
        with pytest.raises(seglog.LogClosed):
            log.append_stream(chunks(last=last))
        with pytest.raises(seglog.LogClosed):
            log.read(0)
        log = seglog.open(place)
        assert [record.value for record in log.scan()] == [b"before"]
    log.close()


def test_headers_and_drafts_that_append_come_before_the_record_they_belong_to(place: Any) -> None:
    with seglog.open(place, LogConfig(buffer_bytes=1000)) as log:

        def headers() -> Iterator[tuple[str, bytes]]:
            log.append(b"by headers")
            yield "a", b"b"

        log.append(b"outer", headers=headers())
        log.append_stream([b"streamed"], headers=headers())
        assert log.append_each([Draft(b"each", headers=headers())]) == [5]
        values = [record.value for record in log.scan()]
        assert values == [b"by headers", b"outer", b"by headers", b"streamed", b"by headers", b"each"]


def test_a_number_that_appends_when_it_is_asked_is_refused(place: Any) -> None:
    with seglog.open(place, LogConfig(buffer_bytes=1000)) as log:

        class Number:
            def __index__(self) -> int:
                return log.append(b"inner")

        with pytest.raises(seglog.ReentrantCall):
            log.append(b"outer", expected_offset=Number())  # type: ignore[arg-type] # it has __index__
        assert log.append(b"after") == 0


def test_callbacks_of_repair_and_compaction_may_read_and_close(place: Any) -> None:
    log = seglog.open(place, LogConfig(segment_bytes=512, retention=Retention(compact=True)))
    for number in range(40):
        log.append(b"v" * 50, key=b"%d" % (number % 3))

    def change(*_: object) -> None:
        assert log.read(0).offset == 0
        log.append(b"v", key=b"k")

    with pytest.raises(seglog.ReentrantCall):
        log.repair(progress=change)
    assert log.failure is None
    with pytest.raises(seglog.LogClosed):
        log.compact(progress=lambda *_: log.close())
    log = seglog.open(place)
    log.repair(progress=lambda *_: log.close())
    with pytest.raises(seglog.LogClosed):
        log.append(b"v", key=b"k")
    with seglog.open(place) as log:
        assert len(list(log.scan())) == 40
        assert log.verify().ok


def test_a_storage_that_calls_the_log_while_it_writes_is_refused(watched: Any) -> None:
    log = seglog.open(watched, LogConfig(segment_bytes=4096))
    log.append(b"0")
    hooks: list[Callable[[], Any]] = [lambda: log.append(b"inner"), log.sync, lambda: log.truncate(0)]
    for number, hook in enumerate(hooks, 1):
        watched.on_write = lambda _, hook=hook: hook()
        with pytest.raises(seglog.ReentrantCall):
            log.append(b"refused")
        watched.on_write = lambda _: None
        assert log.append(b"%d" % number) == number
    watched.on_sync = lambda _: log.append(b"inner") and None
    with pytest.raises(seglog.ReentrantCall):
        log.sync()
    watched.on_sync = lambda _: None
    log.sync()
    assert [record.value for record in log.scan()] == [b"0", b"1", b"2", b"3"]
    log.close()


def test_an_arrow_batch_beside_a_handler_that_reads_one(place: Any) -> None:
    table = pa.table({"value": pa.array([b"v"] * 10, pa.binary())})
    with seglog.open(place) as log:
        log.append_batch(table)
        at_moments(lambda: log.append_batch(table), range(1, 200, 9), MODULES, lambda: len(log.to_arrow()))
        assert log.next_offset == 20
        assert log.verify().ok
