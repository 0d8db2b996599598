"""Cut the power at every moment of operations on a log, and open the result with the real recovery.

Every state in which the disk may be left (`crash_states`) is opened, read and compared with the ledger's standing at
that moment, appended to, closed and opened again. In some of these openings the power is cut again.
"""

from __future__ import annotations

import itertools
import random
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple
from unittest.mock import patch

from seglog.clock import Clock
from seglog.format import manifest_changes
from seglog.log import journal
from seglog.log.log import Log
from seglog.log.opening import open_log
from seglog.segment.recovery_report import RecoveryEvent
from seglog.storage import Storage
from seglog.testing.crash_states import EXHAUSTIVE, Moment, State, key_of, moments
from seglog.testing.disk import Disk, Image
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.ledger import Content, Ledger, Outcome, Standing, content_of

Step = Callable[[Storage, Ledger], None]


SCANNED = 16
"""Of the logs recovered to equal files, one in this many is scanned again, although equal files hold equal records."""


@dataclass
class Proven:
    """Logs that were verified: most recoveries end in equal files, of which only one is verified completely.

    recovered: key of all files, lowest, durable and next offset -> content; closed: the keys, with content, of those
    that took a record and were closed.
    """

    recovered: dict[tuple[int, int, int, int], Content] = field(default_factory=dict)
    closed: set[tuple[int, Outcome]] = field(default_factory=set)


@dataclass
class Counts:
    """What was proven. moments: at which the power was cut; states: different ones that were opened; judged:
    comparisons of a state with a standing; recoveries: openings in which the power was cut again.
    """

    moments: int = 0
    states: int = 0
    judged: int = 0
    recoveries: int = 0
    violations: list[str] = field(default_factory=list)


class Left(NamedTuple):
    """The state that a cut has left, and what may be found in it."""

    image: Image
    standing: Standing


