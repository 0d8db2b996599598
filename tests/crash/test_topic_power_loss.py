"""The power is cut at every step of operations on topics and groups: whatever is left on disk, the next
opening finds every acknowledged change that was durable, a transaction in all partitions or in none, and nothing
invented; what is retried under its idempotency key is stored once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from seglog.testing.crash_states import Moment, State, key_of, moments
from seglog.testing.disk import Disk, Image
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.power_loss import decoding_once, repeatable
from seglog.topic.broker import Broker
from tests.crash.topic_ledger import GROUP, Content, Standing, TopicLedger, content_of
from tests.crash.topic_scenarios import ONCE, SCENARIOS, SMALL, Scenario, Step, clock, killed

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proofs import Tell

PROOF = "crash states of topics"


@dataclass
class TopicPowerLoss:
    """Proves what a step does to a broker. sample: how many combinations are tried where there are too many; seed: of
    that sample; again: the power is cut again in the opening of every so many-th state; thin: only one of so many
    states is opened.
    """

    sample: int
    thin: int = 1
    seed: int = 0
    again: int = 50
    moments: int = 0
    states: int = 0
    judged: int = 0
    recoveries: int = 0
    violations: list[str] = field(default_factory=list)
    _closed: dict[int, Content] = field(default_factory=dict)

    def prove(self, prepare: Step, run: Step) -> dict[str, int]:
        """Cut the power at every moment of `run`; return the counts, AssertionError where there is a violation."""
        with repeatable(), decoding_once():
            before = Disk()
            ledger = TopicLedger(lambda _: None, Standing())
            prepare(DiskStorage(before), ledger)
            disk = Disk(before.image(), recording=True)
            disk.note(ledger.standing)
            run(DiskStorage(disk), TopicLedger(disk.note, ledger.standing))
            self._cut(disk, depth=1, sample=self.sample)
        assert not self.violations, (self.seed, self.violations[:3])
        return {name: getattr(self, name) for name in ("moments", "states", "judged", "recoveries")} | {"violations": 0}

    def _cut(self, disk: Disk, *, depth: int, sample: int) -> None:
        found: dict[int, Content | str] = {}
        for moment in moments(disk):
            self.moments += 1
            for state in moment.states(sample, self.seed):
                if state.key % self.thin:
                    continue
                if state.key not in found:
                    found[state.key] = self._open(state)
                    if depth and len(found) % self.again == 1:
                        self._cut_again(state, moment.note, depth)
                self._judge(found[state.key], moment, state)

    def _open(self, state: State) -> Content | str:
        self.states += 1
        try:
            return survive(state.image, self._closed)
        except Exception as error:  # noqa: BLE001 - any error is a violation, reported with its state
            return f"{type(error).__name__}: {error}"

    def _judge(self, found: Content | str, moment: Moment, state: State) -> None:
        self.judged += 1
        assert isinstance(moment.note, Standing)
        reasons = [found] if isinstance(found, str) else moment.note.objections(found, power_lost=True)
        if reasons:
            self.violations.append(f"at {moment.at}, state {state.key:016x}: {'; '.join(reasons)}")

    def _cut_again(self, state: State, standing: object, depth: int) -> None:
        """Cut the power while a state is opened, and once it is: what the opening served must be there."""
        assert isinstance(standing, Standing)
        disk = Disk(state.image, recording=True)
        ledger = TopicLedger(disk.note, standing)
        disk.note(standing)
        try:
            broker = Broker(DiskStorage(disk), clock=clock)
            ledger.settle(broker, power_lost=True)
        except Exception:  # noqa: BLE001 - counted where the state itself is opened
            return
        self.recoveries += 1
        self._cut(disk, depth=depth - 1, sample=max(4, self.sample // 8))


def survive(image: Image, closed: dict[int, Content]) -> Content:
    """Open what a crash has left, and return what it holds; AssertionError or an error of ours where it is not sound.

    What was appended once may be appended again, a topic that is not there may be created, groups go on; and the second
    opening finds nothing to recover and all of that. closed: by the key of all files, what was found at second
    openings, to be added to: most end with equal files.
    """
    disk = Disk(image)
    storage = DiskStorage(disk)
    with repeatable(seed=1), Broker(storage, clock=clock) as broker:
        content = content_of(broker)
        for name, log in broker.logs().items():
            problems = [problem for problem in log.verify().problems if problem.kind != "index"]  # lookups are derived
            assert not problems, (name, problems)
        assert not [name for name in storage.names() if name.startswith(".deleted-")]
        if "orders" not in content.topics:
            broker.create_topic("orders", partitions=2, config=SMALL)
            assert GROUP not in broker.groups.names() or broker.groups.committed(GROUP) == {}
        retry(broker)
        after = content_of(broker)
    left = key_of(disk.image())
    if closed.get(left) != after:
        with Broker(storage, clock=clock) as broker:
            assert broker.recovered == ()
            assert all(log.recovery.clean for log in broker.logs().values())
            assert content_of(broker) == after
        closed[left] = after
    return content


def retry(broker: Broker) -> None:
    """Append everything that is appended once, again or for the first time: it is there once."""
    topic = broker.topic("orders")
    for key, shares in ONCE.items():
        rows = [(number, value) for number, values in shares.items() for value in values]
        if len(rows) == 1:
            topic.append(rows[0][1], partition=rows[0][0], once=key)
        else:
            table = pa.table({"partition": [number for number, _ in rows], "value": [value for _, value in rows]})
            topic.append_batch(table, once=key)
        for number, value in rows:
            stored = [record.value for record in topic.partition(number).scan()]
            assert stored.count(value) == 1, f"{value!r} is stored {stored.count(value)} times"


def one_round(seed: int, root: Path) -> dict[str, int]:
    """A process killed at a call drawn by the seed, then another one, and the power cut at every moment of both."""
    scenario = SCENARIOS[seed % len(SCENARIOS)]
    proof = TopicPowerLoss(sample=30, thin=8, seed=seed, again=60)
    return proof.prove(scenario.prepare, killed(scenario.run, 1 + seed // len(SCENARIOS) * 7 % 150))


@pytest.mark.no_cover
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_power_cut_within_what_is_done_to_topics_loses_nothing_durable(scenario: Scenario) -> None:
    TopicPowerLoss(sample=0, thin=400, again=10_000).prove(scenario.prepare, scenario.run)


@pytest.mark.proof
@pytest.mark.timeout(900)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_a_twelfth_of_the_states_of_topics_that_a_power_cut_may_leave(scenario: Scenario, tell: Tell) -> None:
    tell(PROOF, scenario=scenario.name, **TopicPowerLoss(sample=40, thin=12).prove(scenario.prepare, scenario.run))


@pytest.mark.deep
@pytest.mark.timeout(900)  # 27,000 states of the largest scenario: three to four minutes on a processor of its own
@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda scenario: scenario.name)
def test_every_state_of_topics_that_a_power_cut_may_leave(scenario: Scenario, tell: Tell) -> None:
    tell(PROOF, scenario=scenario.name, **TopicPowerLoss(sample=40).prove(scenario.prepare, scenario.run))


@pytest.mark.proof
@pytest.mark.parametrize("seed", [*range(7), 40])  # 40 found a removal whose name came back without its files
def test_a_power_cut_after_a_process_was_killed(seed: int, tell: Tell, tmp_path: Path) -> None:
    tell(PROOF, scenario=f"killed before, seed {seed}", **one_round(seed, tmp_path))
