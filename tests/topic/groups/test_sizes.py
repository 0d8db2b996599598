"""What the committed offsets of groups take is counted as they change, and the same after the log is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from seglog.errors import Busy
from seglog.topic.groups.records import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.topic.groups.conftest import Hall


def test_the_bytes_of_each_group_follow_its_commits(hall: Hall) -> None:
    def sizes() -> dict[str, int]:
        book = hall.groups._book
        assert book.size == sum(book.sizes.values())
        return dict(book.sizes)

    hall.groups.commit(
        "g", {"orders": {0: 1, 1: 1}}, notes={("orders", 0): Note("m" * 100), ("orders", 1): Note("\u20ac")}
    )
    hall.groups.commit("h", {"users": {0: 1}})
    first = sizes()
    assert first["g"] == 2 * first["h"] + 100 + len("\\u20ac")
    hall.groups.commit("g", {"orders": {0: 2}})
    assert sizes()["g"] == first["g"] - 100
    hall.reopen()
    assert sizes()["g"] == first["g"] - 100
    hall.groups.forget_topic("orders")
    assert sizes() == {"h": first["h"]}
    hall.groups.delete("h")
    assert sizes() == {}


def test_only_a_commit_that_takes_more_is_asked_about_and_a_refused_one_changes_nothing(hall: Hall) -> None:
    asked: list[tuple[str, bool]] = []

    def admits(group: str, more: int, sizes: Mapping[str, int], size: int) -> None:
        asked.append((group, more > 0 and size == sum(sizes.values())))
        if len(asked) > 1:
            raise Busy("full")

    hall.groups.commit("g", {"orders": {0: 1}}, admits=admits)
    hall.groups.commit("g", {"orders": {0: 2}}, admits=admits)
    with pytest.raises(Busy):
        hall.groups.commit("g", {"orders": {0: 3, 1: 3}}, admits=admits)
    assert hall.groups.committed("g") == {"orders": {0: 2}}
    assert asked == [("g", True)] * 2
