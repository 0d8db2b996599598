"""Every storage call of a log fails: once and permanently, without effect or with a partial one."""

from __future__ import annotations

import copy
import errno
import random
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

import seglog
from seglog.log.repair.repair import repair_storage
from seglog.storage import MemoryStorage
from seglog.testing.faulty import READING, WRITING, Fault, FaultyStorage
from seglog.testing.ledger import Ledger
from seglog.testing.power_loss import repeatable
from tests.crash.fault_scenarios import BROKEN, MORE
from tests.crash.scenarios import SCENARIOS, Scenario
from tests.crash.sweep import STEPS, Counts, Planned, run_once, sweep
from tests.proofs import Tell

EVERY = [*SCENARIOS, *MORE, *BROKEN]
ALL = READING | WRITING
PUTTING = frozenset({"pwrite", "pwritev"})
OPENING = frozenset({"create", "map", "names", "open", "sizes", "sync_directory", "try_lock"})
REFUSED: list[tuple[frozenset[str], int, float]] = [
    (ALL, errno.EIO, 0.0),
    (ALL, errno.EINTR, 0.0),
    (WRITING, errno.ENOSPC, 0.0),
    (WRITING, errno.EROFS, 0.0),
    (OPENING, errno.EMFILE, 0.0),
    (PUTTING, errno.ENOSPC, 0.5),
    (PUTTING, errno.EIO, 1.0),
]
"""(which calls, the error, the share of a write that is done before it: all of it is legal, too)"""


def copied(storage: MemoryStorage) -> MemoryStorage:
    """Return the same files once more; two names of one file stay that."""
    other = MemoryStorage()
    vars(other).update(copy.deepcopy({name: value for name, value in vars(storage).items() if name != "_guard"}))
    return other


class StorageTrial:
    """A copy in memory, accessed through a faulty storage."""

    harmless = False

    def __init__(self, template: MemoryStorage, fault: Fault | None) -> None:
        self._files = copied(template)
        self.storage = FaultyStorage(self._files, fault)
        self.calls = self.storage.calls
        self.end = self.storage.crash

    @property
    def struck(self) -> bool:
        return self.storage.struck

    def heal(self) -> None:
        struck, self.storage.fault = self.storage.struck, None
        self.storage.struck = struck

    def image(self) -> Hashable:
        first: dict[int, str] = {}
        nodes = sorted(self._files._nodes.items())
        return tuple((name, bytes(node.data), first.setdefault(id(node), name)) for name, node in nodes)

    def survivor(self) -> MemoryStorage:
        return self._files


def faults() -> Iterator[Planned]:
    for operations, error, keep in REFUSED:
        for forever in (False, True):
            fault = Fault(operations=operations, error=error, keep=keep, forever=forever)
            yield partial(_planned, fault)


def _planned(fault: Fault, at: int) -> Fault:
    return replace(fault, at=at)


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("scenario", EVERY, ids=[scenario.name for scenario in EVERY])
def test_whatever_call_of_the_storage_is_refused_nothing_acknowledged_is_lost(
    scenario: Scenario, step: int, tell: Tell
) -> None:
    template, known = MemoryStorage(), Ledger()
    scenario.prepare(template, known)

    @contextmanager
    def begin(fault: Fault | None) -> Iterator[StorageTrial]:
        with repeatable():
            yield StorageTrial(template, fault)

    mend = repair_storage if scenario in BROKEN else None
    counts = sweep(scenario, known, begin, faults(), mend=mend, step=step)
    tell("refused calls of the storage", scenario=scenario.name, violations=0, **counts._asdict())


# --- two faults at a time -------------------------------------------------------------------------------------------


