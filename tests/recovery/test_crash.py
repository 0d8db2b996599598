"""A process that dies at any call of any operation: the next open succeeds, and the log is what its user may expect.

What was written stays written here (the page cache survives kill -9); what a power cut may take is another proof.
"""

from __future__ import annotations

import itertools
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
KEEP = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))


def nothing(log: seglog.Log, ledger: Any) -> None:
    """Open, and no more."""


def fill(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 20)


def append_few(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 3)


def append_and_sync(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 2)
    log.sync()
    ledger.append(log)
    log.sync()


def roll_twice(log: seglog.Log, ledger: Any) -> None:
    before = len(log.segments)
    ledger.append(log, 12)
    assert len(log.segments) >= before + 2


def append_batch(log: seglog.Log, ledger: Any) -> None:
    ledger.append_batch(log, 4)


def append_batch_of_many_segments(log: seglog.Log, ledger: Any) -> None:
    ledger.append_batch(log, 17, pieces=True)


def append_stream(log: seglog.Log, ledger: Any) -> None:
    ledger.append_stream(log)


def broken_stream(log: seglog.Log, ledger: Any) -> None:
    def chunks() -> Iterator[bytes]:
        yield b"a" * 300
        raise KeyError("the source is gone")

    with pytest.raises(KeyError):
        log.append_stream(chunks())
    ledger.append(log)


def truncate_to(offset: int) -> Callable[[seglog.Log, Any], None]:
    def truncate(log: seglog.Log, ledger: Any) -> None:
        ledger.truncate(log, offset)
        ledger.append(log, 2)

    return truncate


def expire(log: seglog.Log, ledger: Any) -> None:
    """Retention by size keeps 600 bytes and whole segments."""
    stores, total = log.segments, log.size
    start = ledger.content[0]
    for segment, following in itertools.pairwise(stores):
        if total - segment.bytes < 600:
            break
        total -= segment.bytes
        start = following.base_offset
    assert start > ledger.content[0]
    ledger.expiring(start)
    log.expire()
    ledger.done()


def grow_without_retention(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 30)


def close(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 2)
    log.close()


OPERATIONS = [
    append_few,
    append_and_sync,
    roll_twice,
    append_batch,
    append_batch_of_many_segments,
    append_stream,
    broken_stream,
    truncate_to(0),
    truncate_to(7),
    truncate_to(19),
    close,
]
NAMES = [getattr(operation, "__name__", "") for operation in OPERATIONS]


@pytest.mark.parametrize("keep", [0.0, 0.6])
def test_crash_at_every_step_of_the_first_creation(laboratory: Any, check_survivor: Any, keep: float) -> None:
    for run in laboratory.runs(append_few, Fault(keep=keep), opening=True):
        check_survivor(run.path, run.ledger)


@pytest.mark.parametrize("keep", [0.0, pytest.param(0.6, marks=pytest.mark.no_cover)])
@pytest.mark.parametrize("operation", OPERATIONS, ids=NAMES)
def test_crash_at_every_step_of(laboratory: Any, check_survivor: Any, operation: Any, keep: float) -> None:
    laboratory.prepare(fill, SMALL)
    for run in laboratory.runs(operation, Fault(keep=keep)):
        check_survivor(run.path, run.ledger, torn_head=keep > 0 and "batch" in operation.__name__)


def test_crash_at_every_step_of_expire(laboratory: Any, check_survivor: Any) -> None:
    laboratory.prepare(grow_without_retention, SMALL)
    log = seglog.open(laboratory.template, KEEP)
    log.close()
    for run in laboratory.runs(expire, Fault()):
        check_survivor(run.path, run.ledger)


DIRTY = {
    "a torn record": Fault(operations=frozenset({"pwrite"}), name=".store", at=3, keep=0.7),
    "a new store without a manifest": Fault(operations=frozenset({"create"}), name="tmp/MANIFEST"),
    "a manifest half written": Fault(operations=frozenset({"pwrite"}), name="tmp/MANIFEST", keep=0.5),
    "a manifest not yet in place": Fault(operations=frozenset({"rename"}), name="MANIFEST", at=2),
    "a lookup half written": Fault(operations=frozenset({"pwrite"}), name=".index", at=2, keep=0.3),
}


@pytest.mark.no_cover
@pytest.mark.parametrize("fault", DIRTY.values(), ids=DIRTY.keys())
def test_crash_at_every_step_of_recovery_itself(
    laboratory: Any, check_survivor: Any, tmp_path: Path, fault: Fault
) -> None:
    laboratory.prepare(fill, SMALL, close=False)
    storage, ledger = FaultyStorage(LocalStorage(laboratory.template)), laboratory.known
    log = seglog.open(storage)
    storage.fault = fault
    with pytest.raises(Crashed):
        ledger.append(log, 50)
    for run in laboratory.runs(nothing, Fault(keep=0.5), opening=True):
        second = tmp_path / "second"
        for again in range(1, 30, 3):  # and recovery of what the first recovery left dies too
            shutil.copytree(run.path, second)
            storage = FaultyStorage(LocalStorage(second), Fault(at=again))
            try:
                seglog.open(storage)
            except Crashed:
                check_survivor(second, run.ledger)
            storage.crash()
            shutil.rmtree(second)
            if not storage.struck:
                break
        check_survivor(run.path, run.ledger)


@pytest.mark.parametrize("lost", ["MANIFEST", "both"])
def test_crash_at_every_step_of_rebuilding_the_manifest(laboratory: Any, content_of: Any, lost: str) -> None:
    laboratory.prepare(fill, SMALL)
    (laboratory.template / "MANIFEST").unlink()
    if lost == "both":
        (laboratory.template / "MANIFEST.prev").unlink()
    for run in laboratory.runs(nothing, Fault(keep=0.5), opening=True):
        run.storage.crash()
        with seglog.open(run.path) as log:
            assert content_of(log) == run.ledger.content
            assert {problem.kind for problem in log.verify().problems} <= {"manifest", "index"}
            log.append(b"and on")
        with seglog.open(run.path) as log:
            assert log.read(20).value == b"and on"


@pytest.mark.parametrize("kind", ["index", "times"])
def test_crash_at_every_step_of_making_a_lookup_anew(laboratory: Any, check_survivor: Any, kind: str) -> None:
    laboratory.prepare(fill, SMALL)
    for lookup in laboratory.template.glob(f"*.{kind}"):
        lookup.unlink()

    def use(log: seglog.Log, ledger: Any) -> None:
        assert [log.read(offset).value for offset in range(20)] == [ledger.value(offset) for offset in range(20)]
        assert log.offset_at(0) == 0

    for run in laboratory.runs(use, Fault(keep=0.5)):
        check_survivor(run.path, run.ledger, lookups=False)
