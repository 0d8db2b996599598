"""The records of a limited micro-batch: exactly the limit, in proportion, nobody starved."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from seglog.spark.read.admission import shares


def test_all_is_taken_where_the_limit_allows_it() -> None:
    assert shares([5, 0, 3], 8, turn=0) == [5, 0, 3]
    assert shares([], 8, turn=0) == []


def test_shares_are_in_proportion() -> None:
    taken = shares([800, 100, 100], 100, turn=0)
    assert all(abs(found - fair) <= 1 for found, fair in zip(taken, [80, 10, 10], strict=True))


def test_where_there_is_not_one_for_each_they_take_turns() -> None:
    taken = [shares([1000, 1, 1], 1, turn=turn) for turn in range(3)]
    assert taken == [[1, 0, 0], [0, 1, 0], [0, 0, 1]]


@given(st.lists(st.integers(0, 10**12), max_size=20), st.integers(1, 10**12), st.integers(0, 10**12))
def test_the_limit_is_met_exactly(waiting: list[int], limit: int, turn: int) -> None:
    taken = shares(waiting, limit, turn)
    assert sum(taken) == min(limit, sum(waiting))
    assert all(0 <= records <= there for records, there in zip(taken, waiting, strict=True))
    if limit >= len(waiting):
        assert all(records for records, there in zip(taken, waiting, strict=True) if there)