class PowerLoss:
    """Proves what a step does to a log. Counts accumulate over several proofs.

    seen: key of each opened state -> its content, or what is wrong with it. sample: number of combinations tried at a
    moment with more than `exhaustive`; seed: of that sample; again: the power is cut again in the opening of every
    `again`-th state.
    """

    def __init__(self, *, sample: int, seed: int = 0, again: int = 50, exhaustive: int = EXHAUSTIVE) -> None:
        self.sample = sample
        self.seed = seed
        self.again = again
        self.exhaustive = exhaustive
        self.counts = Counts()
        self.seen: dict[int, Content | str] = {}
        self._proven = Proven()
        self._source = random.Random(seed)

    def prove(self, prepare: Step, run: Step) -> None:
        """Cut the power at every moment of `run`, on the log that `prepare` made and the disk holds."""
        with repeatable(), decoding_once():
            disk, ledger = Disk(), Ledger()
            prepare(DiskStorage(disk), ledger)
            self._prove_on(Left(disk.image(), ledger.standing), run)

    def prove_chain(self, prepare: Step, runs: Iterable[Step]) -> None:
        """Prove the first run as `prove` does; each later one starts from a state that a cut in the previous one has
        left.
        """
        with repeatable(), decoding_once():
            disk, ledger = Disk(), Ledger()
            prepare(DiskStorage(disk), ledger)
            left = Left(disk.image(), ledger.standing)
            for run in runs:
                left = self._prove_on(left, run)

    def _prove_on(self, left: Left, run: Step) -> Left:
        disk = Disk(left.image, recording=True)
        disk.note(left.standing)
        run(DiskStorage(disk), Ledger(disk.note, left.standing, power_lost=True))
        return self._cut(disk, depth=1, sample=self.sample)

    def _cut(self, disk: Disk, *, depth: int, sample: int) -> Left:
        """Open every state of a recorded disk once, and judge it by each standing with which it may occur.

        Returns one of the states at random.
        """
        left, judged = Left(disk.begun, Standing()), 0
        for moment in moments(disk):
            assert isinstance(moment.note, Standing)
            self.counts.moments += 1
            reasons: dict[int, list[str]] = {}
            for state in moment.states(sample, self.seed, exhaustive=self.exhaustive):
                if state.key not in self.seen:
                    self.seen[state.key] = self._open(state)
                    self.counts.states += 1
                    if depth and self.counts.states % self.again == 1:
                        self._cut_again(state, moment.note, depth)
                self._judge(moment, state, reasons)
                judged += 1
                if self._source.random() * judged < 1:  # each with the same probability
                    left = Left(state.image, moment.note)
        return left

    def _open(self, state: State) -> Content | str:
        """Return the content of a state, or what is wrong with it in any case."""
        try:
            return survive(state.image, self._proven)
        except Exception as error:  # noqa: BLE001 - any error is a violation, reported with its state
            return f"{type(error).__name__}: {error}"

    def _judge(self, moment: Moment, state: State, reasons: dict[int, list[str]]) -> None:
        """Compare the content of a state with the moment's standing. reasons: by the identity of the content."""
        self.counts.judged += 1
        assert isinstance(moment.note, Standing)
        found = self.seen[state.key]
        if id(found) not in reasons:
            reasons[id(found)] = [found] if isinstance(found, str) else moment.note.objections(found, power_lost=True)
        if reasons[id(found)]:
            at = f"at {moment.at}, state {state.key:016x}"
            self.counts.violations.append(f"{at}: {'; '.join(reasons[id(found)])}")

    def _cut_again(self, state: State, standing: Standing, depth: int) -> None:
        """Cut the power during and after the opening of a state: what the opening served must be there."""
        disk = Disk(state.image, recording=True)
        ledger = Ledger(disk.note, standing, power_lost=True)
        disk.note(standing)
        try:
            log = open_log(DiskStorage(disk), clock=ticking())
            ledger.settle(log)
        except Exception:  # noqa: BLE001 - counted where the state itself is opened
            return
        self.counts.recoveries += 1
        self._cut(disk, depth=depth - 1, sample=max(8, self.sample // 8))


@contextmanager
def repeatable(seed: int = 0) -> Iterator[None]:
    """Make identities (salts, log ids, names of stages) the same in every run, so that equal states are recognized."""
    source = random.Random(seed)

    def token_hex(nbytes: int | None = None) -> str:
        return source.randbytes(nbytes or 32).hex()

    with patch.object(secrets, "randbits", source.getrandbits), patch.object(secrets, "token_hex", token_hex):
        yield


@contextmanager
def decoding_once() -> Iterator[None]:
    """Decode equal manifests only once: they are most of what an opening reads."""
    once = lru_cache(maxsize=256)(manifest_changes.decode_file)
    with patch.object(journal, "decode_file", lambda data, path, _like=None: once(data, path)):
        yield


def ticking() -> Clock:
    """Return a clock that advances by a second at each call: segments age, and no two times are equal."""
    ticks = itertools.count(1_700_000_000)
    return lambda: next(ticks) * 1_000_000


def survive(image: Image, proven: Proven | None = None) -> Content:
    """Open what a crash has left and return its content; AssertionError, or an error of seglog, if it is not sound.

    It is read by scan and by offset and takes an append at its end; its second opening has nothing to recover, and no
    unnamed file is left. proven: files for which this was verified before, extended by this call.
    """
    proven = Proven() if proven is None else proven
    disk = Disk(image)
    with repeatable(seed=1):  # other identities than those of the log
        with open_log(DiskStorage(disk), clock=ticking()) as log:
            damage = list(_damage(log))
            assert not damage, damage
            recovered = (key_of(disk.image()), log.lowest_offset, log.durable_offset, log.next_offset)
            known = proven.recovered.get(recovered)
            if known is not None and (recovered[0] % SCANNED or known.records == tuple(log.scan())):
                return known
            content = content_of(log)
            grown = _grown(log, content)
        closed = (key_of(disk.image()), grown)
        if closed not in proven.closed:
            _check_closed(DiskStorage(disk), grown)
    proven.closed.add(closed)
    proven.recovered[recovered] = content
    return content


def _grown(log: Log, content: Content) -> Outcome:
    """Append a record to what was found, and return what must be found next."""
    offset = log.append(b"and on", key=b"and")
    assert offset == content.next_offset, f"an append at {content.next_offset} got {offset}"
    records = (*content.records, log.read(offset))
    return Outcome(content.start, records, offset + 1, expires=log.config.retention.bytes or 0)


def _check_closed(storage: Storage, grown: Outcome) -> None:
    """Open a log that was closed: it is complete, needs no recovery, and every file is named."""
    with open_log(storage, clock=ticking()) as log:
        assert log.recovery.clean, log.recovery.events
        objection = grown.objection(content_of(log), grown.next_offset)
        assert objection is None, f"opened again, {objection}"
        problems = [problem for problem in log.verify().problems if problem.kind != "index"]  # lookups are derived
        assert not problems, problems
        live = {segment.name for segment in log.segments}
        stores = {name for name in storage.names() if name.endswith(".store")}
        assert stores == live, f"no manifest names {stores - live}"


def _damage(log: Log) -> Iterator[RecoveryEvent]:
    """Yield what recovery reports as damage of durable bytes. Cut bytes are none: they may arrive in any order."""
    for event in log.recovery.events:
        if event.kind in ("header", "manifest") or (event.kind == "damage" and not event.bytes):
            yield event
