"""Appends that wait in the buffer: they are counted, bounded, good for writing, and load no compiler."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow
import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.config import MAX_OFFSET
from seglog.log.appends.group import Draft
from seglog.testing.internals import active_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

MIB = 1024 * 1024

ONE_BY_ONE = """
import sys, seglog
with seglog.open(sys.argv[1], seglog.LogConfig(buffer_bytes=100_000)) as log:
    for number in range(5000):
        log.append(b"v" * 100, key=b"%d" % number, timestamp=number)
print("numba" in sys.modules, "numpy" in sys.modules)
"""

BATCH = """
import sys, pyarrow, seglog
from seglog.segment import write_buffer
write_buffer.encode_by_codec = None
with seglog.open(sys.argv[1], seglog.LogConfig(buffer_bytes=100_000)) as log:
    log.append_batch(pyarrow.table({"value": [b"v" * 100] * 5000, "timestamp": range(5000)}))
    for number in range(5000, 9000):
        log.append(b"v" * 100, timestamp=number)
print(seglog.verify(sys.argv[1]).ok)
with seglog.open(sys.argv[1], mode="r") as log:
    print(all(record == (n, n, None, b"v" * 100, ()) for n, record in enumerate(log.scan())), log.next_offset)
"""


def test_a_process_that_appends_one_by_one_loads_no_kernels(path: Path, script: Any) -> None:
    assert script(ONE_BY_ONE, path) == "False False\n"


def test_a_process_that_has_appended_a_batch_goes_on_with_the_kernels(path: Path, script: Any) -> None:
    assert script(BATCH, path) == "True\nTrue 9000\n"


@pytest.mark.parametrize("buffer_bytes", [0, 10_000])
def test_a_time_that_a_clock_should_not_give_is_refused_with_its_record_alone(buffer_bytes: int) -> None:
    storage, times = seglog.MemoryStorage(), iter([1, 2, 3.5, 2**63, 4])
    given = iter(())  # before the first append the clock is asked for other reasons

    def clock() -> Any:
        return next(given, 0)

    with seglog.open(storage, LogConfig(buffer_bytes=buffer_bytes), clock=clock) as log:
        given = times  # type: ignore[assignment] # a clock that goes wrong
        log.append(b"one")
        log.append(b"two")
        with pytest.raises(seglog.InvalidType):
            log.append(b"at a fraction of a microsecond")
        with pytest.raises(seglog.InvalidArgument):
            log.append(b"too late")
        given = iter([1.5, 1.5])  # type: ignore[assignment] # as above
        with pytest.raises(seglog.InvalidType):
            log.append_stream([b"streamed"])
        with pytest.raises(seglog.InvalidType):
            log.append_batch(pyarrow.table({"value": [b"in a batch"]}))
        given = times  # type: ignore[assignment] # as above
        log.append(b"three")
    with seglog.open(storage) as log:
        assert [(record.timestamp, record.value) for record in log.scan()] == [(1, b"one"), (2, b"two"), (4, b"three")]


def test_what_waits_is_counted_where_a_log_stands_with_compaction() -> None:
    config = LogConfig(buffer_bytes=10_000, segment_age=1.0, retention=Retention(compact=True))
    with seglog.open(seglog.MemoryStorage(), config, clock=lambda: 10**15) as log:
        log.append(b"v", key=b"k")
        waiting = log.standing()
        log.view()
        assert waiting == log.standing()
        assert waiting.next_at == 10**15 + 10**6


def test_no_more_than_a_mebibyte_waits_however_large_the_buffer_may_be(path: Path) -> None:
    with seglog.open(path, LogConfig(buffer_bytes=2**30)) as log:
        for number in range(30_000):
            log.append(b"v" * 68, timestamp=number)
            assert log.next_offset - active_of(log).reader.next_offset <= MIB // 100
        with seglog.open(path, mode="r") as reader:
            assert 30_000 - MIB // 100 <= reader.next_offset < 30_000


def test_a_roll_counts_what_waits(path: Path) -> None:
    config = LogConfig(segment_bytes=10_000, buffer_bytes=100_000)
    with (
        seglog.open(path, config) as written,
        seglog.open(seglog.MemoryStorage(), replace(config, buffer_bytes=0)) as one,
    ):
        for number in range(500):
            for log in (written, one):
                log.append(b"v" * (number % 200), timestamp=number)
        assert [info.records for info in written.segments] == [info.records for info in one.segments]
        assert [info.bytes for info in written.segments] == [info.bytes for info in one.segments]


@pytest.mark.parametrize("buffer_bytes", [0, 10_000])
def test_the_last_offset_is_the_last_that_waits(place: Any, buffer_bytes: int) -> None:
    last = MAX_OFFSET - 1
    with seglog.open(place, LogConfig(initial_offset=last - 299, buffer_bytes=buffer_bytes)) as log:
        assert [log.append(b"v" * 20) for _ in range(300)][-1] == last
        with pytest.raises(seglog.OffsetOutOfRange):
            log.append(b"one too many")
    with seglog.open(place, mode="r") as reader:
        assert (reader.next_offset, reader.read(last).value) == (MAX_OFFSET, b"v" * 20)


def test_retention_that_comes_to_ask_for_ages_is_asked_for_each_record(place: Any) -> None:
    now = [0]
    with seglog.open(place, LogConfig(buffer_bytes=10_000, segment_age=1.0), clock=lambda: now[0]) as log:
        log.append(b"one")
        now[0] = 2_000_000
        log.append(b"two")
        assert [info.records for info in log.segments] == [1, 1]
    with seglog.open(place, LogConfig(buffer_bytes=10_000), clock=lambda: now[0]) as log:
        log.append(b"three")
        log.alter(retention=Retention(age=1.0))
        now[0] += 500_000
        log.append(b"four")
        now[0] += 700_000
        assert log.expire() == 1  # and not what came half a second ago
        assert log.next_offset == 4


def test_a_clock_that_goes_wrong_breaks_no_roll(place: Any) -> None:
    now: list[Any] = [7]
    with seglog.open(place, LogConfig(segment_bytes=1000), clock=lambda: now[0]) as log:
        for _ in range(10):
            log.append(b"v" * 50)
        now[0] = 7.5
        with pytest.raises(seglog.InvalidType):
            for number in range(30):
                log.append(b"v" * 50, timestamp=number)
        now[0] = 8
        appended = log.append(b"goes on")
    with seglog.open(place, mode="r") as reader:
        assert reader.read(appended).value == b"goes on"
        assert len([*reader.scan()]) == appended + 1


def one_of_each(log: seglog.Log) -> None:
    """Append one record with those of others, of which there are none."""
    for outcome in log.append_each([Draft(b"v", timestamp=5)]):
        if isinstance(outcome, Exception):
            raise outcome


@pytest.mark.parametrize("buffer_bytes", [0, 10_000])
def test_what_is_in_is_acknowledged_though_the_clock_goes_wrong_behind_it(place: Any, buffer_bytes: int) -> None:
    asked = [0]
    table = pyarrow.table({"value": [b"v"], "timestamp": pyarrow.array([5], pyarrow.timestamp("us", "UTC"))})
    calls: list[Callable[[seglog.Log], object]] = [
        lambda log: log.append(b"v", timestamp=5),
        lambda log: log.append_stream([b"v"], timestamp=5),
        one_of_each,
        lambda log: log.append_batch(table),
    ]

    def clock() -> Any:
        asked[0] -= 1
        return 10**15 if asked[0] >= 0 else 0.5

    asked[0] = 1000
    with seglog.open(place, LogConfig(segment_age=60, buffer_bytes=buffer_bytes), clock=clock) as log:
        for call in calls:
            for times in range(5):
                before, asked[0] = log.next_offset, times
                try:
                    call(log)
                except seglog.InvalidType as error:
                    assert "the clock's time" in str(error)
                    assert log.next_offset == before
                else:
                    assert log.next_offset == before + 1
        asked[0] = 1000
        assert log.failure is None
        assert log.next_offset > 3 * len(calls)
