"""Every system call of a log on real files, going wrong: refused with each error it may come back with, or moving fewer
bytes than it was asked to, once and for ever. Syncs are noted and refused, but never wait for the disk.
"""

from __future__ import annotations

import errno
import itertools
import os
import shutil
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

import seglog
from seglog.log.repair.repair import repair_storage
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed
from seglog.testing.ledger import Ledger
from seglog.testing.power_loss import repeatable
from seglog.testing.system import LEGAL, READS, WRITES, FaultySystem, SystemFault
from tests.crash.fault_scenarios import BROKEN, MORE
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.sweep import STEPS, Planned, run_once, sweep
from tests.proofs import Tell

EVERY = [*SCENARIOS, *MORE, *BROKEN]
ERRORS = sorted({error for errors in LEGAL.values() for error in errors})
LASTING = (errno.EROFS, errno.EACCES)  # who may not write now may not at the next call
ONE_BYTE = 1e-9
ROOM = 32 << 20


def refusals() -> Iterator[Planned]:
    """Yield every error, once and permanently, at all calls that may return it."""
    for error in ERRORS:
        operations = frozenset(operation for operation, errors in LEGAL.items() if error in errors)
        for forever in (True,) if error in LASTING else (False, True):
            yield partial(_planned, SystemFault(operations=operations, error=error, forever=forever))


def shortages() -> Iterator[Planned]:
    """Yield partial reads and writes: once, and until the disk is full."""
    for operations, error in ((READS, errno.EIO), (WRITES, errno.ENOSPC)):
        yield partial(_planned, SystemFault(operations=operations, moves=0.5))
        for forever in (False, True):
            yield partial(_planned, SystemFault(operations=operations, moves=0.5, error=error, forever=forever))


def _planned(fault: SystemFault, at: int) -> SystemFault:
    return replace(fault, at=at)


class SystemTrial:
    """A copy on real files under a faulty system."""

    def __init__(self, system: FaultySystem, log: Path, fault: SystemFault | None) -> None:
        self._system = system
        self._log = log
        self.storage = LocalStorage(log)
        self.calls = system.calls
        self.harmless = fault is not None and fault.error is None
        self.end = system.end
        system.fault = fault

    @property
    def struck(self) -> bool:
        return self._system.struck

    def heal(self) -> None:
        struck, self._system.fault = self._system.struck, None
        self._system.struck = struck

    def image(self) -> Hashable:
        self._system.__exit__()
        first: dict[int, str] = {}
        found: list[tuple[str, bytes, str]] = []
        for path in sorted(self._log.parent.rglob("*")):
            name = str(path.relative_to(self._log.parent))
            data = path.read_bytes() if path.is_file() else b"/"
            found.append((name, data, first.setdefault(path.stat().st_ino, name)))
        return tuple(found)

    def survivor(self) -> LocalStorage:
        return LocalStorage(self._log)


@pytest.fixture(autouse=True)
def _syncs_that_do_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.storage.local_file.sync_data", lambda _descriptor: None)
    monkeypatch.setattr(os, "fsync", lambda _descriptor: None)


@pytest.fixture
def fast_path(tmp_path: Path) -> Iterator[Path]:
    """A directory for thousands of copies: in memory where the system has a file system there, and room on it."""
    memory = Path("/dev/shm")  # noqa: S108 - what is put there has a random name, readable for its owner
    if not memory.is_dir() or shutil.disk_usage(memory).free < ROOM:
        yield tmp_path
        return
    with TemporaryDirectory(dir=memory) as name:
        yield Path(name)


class Copies:
    """Copies of a prepared log, each in a directory of its own, gone when it has been looked at."""

    def __init__(self, root: Path, scenario: Scenario) -> None:
        self.root = root
        self.template = root / "template"
        self.known = Ledger()
        self.numbers = itertools.count()
        self.template.mkdir()
        scenario.prepare(LocalStorage(self.template / "log"), self.known)

    @contextmanager
    def begin(self, fault: SystemFault | None) -> Iterator[SystemTrial]:
        root = self.root / f"run{next(self.numbers)}"
        shutil.copytree(self.template, root)
        try:
            with repeatable(), FaultySystem(root) as system:
                yield SystemTrial(system, root / "log", fault)
        finally:
            shutil.rmtree(root)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("scenario", EVERY, ids=[scenario.name for scenario in EVERY])
def test_whatever_system_call_goes_wrong_nothing_acknowledged_is_lost(
    scenario: Scenario, step: int, fast_path: Path, tell: Tell
) -> None:
    copies = Copies(fast_path, scenario)
    mend = repair_storage if scenario in BROKEN else None
    faults = itertools.chain(refusals(), shortages())
    counts = sweep(scenario, copies.known, copies.begin, faults, mend=mend, step=step)
    tell("system calls gone wrong", scenario=scenario.name, violations=0, **counts._asdict())