class TwoFaults(StorageTrial):
    """A copy accessed through two faulty storages: failures while a failure is being handled."""

    def __init__(self, template: MemoryStorage, faults: tuple[Fault, Fault]) -> None:
        super().__init__(template, faults[0])
        self._inner, self.storage = self.storage, FaultyStorage(self.storage, faults[1])

    @property
    def struck(self) -> bool:
        return self.storage.struck or self._inner.struck

    def heal(self) -> None:
        struck, self.storage.fault, self._inner.fault = self.struck, None, None
        self._inner.struck = struck


PAIRS = 200


def one_round(seed: int, root: Path, pairs: int = PAIRS) -> dict[str, int]:
    """Run one scenario with random pairs of faults; return the counts. All in memory: `root` is not used."""
    chance = random.Random(seed)
    scenario, plans = chance.choice(EVERY), list(faults())
    template, known, total, seen = MemoryStorage(), Ledger(), Counts(), set[Hashable]()
    scenario.prepare(template, known)

    @contextmanager
    def begin(pair: tuple[Fault, Fault]) -> Iterator[StorageTrial]:
        with repeatable():
            yield TwoFaults(template, pair)

    for _ in range(pairs):
        first = chance.randint(1, 150)
        pair = chance.choice(plans)(first), chance.choice(plans)(first + chance.randint(0, 12))
        try:
            _, found = run_once(scenario, known, begin, pair, seen, repair_storage if scenario in BROKEN else None)
        except BaseException as error:
            error.add_note(f"one_round({seed}): {scenario.name!r} with {pair}")
            raise
        total = total.plus(found)
    counts = total._replace(distinct=len(seen))._asdict() | {"violations": 0}
    return {name: count for name, count in counts.items() if name != "calls"}


@pytest.mark.parametrize(  # `make deep` runs many more
    ("seed", "pairs"), [(0, 10), *(pytest.param(seed, PAIRS, marks=pytest.mark.proof) for seed in range(3))]
)
def test_a_second_refusal_while_the_first_is_dealt_with_loses_nothing(
    seed: int, pairs: int, tmp_path: Path, tell: Tell
) -> None:
    tell("two refused calls of the storage", seed=str(seed), **one_round(seed, tmp_path, pairs))


# --- what the sweep has found, one by one ---------------------------------------------------------------------------


def faulty_log(config: seglog.LogConfig | None = None) -> tuple[FaultyStorage, seglog.Log]:
    storage = FaultyStorage(MemoryStorage())
    return storage, seglog.open(storage, config)


def test_a_buffered_append_that_could_not_be_made_durable_is_not_in_the_log() -> None:
    storage, log = faulty_log(seglog.LogConfig(flush_records=1, buffer_bytes=4096))
    storage.fault = Fault(operations=PUTTING, name=".store", error=errno.ENOSPC)
    with pytest.raises(seglog.StorageError):
        log.append(b"refused")
    assert log.append(b"again") == 0
    assert [record.value for record in log.scan()] == [b"again"]


def test_reads_end_at_the_durable_offset_where_a_truncate_could_not_be_synced() -> None:
    storage, log = faulty_log(seglog.LogConfig(segment_bytes=512))
    for number in range(20):
        log.append(b"%040d" % number)
    log.sync()
    storage.fault = Fault(operations=frozenset({"datasync"}), name="MANIFEST", error=errno.EIO)
    with pytest.raises(seglog.LogPoisoned):
        log.truncate(3)
    assert log.segments[-1].base_offset > 3
    assert (log.durable_offset, log.next_offset, len(list(log.scan()))) == (3, 3, 3)


def test_a_truncate_is_refused_while_a_pin_that_may_have_to_be_pulled_back_cannot_be_read() -> None:
    storage, log = faulty_log()
    for _ in range(5):
        log.append(b"value")
    log.pin("reader", 4)
    storage.fault = Fault(operations=frozenset({"pread"}), name="reader.pin", error=errno.EIO)
    with pytest.raises(seglog.StorageError):
        log.truncate(2)
    assert (log.next_offset, log.pins) == (5, {"reader": 4})
    log.truncate(2)
    assert (log.next_offset, log.pins) == (2, {"reader": 2})
