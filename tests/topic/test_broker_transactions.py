"""A transaction over topics and a group, and a process or a medium that fails at any call: all of it or nothing."""

from __future__ import annotations

import errno
import itertools
import shutil
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import seglog
from seglog.storage import LocalStorage, MemoryStorage
from seglog.testing.crash_states import moments
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.faulty import SYNCING, WRITING, Crashed, Fault, FaultyStorage
from seglog.testing.power_loss import decoding_once, repeatable
from seglog.topic.broker import Broker, transactions_of
from seglog.topic.transactions.journal import Batch, Journal

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
OLD = {("a", 0): [b"old a"], ("a", 1): [], ("b", 0): [b"old b"]}
NEW = {
    ("a", 0): [b"first %d" % number * 9 for number in range(6)] + [b"again %d" % number * 9 for number in range(6)],
    ("a", 1): [b"one"],
    ("b", 0): [b"b%d" % number for number in range(3)],
}
BOTH = {place: OLD[place] + NEW[place] for place in OLD}
BEFORE, AFTER = {"a": {0: 1}}, {"a": {0: 1, 1: 0}, "b": {0: 1}}


def clock() -> int:
    return 1_700_000_000_000_000


def prepare(storage: Any) -> None:
    with Broker(storage, clock=clock) as broker:
        for name, partitions in (("a", 2), ("b", 1)):
            topic = broker.create_topic(name, partitions=partitions, config=SMALL)
            for number in range(partitions):
                for value in OLD[name, number]:
                    topic.partition(number).append(value)
        broker.groups.commit("g", BEFORE, durable=True)


def stage(broker: Broker) -> Journal:
    """Begin a transaction and stage NEW: two batches for the first partition, one for each of the others."""
    transactions = transactions_of(broker)
    journal = transactions.begin({"id": "x"})
    shares = [
        (("a", 0), NEW["a", 0][:6]),
        (("a", 1), NEW["a", 1]),
        (("b", 0), NEW["b", 0]),
        (("a", 0), NEW["a", 0][6:]),
    ]
    for number, ((topic, partition), values) in enumerate(shares):
        batch = Batch(topic, broker.topic(topic).id, partition, f"x {number}", len(values), {})
        transactions.stage(journal, batch, pa.record_batch({"value": pa.array(values)}))
    journal.stage_offsets("g", {("a", 1): (0, ""), ("b", 0): (1, "text")})
    return journal


def commit(broker: Broker, journal: Journal) -> None:
    transactions_of(broker).decide(journal)
    transactions_of(broker).publish(journal)
    journal.remove()


def contents(broker: Broker) -> tuple[dict[tuple[str, int], list[bytes]], Any]:
    values = {place: [one.value for one in broker.topic(place[0]).partition(place[1]).scan()] for place in OLD}
    return values, broker.groups.committed("g")


def check(storage: Any) -> bool:
    """Open what a crash has left: all or nothing, sound, the same at the second opening. Return whether it is all."""
    with Broker(storage, clock=clock) as broker:
        found = contents(broker)
        assert found in ((OLD, BEFORE), (BOTH, AFTER)), found
        assert broker.unpublished == {}
        assert all(not [one for one in log.verify().problems if one.kind != "index"] for log in broker.logs().values())
        settled, _ = transactions_of(broker).take_over()
        assert len(settled) <= 1
        assert all(one.is_published == (found == (BOTH, AFTER)) for one in settled)
        for one in settled:
            one.remove()
        broker.topic("b").append(b"and on")
    with Broker(storage, clock=clock) as broker:
        assert contents(broker) == ({**found[0], ("b", 0): [*found[0]["b", 0], b"and on"]}, found[1])
        assert transactions_of(broker).take_over() == ([], [])
    return found == (BOTH, AFTER)


class Run(NamedTuple):
    """What a run left. error: what ended it, if anything."""

    root: Path
    storage: FaultyStorage
    broker: Broker | None
    journal: Journal | None
    error: BaseException | None