@pytest.mark.proof
@pytest.mark.parametrize("operations", [READS, WRITES], ids=["reads", "writes"])
@pytest.mark.parametrize("scenario", EVERY, ids=[scenario.name for scenario in EVERY])
def test_a_system_that_moves_a_byte_at_a_time_is_only_slow(
    scenario: Scenario, operations: frozenset[str], fast_path: Path
) -> None:
    copies = Copies(fast_path, scenario)
    mend = repair_storage if scenario in BROKEN else None
    slow = SystemFault(operations=operations, moves=ONE_BYTE, forever=True)
    struck, _ = run_once(scenario, copies.known, copies.begin, slow, set(), mend)
    assert struck


# --- the faulty system itself, and what the sweep has found -----------------------------------------------------------


def test_the_nth_call_about_files_below_the_root_fails_and_no_other(tmp_path: Path) -> None:
    with FaultySystem(tmp_path / "log") as system:
        storage, other = LocalStorage(tmp_path / "log"), LocalStorage(tmp_path / "other")
        storage.make([])
        other.make([])
        system.fault = SystemFault(operations=WRITES, at=2, error=errno.ENOSPC)
        file, elsewhere = storage.create("a"), other.create("a")
        file.pwrite(b"x", 0)
        elsewhere.pwrite(b"xy", 0)
        with pytest.raises(seglog.StorageError) as caught:
            file.pwrite(b"y", 1)
        assert (caught.value.errno, caught.value.filename) == (errno.ENOSPC, f"{tmp_path}/log/a")
        file.pwrite(b"z", 1)
    assert file.pread(9, 0) == b"xz"
    assert [call.operation for call in system.calls if call.name == "a"] == ["create", *["pwrite"] * 3]


@pytest.mark.parametrize("write", ["pwrite", "pwritev"])
def test_a_disk_that_fills_takes_a_part_of_a_write_and_refuses_the_rest(tmp_path: Path, write: str) -> None:
    with FaultySystem(tmp_path) as system:
        file = LocalStorage(tmp_path).create("a")
        system.fault = SystemFault(operations=WRITES, moves=0.5, error=errno.ENOSPC)
        with pytest.raises(seglog.StorageError, match="No space"):
            file.pwrite(b"abcdef", 0) if write == "pwrite" else file.pwritev([b"abc", b"def"], 0)
        assert file.pread(9, 0) == b"abc"


def test_reads_and_writes_of_a_byte_at_a_time_are_whole_in_the_end(tmp_path: Path) -> None:
    with FaultySystem(tmp_path, SystemFault(operations=READS | WRITES, moves=ONE_BYTE, forever=True)) as system:
        storage = LocalStorage(tmp_path)
        file = storage.create("a")
        file.pwritev([b"abc", b"def"], 0)
        assert file.pread(9, 1) == b"bcdef"
        lock = storage.try_lock("LOCK")
        assert lock is not None
        lock.write(b"12345\n")
        assert storage.open("LOCK").pread(9, 0) == b"12345\n"
    assert len([call for call in system.calls if call.operation == "pwrite"]) > 10


def test_after_its_end_a_process_holds_no_lock_and_makes_no_call(tmp_path: Path) -> None:
    with FaultySystem(tmp_path) as system:
        storage = LocalStorage(tmp_path)
        held = storage.try_lock("LOCK")
        assert held is not None
        system.end()
        with pytest.raises(Crashed):
            storage.names()
    assert storage.try_lock("LOCK") is not None
    held.release()


def test_a_refused_close_hides_no_other_error_and_is_none_itself(tmp_path: Path) -> None:
    with FaultySystem(tmp_path) as system:
        log = seglog.open(tmp_path / "log")
        system.fault = SystemFault(operations=frozenset({"close"}), error=errno.EIO, forever=True)
        log.append(b"value")
        log.sync()
        log.close()
        system.fault = SystemFault(operations=frozenset({"open", "close"}), error=errno.EMFILE, forever=True, at=2)
        with pytest.raises(seglog.StorageError, match="Too many open files"):
            seglog.open(tmp_path / "log")
    with seglog.open(tmp_path / "log") as log:
        assert log.read(0).value == b"value"


def test_a_refused_write_lets_go_of_what_it_should_have_written_even_if_its_error_is_kept(tmp_path: Path) -> None:
    with FaultySystem(tmp_path) as system:
        log = seglog.open(tmp_path / "log", seglog.LogConfig(buffer_bytes=4096))
        log.append(b"one")
        system.fault = SystemFault(operations=WRITES, name=".store", moves=0.5, error=errno.ENOSPC)
        with pytest.raises(seglog.StorageError) as kept:
            log.sync()
        assert log.append(b"two") == 1, "the buffer grows"
        assert kept.value.errno == errno.ENOSPC
        log.sync()
        assert [record.value for record in log.scan()] == [b"one", b"two"]


def test_a_file_that_is_closed_by_the_garbage_collector_within_a_call_is_a_call_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with FaultySystem(tmp_path, SystemFault(at=1000)) as system:
        one, other = (os.open(tmp_path / name, os.O_CREAT | os.O_WRONLY) for name in ("one", "other"))
        rest = [other]
        monkeypatch.setattr(SystemFault, "counts", lambda *_: rest and os.close(rest.pop()))
        os.write(one, b"x")
        os.close(one)
    assert [call.operation for call in system.calls][-3:] == ["write", "close", "close"]
