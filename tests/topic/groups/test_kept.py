"""A group without members and committed offsets stays for a while, as with Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from seglog.errors import GroupNotFound
from seglog.topic.groups.bounds import EMPTY_SECONDS

if TYPE_CHECKING:
    from tests.topic.groups.conftest import Hall


def test_a_group_whose_last_offset_is_deleted_stays_until_it_expires(hall: Hall) -> None:
    hall.groups.commit("g", {"orders": {0: 1, 1: 1}})
    hall.groups.forget_offsets("g", [("orders", 0), ("orders", 1)])
    assert (hall.groups.names(), hall.groups.committed("g")) == (["g"], {})
    hall.groups.forget_offsets("g", [("orders", 0)])
    for _ in range(2):  # it is found empty, then expired
        assert hall.groups.names() == ["g"]
        hall.clock.advance(EMPTY_SECONDS + 1)
    assert hall.groups.names() == []
    with pytest.raises(GroupNotFound):
        hall.groups.committed("g")


@pytest.mark.parametrize("how", ["its offsets are deleted", "its topic is deleted"])
def test_a_group_without_offsets_is_of_the_topics_that_it_had_so_that_it_is_hidden_from_the_same_callers(
    hall: Hall, how: str
) -> None:
    hall.groups.commit("g", {"orders": {0: 1, 1: 1}})
    hall.groups.hold("g", "a test")
    hall.groups.release("g", "remains")
    if how == "its topic is deleted":
        hall.groups.forget_topic("orders")
    else:
        hall.groups.forget_offsets("g", [("orders", 0), ("orders", 1)])
    assert (hall.groups.committed("g"), hall.groups.topics("g")) == ({}, {"orders"})
    assert hall.groups.remains("g") == "remains"


def test_a_group_with_offsets_does_not_expire(hall: Hall) -> None:
    hall.groups.commit("g", {"orders": {0: 1}})
    hall.groups.hold("g", "a test")
    hall.groups.release("g", "remains")
    for _ in range(3):
        assert (hall.groups.names(), hall.groups.remains("g")) == (["g"], "remains")
        hall.clock.advance(EMPTY_SECONDS + 1)


def test_a_group_that_had_members_again_expires_after_they_have_left(hall: Hall) -> None:
    hall.groups.hold("g", "a test")
    hall.groups.release("g", "remains")
    assert hall.groups.names() == ["g"]
    hall.groups.hold("g", "a test")
    hall.clock.advance(EMPTY_SECONDS + 1)
    hall.groups.release("g", "remains")
    assert hall.groups.names() == ["g"]


def test_a_group_that_loses_its_offsets_while_it_has_members_is_hidden_after_they_have_left(hall: Hall) -> None:
    hall.groups.commit("g", {"orders": {0: 1}})
    hall.groups.hold("g", "a test")
    hall.groups.forget_offsets("g", [("orders", 0)], holds=True)
    for _ in range(2):  # members come again
        hall.groups.release("g", "remains")
        assert (hall.groups.remains("g"), hall.groups.topics("g")) == ("remains", {"orders"})
        assert hall.groups.hold("g", "a test") == "remains"
        assert hall.groups.remains("g") is None


def test_what_another_coordinator_keeps_of_a_group_ends_with_the_group(hall: Hall) -> None:
    def released(remains: object) -> None:
        hall.groups.hold("g", "a test")
        hall.groups.release("g", remains)

    released("first")
    assert hall.groups.hold("g", "a test") == "first"
    hall.groups.release("g", "second")
    hall.groups.delete("g")
    assert (hall.groups.names(), hall.groups.remains("g")) == ([], None)
    released("third")
    hall.groups.join("g", ["orders"], member="m")
    assert (hall.groups.names(), hall.groups.remains("g")) == (["g"], None)
    hall.groups.leave("g", "m")
    released("fourth")
    hall.reopen()
    assert hall.groups.remains("g") is None


def test_groups_that_are_only_kept_are_bounded(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.topic.groups.groups.MAX_GROUPS", 2)
    for name in "abc":
        hall.groups.hold(name, "a test")
        hall.groups.release(name, "remains")
    assert hall.groups.names() == ["a", "b"]
