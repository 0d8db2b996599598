"""The wall clock is set forward or back while members of a group are active: their sessions do not depend on it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from seglog import Broker, UnknownMember
from seglog import clock as clocks
from seglog.clock import system_clock, ticks, ticks_for
from seglog.topic.groups import Groups, bounds
from tests.conftest import ManualClock

if TYPE_CHECKING:
    from pathlib import Path

    from tests.topic.groups.conftest import Hall

DAY = 24 * 3600


@pytest.fixture
def passing() -> ManualClock:
    """What measures durations; the clock of the hall is the one that is set."""
    return ManualClock()


@pytest.fixture
def groups(hall: Hall, passing: ManualClock) -> Groups:
    return Groups(
        hall.log,
        partitions=hall.count,
        clock=hall.clock,
        ticks=passing,
        bounds=hall.bounds,
        records_from=lambda *_: 0,
    )


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_a_member_is_active_by_what_has_passed_and_not_by_what_the_clock_shows(
    groups: Groups, clock: ManualClock, passing: ManualClock, step: int
) -> None:
    one = groups.join("g", ["orders"], session_timeout=10)
    passing.advance(6)
    clock.advance(step)
    groups.commit("g", {"orders": {0: 1}}, member=one.member)
    assert groups.heartbeat("g", one.member, one.generation).assignment == one.assignment
    [shown] = groups.describe("g").members
    assert shown.seen_at == clock.now
    passing.advance(10.1)
    with pytest.raises(UnknownMember):
        groups.commit("g", {"orders": {0: 1}}, member=one.member)


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_an_empty_group_is_kept_for_ten_minutes_that_have_passed(
    groups: Groups, clock: ManualClock, passing: ManualClock, step: int
) -> None:
    groups.leave("g", groups.join("g", ["orders"]).member)
    passing.advance(bounds.SWEEP_SECONDS + 1)
    assert groups.names() == ["g"]
    clock.advance(step)
    passing.advance(bounds.SWEEP_SECONDS + 1)
    assert groups.names() == ["g"]
    passing.advance(bounds.EMPTY_SECONDS)
    assert groups.names() == []


@pytest.mark.parametrize("step", [DAY, -DAY])
def test_consumers_of_a_broker_go_on_when_the_clock_of_the_machine_is_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    with Broker(tmp_path) as broker:
        topic = broker.create_topic("t")
        topic.append(b"one")
        with broker.consumer("g", ["t"]) as consumer:
            assert [record.value for record in consumer.poll()] == [b"one"]
            monkeypatch.setattr(clocks, "time_ns", lambda: time.time_ns() + step * 1_000_000_000)
            consumer.commit()
            topic.append(b"two")
            assert [record.value for record in consumer.poll()] == [b"two"]
            consumer.commit()
        assert broker.groups.committed("g") == {"t": {0: 2}}


def test_a_clock_of_ones_own_measures_durations_too() -> None:
    clock = ManualClock()
    assert ticks_for(clock) is clock
    assert ticks_for(system_clock) is ticks
    assert ticks() <= ticks()