class Laboratory:
    """Commits again and again on copies of a broker, each time going wrong one call later."""

    def __init__(self, root: Path) -> None:
        self.template = root / "template"
        prepare(LocalStorage(self.template))
        self._copies = root / "runs"

    def runs(self, fault: Fault, *, opening: bool = False, every: int = 1) -> Iterator[Run]:
        """Yield a run for each call that fails, and one without a failure. opening: of an opening, not of a commit."""
        for at in itertools.count(1, every):
            root = self._copies / str(at)
            shutil.copytree(self.template, root)
            storage = FaultyStorage(LocalStorage(root))
            broker, journal, error = None, None, None
            try:
                storage.fault = replace(fault, at=at) if opening else None
                broker = Broker(storage, clock=clock)
                if not opening:
                    journal = stage(broker)
                    storage.fault = replace(fault, at=at)
                    commit(broker, journal)
            except (Crashed, seglog.SeglogError) as caught:
                error = caught
            struck = storage.struck
            yield Run(root, storage, broker, journal, error)
            storage.crash()
            shutil.rmtree(root)
            if not struck:
                assert at > 1, "there is no such call"
                return


@pytest.fixture
def laboratory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Laboratory:
    """What dies here is a process, and the kernel keeps what it wrote: thousands of real syncs would only take time."""
    monkeypatch.setattr("seglog.storage.local_file.sync_data", lambda _descriptor: None)
    monkeypatch.setattr(LocalStorage, "_sync", staticmethod(lambda _path: None))
    return Laboratory(tmp_path)


@pytest.mark.parametrize(
    ("keep", "every"),
    [(0.0, 6), pytest.param(0.0, 1, marks=pytest.mark.deep), pytest.param(0.5, 1, marks=pytest.mark.deep)],
)
def test_a_crash_at_any_call_of_a_commit_leaves_all_of_it_or_nothing(
    laboratory: Laboratory, keep: float, every: int
) -> None:
    outcomes = []
    for run in laboratory.runs(Fault(keep=keep), every=every):
        run.storage.crash()
        outcomes.append(check(LocalStorage(run.root)))
        assert outcomes[-1] or run.error is not None
    commit_at = outcomes.index(True)
    assert 0 < commit_at <= 4 // every + 1, "the last frame is the commit, before any log is touched"
    assert outcomes == [False] * commit_at + [True] * (len(outcomes) - commit_at)
    assert len(outcomes) > 40 // every


@pytest.mark.parametrize(
    "operations", [frozenset({"unlink"}), pytest.param(frozenset({"pwrite", "pwritev"}), marks=pytest.mark.deep)]
)
def test_a_crash_at_any_call_of_completing_it_at_the_next_opening_is_completed_by_the_one_after(
    laboratory: Laboratory, operations: frozenset[str]
) -> None:
    storage = FaultyStorage(LocalStorage(laboratory.template))
    broker = Broker(storage, clock=clock)
    journal = stage(broker)
    transactions_of(broker).decide(journal)
    at = 1 if "unlink" in operations else 3
    storage.fault = Fault(operations=operations, at=at)
    with pytest.raises(Crashed):
        transactions_of(broker).publish(journal)
        journal.remove()
    storage.crash()
    for run in laboratory.runs(Fault(), opening=True, every=9):
        run.storage.crash()
        assert check(LocalStorage(run.root))


@pytest.mark.parametrize(
    ("error", "every"),
    [
        (errno.ENOSPC, 5),
        pytest.param(errno.ENOSPC, 1, marks=pytest.mark.deep),
        pytest.param(errno.EIO, 1, marks=pytest.mark.deep),
    ],
)
def test_what_a_medium_refuses_is_undecided_or_published_by_a_repetition(
    laboratory: Laboratory, error: int, every: int
) -> None:
    waited = 0
    for run in laboratory.runs(Fault(operations=WRITING - SYNCING, error=error), every=every):
        broker, journal = run.broker, run.journal
        assert broker is not None
        assert journal is not None
        if journal.decision is None:
            assert contents(broker) == (OLD, BEFORE)
            commit(broker, journal)
        elif run.error is not None:
            waited += run.error is not None and [*broker.unpublished] == [f".transactions/{journal.name}"]
            broker.topic("a").append(b"of another", partition=1)
            transactions_of(broker).publish(journal)
            journal.remove()
        assert broker.unpublished == {}
        values, offsets = contents(broker)
        assert [one for one in values["a", 1] if one != b"of another"] == BOTH["a", 1]
        assert (values["a", 0], values["b", 0], offsets) == (BOTH["a", 0], BOTH["b", 0], AFTER)
        broker.close()
        with Broker(run.root, clock=clock) as again:
            assert contents(again) == (values, offsets)
    assert waited > 1


