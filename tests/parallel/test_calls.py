"""Calls made ahead: each is made once and its result comes in its place, whether or not there are threads."""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from seglog.parallel.calls import Calls
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give a pool of one thread."""
    with ThreadPoolExecutor(1) as pool:
        yield pool


def launched(pool: ThreadPoolExecutor, made: list[int], count: int = 5) -> Calls:
    """Launch calls, each of which notes its number and returns it."""

    def call(number: int) -> int:
        made.append(number)
        return number

    calls = Calls(pool)
    for number in range(count):
        calls.launch(partial(call, number))
    return calls


def taken(calls: Calls) -> list[int]:
    """Take all that is under way."""
    return [calls.take() for _ in range(len(calls))]


def test_results_come_in_order(pool: ThreadPoolExecutor) -> None:
    made: list[int] = []
    assert taken(launched(pool, made)) == [0, 1, 2, 3, 4]
    assert sorted(made) == [0, 1, 2, 3, 4]


def test_without_threads_whoever_takes_a_result_makes_the_call(pool: ThreadPoolExecutor) -> None:
    pool.shutdown()
    made: list[int] = []
    assert taken(launched(pool, made)) == made == [0, 1, 2, 3, 4]


def test_a_call_that_stands_in_line_for_a_thread_that_could_not_start_is_made_once(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as limited:
        limited.setattr(pool, "_adjust_thread_count", refuse)  # the pool has put the call in line by then
        made: list[int] = []
        calls = launched(pool, made)
    results = taken(calls)
    pool.submit(int).result()  # the thread has run everything queued before this
    assert results == made == [0, 1, 2, 3, 4]


def test_an_error_comes_in_its_place(pool: ThreadPoolExecutor) -> None:
    held, calls = threading.Event(), Calls(pool)
    steps: list[Callable[[], object]] = [held.wait, partial(int, "1"), partial(int, "one"), partial(int, "2")]
    for step in steps:
        calls.launch(step)
    held.set()
    assert calls.take() is True
    assert calls.take() == 1
    with pytest.raises(ValueError, match="one"):
        calls.take()
    assert calls.take() == 2


def test_an_interrupt_leaves_nothing_to_wait_for(pool: ThreadPoolExecutor) -> None:
    pool.shutdown()
    calls = Calls(pool)

    def interrupted() -> None:
        raise KeyboardInterrupt

    calls.launch(interrupted)
    with pytest.raises(KeyboardInterrupt):
        calls.take()
    calls.finish()
    assert not calls


def test_an_interrupt_behind_a_result_is_told_as_what_it_is(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool.shutdown()
    calls, set_result = launched(pool, []), Future.set_result

    def interrupted(future: Future[int], result: int) -> None:
        set_result(future, result)
        raise KeyboardInterrupt

    monkeypatch.setattr(Future, "set_result", interrupted)
    with pytest.raises(KeyboardInterrupt):
        calls.take()
    calls.finish()


class Large:
    """A result that takes much memory."""


def result_of(calls: Calls, *, by_the_thread: bool) -> weakref.ref[Large]:
    """Launch a call that returns what it alone has, take its result, and let go of it."""
    large = Large()
    found = weakref.ref(large)
    calls.launch(partial(next, iter([large])))
    del large
    if by_the_thread:
        until(calls._calls[0].future.done)
    assert calls.take() is found()
    return found


def test_a_call_that_stands_in_line_keeps_nothing_once_another_thread_has_made_it(pool: ThreadPoolExecutor) -> None:
    busy = threading.Event()
    pool.submit(busy.wait)
    try:
        assert result_of(Calls(pool), by_the_thread=False)() is None
    finally:
        busy.set()


def test_a_thread_that_is_late_to_go_on_keeps_no_result_that_was_taken(
    pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, set_result = threading.Event(), Future.set_result

    def late(future: Future[Any], result: Any) -> None:
        set_result(future, result)
        go_on.wait()

    monkeypatch.setattr(Future, "set_result", late)
    try:
        assert result_of(Calls(pool), by_the_thread=True)() is None
    finally:
        go_on.set()
