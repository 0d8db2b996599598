"""When to look again, how long to wait, which log has its turn: the pure part of the cleaner."""

from __future__ import annotations

import pytest

from seglog.compaction.schedule import Reason, Standing
from seglog.topic.cleaning.timing import Retry, Trouble, dirtiest, is_over, largest, next_look

SECOND = 1_000_000


def stands(ratio: float, due: Reason | None = "dirty") -> Standing:
    return Standing(
        due=due, dirty_bytes=0, total_bytes=0, ratio=ratio, next_at=None, pinned=None, segments=(), to_compress=0
    )


def test_the_wait_doubles_with_each_failure_up_to_its_limit() -> None:
    retry = Retry(first=1.0, most=300.0)
    waits = [retry.wait(failures) / SECOND for failures in range(1, 12)]
    assert waits == [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300]
    assert retry.wait(10**9) == 300 * SECOND


def test_a_failure_in_a_row_makes_the_trouble_longer() -> None:
    retry = Retry(first=1.0, most=300.0)
    first = Trouble.after(None, "one", 5 * SECOND, retry)
    assert (first.failures, first.until, first.error) == (1, 6 * SECOND, "one")
    second = Trouble.after(first, "two", 6 * SECOND, retry)
    assert (second.failures, second.until, second.error) == (2, 8 * SECOND, "two")


def test_a_trouble_waits_until_its_end_and_not_for_a_clock_that_was_put_back() -> None:
    trouble = Trouble(failures=1, since=100, wait=10, error="")
    assert [trouble.waits(now) for now in (100, 109, 110, 99, 0)] == [True, True, False, False, False]


def test_an_interval_is_over_at_its_end_and_where_the_clock_was_put_back() -> None:
    assert [is_over(100, 110, now) for now in (100, 109, 110, 99)] == [False, False, True, True]


def test_the_next_look_is_after_the_interval_or_at_an_earlier_moment_to_come() -> None:
    assert next_look(100, 50, []) == 150
    assert next_look(100, 50, [None, 200]) == 150
    assert next_look(100, 50, [120, 110, None]) == 110
    assert next_look(100, 50, [100, 90]) == 150  # seen to by the look at 100


def test_the_dirtiest_log_that_is_due_comes_first() -> None:
    assert dirtiest({"a": stands(0.6), "b": stands(0.9), "c": stands(0.7)}) == "b"
    assert dirtiest({"b": stands(0.6), "a": stands(0.6)}) == "a"


@pytest.mark.parametrize("due", ["lag", "tombstones"])
def test_a_lag_and_tombstones_count_whatever_the_ratio(due: Reason) -> None:
    assert dirtiest({"a": stands(0.4, None), "b": stands(0.0, due)}) == "b"


def test_where_nothing_is_due_none_has_its_turn() -> None:
    assert dirtiest({"a": stands(0.9, None)}) is None
    assert dirtiest({}) is None


def test_the_log_with_most_bytes_to_compress_comes_first() -> None:
    assert largest({"a": 10, "b": 30, "c": 20}) == "b"
    assert largest({"b": 10, "a": 10}) == "a"
    assert largest({"a": 0}) is None
    assert largest({}) is None
