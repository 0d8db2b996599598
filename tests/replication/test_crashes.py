"""A copy survives power loss and I/O errors at every call: the next mirror makes it equal to its source."""

from __future__ import annotations

import errno
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, MemoryStorage, Mirror, Retention
from seglog.replication.diff import diff
from seglog.testing.crash_states import moments
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.testing.power_loss import repeatable
from tests.replication.conftest import fill

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.proofs import Tell

pytestmark = pytest.mark.no_cover
CONFIG = LogConfig(segment_bytes=512, retention=Retention(compact=True, delete_retention=0))


def play(source: Any, target: Any) -> None:
    """Change the source, and copy it after each change."""
    with seglog.open(source, CONFIG) as log:
        fill(log, 12, "first", keys=3)
        with Mirror(source, target) as mirror:
            mirror.step()
            log.truncate(7)
            fill(log, 9, "second", keys=3)
            mirror.step()
            log.append(None, key=b"1")
            log.compact(roll=True)
            fill(log, 2, "third", keys=2)
            mirror.step()
        log.truncate(9)
        fill(log, 3, "fourth")
        with Mirror(source, target) as mirror:
            mirror.step()


def goes_on(source: Any, target: Any) -> None:
    with Mirror(source, target) as mirror:
        mirror.step()
    with seglog.open(source, mode="r") as log, seglog.open(target, mode="r") as copy:
        assert {record.offset for record in log.scan()} <= {record.offset for record in copy.scan()}
        assert copy.next_offset == log.next_offset
        assert copy.recovery.clean
    report = diff(source, target)  # the source was compacted after some of it was copied
    assert report.same, report.differences


@pytest.mark.parametrize(
    ("sample", "every"),
    [
        pytest.param(2, 16, id="few"),
        pytest.param(12, 2, marks=pytest.mark.proof, id="many"),
        pytest.param(40, 1, marks=pytest.mark.deep, id="most"),
    ],
)
def test_a_copy_goes_on_after_power_loss_at_any_moment(sample: int, every: int, tell: Tell) -> None:
    source, disk, seen = MemoryStorage(), Disk(recording=True), set[int]()
    with repeatable():
        play(source, DiskStorage(disk))
    for number, moment in enumerate(moments(disk)):
        if number % every:
            continue
        for state in moment.states(sample, seed=number):
            if state.key not in seen:
                seen.add(state.key)
                goes_on(source, DiskStorage(Disk(state.image)))
    assert len(seen) > 50
    tell("crash states of copies", states=len(seen), violations=0)


def calls_of(run: Callable[[FaultyStorage], None]) -> int:
    storage = FaultyStorage(MemoryStorage())
    run(storage)
    return sum(Fault().counts(call) for call in storage.calls)


@pytest.mark.parametrize("every", [pytest.param(5, id="few"), pytest.param(1, marks=pytest.mark.proof, id="all")])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOSPC, None], ids=["EIO", "ENOSPC", "death"])
def test_a_copy_goes_on_after_an_error_of_any_write_to_its_disk(every: int, error: int | None) -> None:
    total = calls_of(lambda target: play(MemoryStorage(), target))
    assert total > 50
    for at in range(1, total + 1, every):
        source, target = MemoryStorage(), MemoryStorage()
        with suppress(seglog.SeglogError, Crashed):
            play(source, FaultyStorage(target, Fault(at=at, error=error, keep=0.5)))
        goes_on(source, target)


@pytest.mark.parametrize("every", [pytest.param(5, id="few"), pytest.param(1, marks=pytest.mark.proof, id="all")])
def test_a_copy_goes_on_after_a_read_error_of_its_source(every: int) -> None:
    reading = frozenset({"pread", "open", "names", "identity"})

    def calls(fault: Fault | None) -> FaultyStorage:
        inner, target = MemoryStorage(), MemoryStorage()
        with seglog.open(inner, CONFIG) as log:
            fill(log, 30, keys=3)
            log.compact(roll=True)
            fill(log, 5)
        faulty = FaultyStorage(inner, fault)
        with suppress(seglog.SeglogError), Mirror(faulty, target) as mirror:
            mirror.step()
        if fault is not None:
            goes_on(inner, target)
        return faulty

    total = sum(call.operation in reading for call in calls(None).calls)
    assert total > 20
    for at in range(1, total + 1, every):
        calls(Fault(operations=reading, at=at, error=errno.EIO))
