"""Work prepared ahead: in order, errors at their position, no buffer used twice, nothing left over."""

from __future__ import annotations

import threading
from functools import partial
from itertools import count, islice, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from seglog.compaction.window_reader import WINDOW_BYTES, KeyReader, SourceReader
from seglog.kernels.fingerprint import fingerprint
from seglog.parallel.ahead import ROOMS, Ahead
from seglog.testing.internals import storage_of
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SEED = (3, 2**63 + 1)


@pytest.fixture
def ahead() -> Any:
    with Ahead() as ahead:
        yield ahead


def failing(at: int, number: int) -> int:
    if number == at:
        raise ValueError(number)
    return number


def test_results_come_in_order_whoever_made_them(ahead: Ahead) -> None:
    assert list(ahead.each(partial(failing, -1, number) for number in range(1000))) == list(range(1000))
    assert list(ahead.steps(iter(range(1000)))) == list(range(1000))


@pytest.mark.parametrize("at", [0, 1, ROOMS - 1, ROOMS, 50])
def test_an_error_comes_after_all_that_was_before_it(ahead: Ahead, at: int) -> None:
    for made in (
        ahead.each(partial(failing, at, number) for number in count()),
        ahead.steps(failing(at, number) for number in count()),
    ):
        assert list(islice(made, at)) == list(range(at))
        with pytest.raises(ValueError, match=str(at)):
            next(made)


def test_no_more_is_under_way_than_there_are_rooms(ahead: Ahead) -> None:
    begun: list[int] = []
    for made in (
        ahead.each(partial(lambda number: begun.append(number) or number, number) for number in range(200)),  # type: ignore[func-returns-value] # notes it and returns the number
        ahead.steps(begun.append(number) or number for number in range(200)),  # type: ignore[func-returns-value] # as above
    ):
        begun.clear()
        ahead_of = [max(begun) - number for number in made]
        assert len(ahead_of) == 200
        assert max(ahead_of) < ROOMS


def test_who_waits_for_a_step_makes_calls_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.parallel.ahead.THREADS", 1)
    called = threading.Event()

    def steps() -> Iterator[bool]:
        yield True
        yield called.wait(HANG_SECONDS)  # occupies the only thread: the consumer of the step has to make the call

    with Ahead() as ahead:
        results = ahead.each(partial(lambda made: called.set() or made, made) for made in ahead.steps(steps()))  # type: ignore[func-returns-value] # sets it and returns what was made
        assert list(results) == [True, True]


def test_nothing_is_under_way_once_nobody_takes_any_more(ahead: Ahead) -> None:
    running = threading.Semaphore(0)

    def call() -> None:
        running.release()

    for made in (ahead.each(call for _ in count()), ahead.steps(iter(lambda: call() or 1, 0))):  # type: ignore[func-returns-value] # 1 without end
        next(made)
        made.close()  # type: ignore[attr-defined] # a generator
        while running.acquire(blocking=False):
            pass
        assert not running.acquire(timeout=0.05)


def test_long_records_leave_the_keys_alone_that_are_still_in_use(shop: Any) -> None:
    """A record that passes its window is read twice: both must not take a room."""
    keys = [b"%d" % number for number in range(2 * ROOMS)]
    with shop.open(segment_bytes=2**26) as log:
        for key in keys:
            log.append(b"x" * (WINDOW_BYTES + 1), key=key)
        shop.put(log, "|")
        source = SourceReader(storage_of(log), log.view().manifest.segments[0])
        held = list(islice(KeyReader(SEED).runs(source), ROOMS))
        assert len(held) == ROOMS
        for number, (stretch, found, _) in enumerate(held):
            words = fingerprint(np.frombuffer(keys[number], np.uint8), *map(np.uint64, SEED))
            assert found.fingerprints.tolist() == [[int(word) for word in words]]
            assert (stretch.number, stretch.expected, found.offsets.tolist()) == (number, number, [number])


def test_a_full_output_hands_on_what_was_copied_ahead_for_it(shop: Any) -> None:
    """Small records die and long ones live, so that far more is copied than their numbers let expect."""
    with shop.open(segment_bytes=2**22) as log:
        for segment in range(2):
            for _ in range(1000):
                log.append(b"", key=b"small")
            for number in range(60):
                log.append(b"%d" % number * 30_000, key=b"%d of %d" % (number, segment))
            shop.put(log, "|")
        expected = [record for record in log.scan() if record.key != b"small"]
        last = [record for record in log.scan() if record.key == b"small"][-1]
        report = log.compact()
        assert (report.rewritten, report.segments_after) == (2, 2)
        assert list(log.scan()) == sorted([*expected, last], key=lambda record: record.offset)
        assert log.verify().ok
        assert shop.content(log)


def test_what_is_copied_early_does_not_move_where_reading_goes_on(shop: Any) -> None:
    """A window that was handed on is moved by another thread while the next one is read."""
    with shop.open(segment_bytes=2**26) as log:
        for number in range(6000):
            log.append(b"x" * 1500, key=b"%d" % number)
        shop.put(log, "|")
        source = SourceReader(storage_of(log), log.view().manifest.segments[0])
        rows, stretches = 0, []
        for stretch, keys, window in KeyReader(SEED).runs(source):
            window.rewind(stretch)
            window.expected = 0
            rows += keys.kinds.size
            stretches.append(stretch)
        assert rows == 6000
        assert len(stretches) > 3
        assert all(earlier.end == later.position for earlier, later in pairwise(stretches))
