"""What the committed offsets of groups take is counted as they change, and the same after the log is read again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from seglog.errors import Busy
from seglog.topic.groups.charges import Payer
from seglog.topic.groups.records import COMMIT_BYTES, Note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seglog.topic.groups.charges import Charges
    from tests.topic.groups.conftest import Hall


def test_the_bytes_of_each_group_follow_its_commits(hall: Hall) -> None:
    def sizes() -> dict[str, int]:
        charges = hall.groups._book.charges
        assert charges.size == sum(charges.sizes.values()) == sum(charges.paid().values())
        return dict(charges.sizes)

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


def test_a_refused_commit_changes_nothing(hall: Hall) -> None:
    asked: list[tuple[str, int]] = []

    def admits(group: str, growth: Mapping[str, int], charges: Charges) -> None:
        asked.append((group, growth.get("me", 0)))
        if charges.size:
            raise Busy("full")

    hall.groups.commit("g", {"orders": {0: 1}}, payer=Payer("me", admits))
    with pytest.raises(Busy):
        hall.groups.commit("g", {"orders": {0: 3, 1: 3}}, payer=Payer("me", admits))
    assert hall.groups.committed("g") == {"orders": {0: 1}}
    assert asked == [("g", COMMIT_BYTES + 2)] * 2
