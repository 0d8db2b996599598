"""A thread that waits for a sync is woken even if threads queued before it were interrupted or failed."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from seglog.errors import LogPoisoned
from seglog.log import durability
from seglog.log.durability import Durability

THREADS = 24


@pytest.fixture(autouse=True)
def _nobody_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lost waking would hang a test instead of costing a second."""
    monkeypatch.setattr(durability, "LOOK_AGAIN_SECONDS", 3600.0)


class Medium:
    """Counts what was written and how often it was synced; `hold` keeps syncs from ending.

    file: a real one to sync, meanwhile other threads run.
    """

    def __init__(self, file: Any = None) -> None:
        self._file = file
        self.written = 0
        self.syncs = 0
        self.hold = threading.Event()
        self.hold.set()
        self.began = threading.Event()
        self.error: BaseException | None = None
        self._guard = threading.Lock()

    def append(self) -> int:
        with self._guard:
            self.written += 1
            return self.written

    def sync(self) -> int:
        reached = self.written
        self.syncs += 1
        self.began.set()
        self.hold.wait()
        if self._file is not None:
            os.fdatasync(self._file.fileno())
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        return reached


def started(count: int, work: Callable[[], None]) -> list[threading.Thread]:
    threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
    for thread in threads:
        thread.start()
    return threads


def in_line(durable: Durability, medium: Medium, work: Callable[[], None], until: Any) -> list[threading.Thread]:
    """Start a leading thread whose sync is held up, and others that queue behind it; return all of them."""
    medium.hold.clear()
    leader = started(1, work)
    medium.began.wait()
    others = started(THREADS, work)
    until(lambda: len(durable._waiting) == THREADS)
    return leader + others


def test_thousands_of_waits_of_many_threads_all_end(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb") as file:
        durable, medium = Durability(0), Medium(file)

        def work() -> None:
            for _ in range(200):
                end = medium.append()
                durable.wait(end, medium.sync)
                assert durable.durable_offset >= end

        for thread in started(THREADS, work):
            thread.join()
    assert durable.durable_offset == medium.written == THREADS * 200
    assert medium.syncs < medium.written
    assert (durable._leader, durable._waiting, list(durable._chain)) == (None, [], [])


def test_a_leader_who_is_interrupted_leaves_the_lead_to_the_next(until: Any) -> None:
    durable, medium = Durability(0), Medium()
    ends: list[BaseException | None] = []

    def work() -> None:
        try:
            durable.wait(medium.append(), medium.sync)
            ends.append(None)
        except KeyboardInterrupt as error:
            ends.append(error)

    threads = in_line(durable, medium, work, until)
    medium.error = KeyboardInterrupt()
    medium.hold.set()
    for thread in threads:
        thread.join()
    assert sorted(end is None for end in ends) == [False] + [True] * THREADS


def test_one_who_is_interrupted_in_line_does_not_keep_the_others_waiting(
    until: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    durable, medium = Durability(0), Medium()
    ends: list[bool] = []
    sleep, unlucky = durability._Waiter.sleep, iter([False, True, False, True])

    def interrupted(waiter: Any) -> None:
        sleep(waiter)
        if next(unlucky, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(durability._Waiter, "sleep", interrupted)

    def work() -> None:
        try:
            durable.wait(medium.append(), medium.sync)
            ends.append(True)
        except KeyboardInterrupt:
            ends.append(False)

    threads = in_line(durable, medium, work, until)
    medium.hold.set()
    for thread in threads:
        thread.join()
    assert (ends.count(False), ends.count(True)) == (2, THREADS - 1)


def test_a_failure_is_told_to_all_who_wait_and_to_nobody_whose_records_are_safe(until: Any) -> None:
    durable, medium = Durability(0), Medium()
    told: list[BaseException] = []
    poison = LogPoisoned(errno.EIO, "the medium failed", "log")

    def failing() -> int:
        medium.sync()
        durable.fail(poison)
        raise poison

    def work() -> None:
        try:
            durable.wait(medium.append(), failing)
        except LogPoisoned as error:
            told.append(error)

    threads = in_line(durable, medium, work, until)
    durable.advance(1)
    medium.hold.set()
    for thread in threads:
        thread.join()
    assert len(told) == THREADS + 1, "the leader is told although its record is safe: its own sync has failed"
    durable.wait(1, failing)


def test_those_whose_records_somebody_else_made_safe_need_not_wait_for_the_leader(until: Any) -> None:
    durable, medium = Durability(0), Medium()
    leader, *others = in_line(durable, medium, lambda: durable.wait(medium.append(), medium.sync), until)
    durable.advance(THREADS + 1)
    for thread in others:
        thread.join()
    assert medium.syncs == 1
    medium.hold.set()
    leader.join()


def test_who_leads_next_is_woken_behind_those_who_are_done(until: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that they have appended again by the time it syncs."""
    durable, medium = Durability(0), Medium()
    woken: list[int] = []
    wake, reached = durability._Waiter.wake, iter([12])

    def noted(waiter: Any) -> None:
        woken.append(waiter.next_offset)
        wake(waiter)

    def sync() -> int:
        medium.sync()
        return next(reached, THREADS + 1)

    monkeypatch.setattr(durability._Waiter, "wake", noted)
    threads = in_line(durable, medium, lambda: durable.wait(medium.append(), sync), until)
    medium.hold.set()
    for thread in threads:
        thread.join()
    assert sorted(woken[:11]) == list(range(2, 13))
    assert woken[11] > 12
    assert sorted(woken) == list(range(2, THREADS + 2)), "each once"
