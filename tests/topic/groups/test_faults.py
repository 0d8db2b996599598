"""What the medium refuses is not believed; what a dying process had acknowledged is there at the next opening."""

from __future__ import annotations

import errno

import pytest

import seglog
from seglog import MemoryStorage, StorageError
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.topic.groups import Groups

WRITES = frozenset({"pwrite", "pwritev", "write"})


@pytest.fixture
def faulty(hall) -> FaultyStorage:
    """The hall's storage, faulty from here on."""
    hall.log.close()
    hall.storage = FaultyStorage(hall.storage)
    hall.open()
    return hall.storage


def test_what_could_not_be_written_is_not_answered_from_later(hall, faulty):
    groups = hall.groups
    answer = groups.join("billing", ["orders"], member="a")
    groups.commit("billing", {"orders": {0: 5, 1: 5}}, member="a")
    for call in (
        lambda: groups.join("billing", ["orders"], member="b"),
        lambda: groups.commit("billing", {"orders": {0: 9, 1: 9}}, member="a"),
        lambda: groups.leave("billing", "a"),
        lambda: groups.forget_topic("orders"),
    ):
        faulty.fault = Fault(operations=WRITES, error=errno.ENOSPC, forever=True)
        with pytest.raises(StorageError):
            call()
        faulty.fault = None
        assert groups.committed("billing") == {"orders": {0: 5, 1: 5}}
        assert groups.heartbeat("billing", "a", answer.generation) == answer
        assert [member.id for member in groups.describe("billing").members] == ["a"]
    groups.commit("billing", {"orders": {0: 9}}, member="a")
    assert hall.reopen().committed("billing") == {"orders": {0: 9, 1: 5}}


def story(groups: Groups, acknowledged: dict) -> None:
    """Two members, a handover and commits; says after each step what was acknowledged."""
    first = groups.join("billing", ["orders"], member="a")
    acknowledged["members"] = {"a"}
    groups.commit("billing", {"orders": dict.fromkeys(range(4), 5)}, member="a")
    acknowledged["offsets"] = dict.fromkeys(range(4), 5)
    second = groups.join("billing", ["orders"], member="b")
    acknowledged["members"] = {"a", "b"}
    told = groups.heartbeat("billing", "a", first.generation)
    groups.heartbeat("billing", "a", told.generation)
    (_, one), (_, other) = groups.heartbeat("billing", "b", second.generation).assignment
    groups.commit("billing", {"orders": {one: 7}}, member="b")
    acknowledged["offsets"] |= {one: 7}
    groups.commit("billing", {"orders": {other: 8}}, member="b")
    acknowledged["offsets"] |= {other: 8}


@pytest.mark.parametrize("keep", [0.0, 0.5, 1.0])
def test_whichever_write_is_the_last_what_was_acknowledged_is_there(hall, keep):
    for at in range(1, 100):
        inner = MemoryStorage()
        seglog.open(inner, hall.CONFIG).close()
        hall.storage = FaultyStorage(inner, Fault(operations=WRITES, at=at, keep=keep))
        acknowledged: dict = {"members": set(), "offsets": {}}
        crashed = False
        try:
            story(hall.open(), acknowledged)
        except Crashed:
            crashed = True
        hall.storage.crash()
        hall.storage = inner
        groups = hall.open()
        if groups.names():
            state = groups.describe("billing")
            owned = [one for member in state.members for one in member.assignment]
            assert len(owned) == len(set(owned))
            assert {member.id for member in state.members} >= acknowledged["members"]
            there = state.committed.get("orders", {})
            assert all(there.get(number, 0) >= offset for number, offset in acknowledged["offsets"].items())
        else:
            assert not acknowledged["members"]
        hall.log.close()
        if not crashed:
            break
    assert 5 < at < 99
    assert there == acknowledged["offsets"]
