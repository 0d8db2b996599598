"""Pins, and a process or a medium that fails at any call: a pin is the old one or the new one, and the log is whole."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.log.pins import read_pins
from seglog.storage import LocalStorage
from seglog.testing.faulty import SYNCING, WRITING, Fault, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Callable

RECORDS = 6


def fill(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, RECORDS)
    log.sync()


def pinned(log: seglog.Log, ledger: Any) -> None:
    fill(log, ledger)
    log.pin("copy", 2)
    log.pin("other", 3)


def move(log: seglog.Log, ledger: Any) -> None:
    log.pin("copy", 5)


def drop(log: seglog.Log, ledger: Any) -> None:
    log.unpin("copy")


@pytest.mark.parametrize("keep", [0.0, pytest.param(0.6, marks=pytest.mark.no_cover)])
@pytest.mark.parametrize(
    ("before", "change", "old", "new"),
    [
        (fill, move, {}, {"copy": 5}),
        (pinned, move, {"copy": 2, "other": 3}, {"copy": 5, "other": 3}),
        (pinned, drop, {"copy": 2, "other": 3}, {"other": 3}),
    ],
)
def test_a_crash_at_any_call_leaves_the_old_pin_or_the_new_one(
    laboratory: Any, check_survivor: Any, before: Any, change: Any, old: Any, new: Any, keep: float
) -> None:
    laboratory.prepare(before)
    found = []
    for run in laboratory.runs(change, Fault(keep=keep)):
        found.append(read_pins(LocalStorage(run.path)))
        check_survivor(run.path, run.ledger)
        assert read_pins(LocalStorage(run.path)) == found[-1]
        assert list((run.path / "tmp").iterdir()) == [], "what a crash left went with the next opening"
        assert list((run.path / "quarantine").iterdir()) == []
    commit = found.index(new)
    assert 0 < commit < len(found)
    assert found == [old] * commit + [new] * (len(found) - commit), "one call is the commit"


@pytest.mark.parametrize("error", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.no_cover)])
@pytest.mark.parametrize("change", [move, drop])
def test_a_medium_that_refuses_any_call_leaves_one_of_both_and_the_writer_goes_on(
    laboratory: Any, check_survivor: Any, change: Callable[..., None], error: int
) -> None:
    laboratory.prepare(pinned)
    for run in laboratory.runs(change, Fault(error=error, keep=0.5)):
        run.storage.fault = None
        assert (run.error is None) == (not run.storage.struck) or isinstance(run.error, seglog.StorageError)
        assert run.log.pins.get("copy") in ((2, 5) if change is move else (2, None))
        run.ledger.append(run.log)
        change(run.log, run.ledger)
        assert run.log.pins.get("copy") == (5 if change is move else None)
        run.log.close()
        check_survivor(run.path, run.ledger)


def test_a_pin_is_on_the_medium_before_its_name_and_that_before_anybody_is_told(scene: Any) -> None:
    scene.fill([b"v"])
    storage = FaultyStorage(LocalStorage(scene.path))
    log = seglog.open(storage, mode="r")
    storage.calls = []
    log.pin("copy", 1)
    made = [call for call in storage.calls if call.operation in WRITING and not call.name.startswith("readers")]
    calls = [f"{call.operation} {call.name}".strip() for call in made]
    assert calls[0] == "make"
    assert [call.partition("/pin-")[0] for call in calls[1:4]] == ["create tmp", "pwrite tmp", "datasync tmp"]
    assert calls[4:] == ["rename pins/copy.pin", "sync_directory pins"]


def test_a_pin_is_gone_from_the_medium_before_anybody_is_told(scene: Any) -> None:
    scene.fill([b"v"])
    storage = FaultyStorage(LocalStorage(scene.path))
    log = seglog.open(storage, mode="r")
    log.pin("copy", 1)
    storage.calls = []
    log.unpin("copy")
    made = [call for call in storage.calls if call.operation in WRITING and not call.name.startswith("readers")]
    assert [f"{call.operation} {call.name}" for call in made] == ["unlink pins/copy.pin", "sync_directory pins"]


def test_a_failed_sync_of_a_pin_does_not_stop_the_writer(laboratory: Any, check_survivor: Any) -> None:
    laboratory.prepare(pinned)
    for run in laboratory.runs(move, Fault(operations=SYNCING, error=errno.EIO)):
        run.storage.fault = None
        assert run.error is None or type(run.error) is seglog.StorageError
        run.ledger.append(run.log)
        run.log.sync()
        run.log.close()
        check_survivor(run.path, run.ledger)
