"""A fault at every call of a scenario: runs it again and again on copies of its log, each time going wrong one call
later, and says what must be true of the log that goes on, and of the one that is opened after it.

Where faults come from (a storage, the system) is known to the tests; what a log may hold is known to the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

import pytest

import seglog
from seglog.storage import Storage
from seglog.testing.faulty import Call
from seglog.testing.ledger import Content, Ledger, Outcome, Standing, content_of
from seglog.testing.power_loss import ticking
from tests.crash.scenarios import Scenario

REFUSALS = (seglog.StorageError, seglog.LogPoisoned)
"""What a medium's refusal may become. Anything else would say that the log is damaged, absent, or that we are."""
AFTER = b"after"


class Witness(Ledger):
    """A ledger that remembers the log it was last shown. calling: whether a call of it is under way; volatile: whether
    its records wait in memory, so that the end of the process takes what was not synced.
    """

    def __init__(self, known: Ledger) -> None:
        super().__init__()
        self.standing, self._serial = known.standing, known._serial
        self.log: seglog.Log | None = None
        self.calling = False
        self.volatile = False

    def begin(self, *outcomes: Outcome) -> None:
        self.calling = True
        super().begin(*outcomes)

    def sync(self, log: seglog.Log) -> None:
        self.calling = True
        super().sync(log)

    def settle(self, log: seglog.Log) -> None:
        self.log, self.calling = log, False
        super().settle(log)
        self.volatile = log.config.buffer_bytes > 0

    def done(self, log: seglog.Log, *, durable: bool = False) -> None:
        self.calling = False
        super().done(log, durable=durable)


class Trial(Protocol):
    """One copy of a log on a medium that fails as planned. storage: what the scenario opens;
    calls: all that were made; struck: whether the fault was met; harmless: whether nobody may notice it.
    """

    calls: list[Call]
    harmless: bool

    @property
    def storage(self) -> Storage: ...

    @property
    def struck(self) -> bool: ...

    def heal(self) -> None:
        """Let no further call fail."""
        ...

    def end(self) -> None:
        """Let the process end."""
        ...

    def image(self) -> Hashable:
        """Return what it left: names, bytes, and which names are of one file."""
        ...

    def survivor(self) -> Storage:
        """Return what it left, on a sound medium."""
        ...


STEPS = [307, pytest.param(7, marks=pytest.mark.proof), pytest.param(1, marks=pytest.mark.deep)]


class Counts(NamedTuple):
    """calls: of a healthy run; runs: how many a fault met; raised, poisoned: of these, how many ended so; distinct: how
    many different states they left to the next opening, by files and ledger. Equal ones are opened once.
    """

    calls: int = 0
    runs: int = 0
    distinct: int = 0
    raised: int = 0
    poisoned: int = 0

    def plus(self, other: Counts) -> Counts:
        return Counts(*(mine + theirs for mine, theirs in zip(self, other, strict=True)))


Begin = Callable[[Any], AbstractContextManager[Trial]]
"""Makes a trial on a fresh copy of the prepared log: begin(fault)."""
Planned = Callable[[int], Any]
"""Gives the fault that strikes at the n-th call."""
Mend = Callable[[Storage], object]


def sweep(
    scenario: Scenario,
    known: Ledger,
    begin: Begin,
    faults: Iterable[Planned],
    *,
    mend: Mend | None = None,
    step: int = 1,
) -> Counts:
    """Run a scenario with each fault at its first call, its second, and so on until it meets none any more.

    mend: what an operator does first to a log that is left. step: 7 lets a fault strike at every seventh call, the next
    fault at the calls after those, so that each call meets a seventh of the faults.
    """
    seen: set[Hashable] = set()
    with begin(None) as trial:
        scenario.run(trial.storage, Witness(known))
        total = Counts(calls=len(trial.calls))
    for number, fault in enumerate(faults):
        at, struck = 1 + number % step, True
        while struck:
            plan = fault(at)
            try:
                struck, counts = run_once(scenario, known, begin, plan, seen, mend)
            except BaseException as error:
                error.add_note(f"{scenario.name!r} with {plan}")
                raise
            total, at = total.plus(counts), at + step
    return total._replace(distinct=len(seen))


