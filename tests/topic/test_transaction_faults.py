"""A batch for many partitions, and a process or a medium that fails at any call: all have their share or none has."""

from __future__ import annotations

import errno
from typing import Any

import pytest

import seglog
from seglog.testing.faulty import SYNCING, WRITING, Fault
from seglog.topic import Topic

REFUSABLE = WRITING - SYNCING


def check_survivor(laboratory: Any, run: Any, *, acknowledged: bool) -> bool:
    """The real opening finishes what was committed; published again, the batch is there once. Returns whether it was
    there before that.
    """
    scene = run.scene
    both = scene.joined(scene.OLD, scene.NEW)
    with Topic.open(scene.root) as topic:
        found = scene.values(topic)
        assert found == both if acknowledged else found in (scene.joined(scene.OLD), both)
        scene.check_sound(topic)
        again = laboratory.publish(topic)
        assert (again is None) == (found == both)
        assert scene.values(topic) == both
        assert topic.partition(2).append(b"and on") == 1
        scene.check_sound(topic)
    with Topic.open(scene.root) as topic:
        assert all(topic.partition(number).recovery.clean for number in range(4))
        assert laboratory.publish(topic) is None
    return bool(found == both)


@pytest.mark.no_cover
@pytest.mark.parametrize("keep", [0.0, pytest.param(0.5, marks=pytest.mark.deep)])
def test_a_crash_at_any_call_of_publish_leaves_all_of_the_batch_or_nothing(laboratory: Any, keep: float) -> None:
    runs = laboratory.runs(laboratory.publish, Fault(keep=keep))
    outcomes = [check_survivor(laboratory, run, acknowledged=run.error is None) for run in runs]
    commit = outcomes.index(True)
    assert 3 < commit < 12, "it is committed by a rename, before any partition is touched"
    assert outcomes == [False] * commit + [True] * (len(outcomes) - commit)


STEPS = {
    "before the first partition": Fault(operations=frozenset({"link"}), name="0/0"),
    "half-way into a partition": Fault(operations=frozenset({"link"}), name="1/0", at=2),
    "between two partitions": Fault(operations=frozenset({"link"}), name="3/0"),
    "before the transaction is forgotten": Fault(operations=frozenset({"unlink"}), name="txn/q-0.json"),
}


@pytest.mark.no_cover
@pytest.mark.parametrize(
    "fault",
    [pytest.param(one, marks=[] if "between" in name else [pytest.mark.deep]) for name, one in STEPS.items()],
    ids=STEPS.keys(),
)
def test_a_crash_at_any_call_of_finishing_it_at_the_next_opening_is_finished_by_the_one_after(
    laboratory: Any, fault: Fault
) -> None:
    laboratory.die_publishing(fault)
    assert laboratory.template.transactions() == ["q-0.json"]
    for run in laboratory.runs(lambda topic: None, Fault(), opening=True):
        check_survivor(laboratory, run, acknowledged=True)


@pytest.mark.parametrize("error", [errno.ENOSPC, pytest.param(errno.EIO, marks=pytest.mark.deep)])
def test_a_medium_that_refuses_any_call_leaves_what_the_same_topic_finishes_before_its_next_append(
    laboratory: Any, error: int
) -> None:
    noted = 0
    for run in laboratory.runs(laboratory.publish, Fault(operations=REFUSABLE, error=error)):
        scene, topic = run.scene, run.topic
        both = scene.joined(scene.OLD, scene.NEW)
        committed = scene.transactions() != []
        if run.error is not None:
            assert isinstance(run.error, seglog.StorageError)
            noted += "is committed" in "".join(getattr(run.error, "__notes__", []))
        run.storage.fault = None
        assert topic.append(b"next", key=b"some key")
        after = scene.values(topic)
        number = next(number for number, values in after.items() if values[-1:] == [b"next"])
        assert after[number].pop() == b"next"
        assert after == both if committed or run.error is None else after in (scene.joined(scene.OLD), both)
        assert scene.transactions() == []
        assert (laboratory.publish(topic) is None) == (after == both)
        topic.close()
        with Topic.open(scene.root) as topic:
            if after == both:
                assert scene.values(topic) == scene.joined(both, {number: [b"next"]})
            else:
                assert scene.values(topic) == scene.joined(scene.OLD, {number: [b"next"]}, scene.NEW)
            problems = [problem for part in range(4) for problem in topic.partition(part).verify().problems]
            assert all(problem.kind == "index" for problem in problems), "a lookup may be missing: it is derived"
    assert noted > 20


@pytest.mark.deep
def test_a_medium_that_goes_on_refusing_loses_nothing(laboratory: Any) -> None:
    fault = Fault(operations=REFUSABLE, error=errno.ENOSPC, forever=True)
    for run in laboratory.runs(laboratory.publish, fault):
        scene = run.scene
        both = scene.joined(scene.OLD, scene.NEW)
        run.storage.crash()
        with Topic.open(scene.root) as topic:
            assert scene.values(topic) in (scene.joined(scene.OLD), both)
            laboratory.publish(topic)
            assert scene.values(topic) == both
            assert scene.transactions() == []


def test_wherever_a_sync_fails_the_next_opening_finishes_what_was_committed(laboratory: Any) -> None:
    for run in laboratory.runs(laboratory.publish, Fault(operations=SYNCING, error=errno.EIO)):
        if run.storage.struck:
            assert isinstance(run.error, seglog.LogPoisoned)
        run.storage.crash()
        check_survivor(laboratory, run, acknowledged=run.error is None)
