"""A sync that fails, a removal that fails: nothing is acknowledged after it."""

from __future__ import annotations

import errno
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig
from seglog.log.appends.group import Draft
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def refuse(path: str) -> None:
    raise seglog.StorageError(errno.EIO, "refused", path)


def test_a_group_whose_sync_failed_is_not_acknowledged(watched: Any) -> None:
    log = seglog.open(watched, LogConfig(flush_records=1))
    log.append(b"durable")
    watched.on_sync = refuse
    with pytest.raises(seglog.LogPoisoned):
        log.append_each([Draft(b"lost"), Draft(b"lost, too")])
    assert log.durable_offset == log.next_offset == 1
    log.close()


def test_a_failure_that_the_system_tells_one_caller_alone_is_told_to_the_other_too(
    watched: Any, until: Any, is_held: Any
) -> None:
    log = seglog.open(watched, LogConfig(segment_bytes=4096))
    log.append(b"synced by one thread")
    entered, go_on = threading.Event(), threading.Event()
    answers: list[object] = []

    def fail_once(path: str) -> None:
        if not entered.is_set():
            entered.set()
            go_on.wait(HANG_SECONDS)
            refuse(path)

    def answer(call: Callable[[], object]) -> threading.Thread:
        def run() -> None:
            try:
                answers.append(call())
            except seglog.LogPoisoned as error:
                answers.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread

    watched.on_sync = fail_once
    syncing = answer(log.sync)
    entered.wait(HANG_SECONDS)
    rolling = answer(lambda: log.append(b"x" * 5000))  # seals the segment, which syncs it as well
    until(lambda: is_held(log))
    go_on.set()
    for thread in (syncing, rolling):
        thread.join(HANG_SECONDS)
    assert [type(one) for one in answers] == [seglog.LogPoisoned] * 2
    assert log.durable_offset == 0
    log.close()


def test_a_group_without_an_append_waits_for_nothing(watched: Any) -> None:
    with seglog.open(watched) as log:
        log.append(b"before the policy")
    with seglog.open(watched, LogConfig(flush_records=1)) as log:
        watched.on_sync = refuse
        assert log.append_each([]) == []
        assert [type(one) for one in log.append_each([Draft(b"v", expected_offset=9)])] == [seglog.OffsetConflict]
    watched.on_sync = lambda path: None


def test_after_a_removal_that_failed_nothing_is_acknowledged(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = seglog.open(path)
    log.append(b"v")

    def denied(place: Path) -> None:
        raise PermissionError(errno.EACCES, "denied", str(place))

    monkeypatch.setattr(shutil, "rmtree", denied)
    with pytest.raises(seglog.StorageError):
        log.remove()
    for call in (lambda: log.append(b"v"), log.sync, lambda: log.next_offset):
        with pytest.raises(seglog.LogClosed):
            call()
    with seglog.open(path) as again:
        assert again.next_offset == 0