def run_once(
    scenario: Scenario, known: Ledger, begin: Begin, fault: Any, seen: set[Hashable], mend: Mend | None
) -> tuple[bool, Counts]:
    """Run a scenario with one fault; return whether it was met, and what to count. seen: what was opened before."""
    ledger = Witness(known)
    with begin(fault) as trial:
        error = _attempt(scenario, trial.storage, ledger)
        struck = trial.struck
        if trial.harmless or not struck:
            assert error is None, f"raised for no reason: {error!r}"
        if struck:
            _check_open(trial, ledger, error)
        trial.end()
        left = (trial.image(), ledger.standing, ledger.volatile)
        if struck and left not in seen:
            seen.add(left)
            check_survivor(trial.survivor(), ledger.standing, volatile=ledger.volatile, mend=mend)
    if not struck:
        return False, Counts()
    poisoned = isinstance(error, seglog.LogPoisoned)
    return True, Counts(runs=1, raised=int(error is not None), poisoned=int(poisoned))


def _attempt(scenario: Scenario, storage: Storage, ledger: Ledger) -> seglog.SeglogError | None:
    try:
        scenario.run(storage, ledger)
    except REFUSALS as error:
        return error.with_traceback(None)
    return None


# --- the log that goes on -------------------------------------------------------------------------------------------


def _check_open(trial: Trial, ledger: Witness, error: seglog.SeglogError | None) -> None:
    """While the fault lasts nothing false is said; once it is over the log is whole, or poisoned for good."""
    log = ledger.log
    if log is None or log.closed:
        return
    _read_all(log, ledger.standing)
    trial.heal()
    if log.failure is not None:
        _check_poisoned(log, ledger.standing)
        return
    assert not (ledger.calling and isinstance(error, seglog.LogPoisoned)), "poisoned, and yet it goes on"
    before = ledger.standing.possible[0]
    ledger.settle(log)
    if error is not None:
        added = [record for record in ledger.known.records if record.offset >= before.next_offset]
        assert not added, f"a call raised {error!r}, and yet it was done: {added}"
        assert ledger.known.next_offset >= before.next_offset, f"a call raised {error!r}, and yet the log was cut"
    ledger.append(log, key=AFTER)
    ledger.sync(log)
    found = content_of(log)
    assert not (reasons := ledger.standing.objections(found, power_lost=False)), reasons


def _read_all(log: seglog.Log, standing: Standing) -> None:
    """Read known records while the storage may still fail: each answer is the record, or an error."""
    for record in standing.possible[0].records:
        try:
            found = log.read(record.offset)
        except REFUSALS:
            continue
        except seglog.OffsetOutOfRange:
            assert log.failure is not None or len(standing.possible) > 1, f"{record} is gone"
        except seglog.OffsetCompacted:
            assert len(standing.possible) > 1 or record.offset in standing.possible[0].loose, f"{record} is gone"
        else:
            assert found == record, f"read({record.offset}) gives {found}, not {record}"


def _check_poisoned(log: seglog.Log, standing: Standing) -> None:
    """It acknowledges nothing more although the storage works again, and shows exactly the durable records."""
    found = content_of(log)
    assert not (reasons := standing.objections(found, power_lost=True)), reasons
    assert found.next_offset <= max(log.durable_offset, found.start), f"reads go on to {found.next_offset}"
    for call in (lambda: log.append(b"x", key=AFTER), log.sync, log.expire, lambda: log.truncate(found.start)):
        with pytest.raises(seglog.LogPoisoned):
            call()
    assert content_of(log) == found


# --- the log that is opened after it --------------------------------------------------------------------------------


def check_survivor(storage: Storage, standing: Standing, *, volatile: bool, mend: Mend | None) -> None:
    """A sound medium: the next opening finds all that was acknowledged, sound and in order; and the log goes on."""
    if mend is not None:
        mend(storage)
    with seglog.open(storage, clock=ticking()) as log:
        found = content_of(log)
        assert not (reasons := standing.objections(found, power_lost=volatile)), (reasons, log.recovery)
        assert not log.recovery.damaged, log.recovery
        assert not (problems := [one for one in log.verify().problems if one.kind != "index"]), problems
        assert log.append(b"and on", key=AFTER) == found.next_offset
    with seglog.open(storage, clock=ticking()) as log:
        assert log.recovery.clean, log.recovery
        again = content_of(log)
        expires = log.config.retention.bytes is not None  # the append above may have made its segments expire
        start = again.start if expires else found.start
        assert start >= found.start
        kept = tuple(record for record in found.records if record.offset >= start)
        assert Content(start, kept, found.next_offset) == Content(
            again.start, again.records[:-1], again.next_offset - 1
        )
        stores = {name for name in storage.names() if name.endswith(".store")}
        assert stores == {segment.name for segment in log.segments}, "stores that nobody names, or that are not there"