def test_a_full_disk_at_the_next_opening_is_reported_and_the_transaction_is_published_later(tmp_path: Path) -> None:
    root = tmp_path / "root"
    prepare(LocalStorage(root))
    with Broker(root, clock=clock) as broker:
        transactions_of(broker).decide(stage(broker))
    storage = FaultyStorage(LocalStorage(root))
    storage.fault = Fault(operations=frozenset({"pwrite", "pwritev"}), name="a/0", error=errno.ENOSPC, forever=True)
    with Broker(storage, clock=clock) as broker:
        assert "cannot be published" in broker.recovered[0]
        ((name, error),) = broker.unpublished.items()
        assert "No space left" in str(error), name
        storage.fault = None
        _, [journal] = transactions_of(broker).take_over()
        transactions_of(broker).publish(journal)
        assert contents(broker) == (BOTH, AFTER)
        assert broker.unpublished == {}
        journal.remove()
    assert check(LocalStorage(root))


def test_after_a_failed_sync_the_next_opening_decides(laboratory: Laboratory) -> None:
    for run in laboratory.runs(Fault(operations=SYNCING, error=errno.EIO)):
        run.storage.crash()
        assert check(LocalStorage(run.root)) or run.error is not None


def test_what_others_have_committed_and_appended_since_the_decision_stays(tmp_path: Path) -> None:
    """A transaction is published, but for the note of it, and the group goes on; then the process dies."""
    root = tmp_path / "root"
    prepare(LocalStorage(root))
    with Broker(root, clock=clock) as broker:
        journal = stage(broker)
        transactions_of(broker).decide(journal)
        transactions_of(broker).publish(journal)
        broker.topic("b").append(b"later")
        broker.groups.commit("g", {"b": {0: 4}})
    with Broker(root, clock=clock) as broker:
        values, offsets = contents(broker)
        assert values == {**BOTH, ("b", 0): [*BOTH["b", 0], b"later"]}
        assert offsets == {**AFTER, "b": {0: 4}}


def test_a_damaged_journal_is_undecided(tmp_path: Path) -> None:
    root = tmp_path / "root"
    prepare(LocalStorage(root))
    with Broker(root, clock=clock) as broker:
        journal = stage(broker)
        transactions_of(broker).decide(journal)
    path = root / ".transactions" / journal.name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    assert not check(LocalStorage(root))


@pytest.mark.proof
def test_a_power_cut_at_any_moment_of_a_commit_leaves_all_of_it_or_nothing() -> None:
    with repeatable(), decoding_once():
        before = Disk()
        prepare(DiskStorage(before))
        disk = Disk(before.image(), recording=True)
        disk.note(False)
        broker = Broker(DiskStorage(disk), clock=clock)
        commit(broker, stage(broker))
        disk.note(True)
        found: dict[int, bool] = {}
        for moment in moments(disk):
            for state in moment.states(3, 0):
                if state.key % 3:  # a third of them is enough to find any order that is wrong
                    continue
                if state.key not in found:
                    found[state.key] = check(DiskStorage(Disk(state.image)))
                assert found[state.key] or not moment.note, f"at {moment.at}: what was acknowledged is gone"
    assert {False, True} <= set(found.values())
    assert len(found) > 50


def test_a_reader_sees_the_batches_of_a_commit_one_after_another_and_the_offsets_last() -> None:
    seen: list[Any] = []
    with Broker(MemoryStorage(), clock=clock) as broker:
        for name, partitions in (("a", 2), ("b", 1)):
            broker.create_topic(name, partitions=partitions, config=SMALL)
        broker.groups.commit("g", {"a": {0: 0}})
        journal = stage(broker)
        transactions_of(broker).decide(journal)

        def look(*_: object) -> None:
            ends = [
                broker.topic(topic).partition(number).next_offset for topic, number in (("a", 0), ("a", 1), ("b", 0))
            ]
            seen.append((ends, broker.groups.committed("g")))

        look()
        transactions_of(broker).publish(journal, look)
        look()
        journal.remove()
    before, after = {"a": {0: 0}}, {"a": {0: 0, 1: 0}, "b": {0: 1}}
    ends = [[0, 0, 0], [6, 0, 0], [6, 1, 0], [6, 1, 3], [12, 1, 3]]
    assert seen == [*((one, before) for one in ends), (ends[-1], after)]
