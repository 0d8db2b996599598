"""Members that claim what was never answered: other generations, ids of others, ids that are none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable

    from seglog.topic.groups import Groups

FAR = 2**63 - 1


def owned(groups: Groups, member: str) -> set[tuple[str, int]]:
    found = next(one for one in groups.describe("g").members if one.id == member)
    return {tuple(place) for place in found.assignment}


def test_a_generation_from_the_future_frees_nothing_and_takes_nothing(groups: Any) -> None:
    first = groups.join("g", ["orders"], member="first")
    groups.join("g", ["orders"], member="second")  # half of the partitions wait until `first` has released them
    for _ in range(3):
        assert groups.heartbeat("g", "second", FAR).assignment == ()
    for partition in range(4):
        with pytest.raises(seglog.NotAssigned):
            groups.commit("g", {"orders": {partition: 1}}, member="second")
    groups.commit("g", {"orders": dict.fromkeys(range(4), 1)}, member="first")
    told = groups.heartbeat("g", "first", FAR)  # it was answered generation 1 only, so nothing is free yet
    assert told.generation > first.generation
    assert groups.heartbeat("g", "second", FAR).assignment == ()
    groups.heartbeat("g", "first", told.generation)
    assert len(groups.heartbeat("g", "second", FAR).assignment) == 2


def test_one_that_left_or_was_never_a_member_changes_nothing(groups: Any) -> None:
    groups.join("g", ["orders"], member="first")
    groups.join("g", ["orders"], member="gone")
    groups.leave("g", "gone")
    before = groups.describe("g")
    for member in ("gone", "never", "FIRST", "first-", "g"):
        for call in (
            lambda member=member: groups.heartbeat("g", member, FAR),
            lambda member=member: groups.commit("g", {"orders": {0: 1}}, member=member),
        ):
            with pytest.raises((seglog.UnknownMember, seglog.NotAssigned)):
                call()
        if member != "gone":
            groups.leave("g", member)
    assert groups.describe("g") == before


IDS: list[Any] = ["", ".", "..", "a/b", "a\n", "a\0", "é", "\ud800", "a" * 300, 7, b"first", ["first"], True]
GENERATIONS: list[Any] = [None, "1", 1.0, b"1", [1], float("nan")]


@pytest.mark.parametrize(
    "call",
    [
        *(lambda groups, one=one: groups.join("g", ["orders"], member=one) for one in IDS),
        *(lambda groups, one=one: groups.heartbeat("g", one, 1) for one in IDS),
        *(lambda groups, one=one: groups.commit("g", {"orders": {0: 1}}, member=one) for one in IDS),
        *(lambda groups, one=one: groups.heartbeat("g", "first", one) for one in GENERATIONS),
    ],
)
def test_what_is_no_member_and_no_generation_is_refused_and_changes_nothing(
    groups: Any, call: Callable[[Any], object]
) -> None:
    groups.join("g", ["orders"], member="first")
    before = groups.describe("g")
    with pytest.raises(seglog.SeglogError):
        call(groups)
    assert groups.describe("g") == before


def test_generations_out_of_any_range_free_nothing(groups: Any) -> None:
    groups.join("g", ["orders"], member="first")
    groups.join("g", ["orders"], member="second")
    for generation in (-1, -(2**70), 0, 2**64, 2**200):
        assert groups.heartbeat("g", "second", generation).assignment == ()
    assert owned(groups, "first") >= {("orders", number) for number in range(2)}
