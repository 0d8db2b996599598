"""Where a consumer stands: turns, commits, and what becomes of both when the group moves partitions."""

from __future__ import annotations

import pytest

from seglog.errors import NotAssigned
from seglog.topic.groups.position import Cursor

A, B, C = ("orders", 0), ("orders", 1), ("payments", 0)
SECOND = 1_000_000


@pytest.fixture
def cursor() -> Cursor:
    """All three partitions, placed at 0."""
    cursor = Cursor(30)
    cursor.adopt([C, B, A], 1, 0)
    for partition in (A, B, C):
        cursor.place(partition, 0, committed=True)
    return cursor


def test_what_is_assigned_needs_a_position_until_it_is_placed():
    cursor = Cursor()
    assert cursor.adopt([B, A], 3).added == (A, B)
    assert cursor.generation == 3
    assert cursor.needs_position() == [A, B]
    assert cursor.wanted() == {}
    cursor.place(A, 7)
    cursor.place(C, 1)
    assert cursor.needs_position() == [B]
    assert cursor.positions == cursor.wanted() == {"orders": {0: 7}}


def test_a_position_that_was_placed_is_not_placed_again(cursor):
    cursor.place(A, 9)
    assert cursor.positions["orders"][0] == 0


def test_the_partition_behind_the_last_that_gave_records_is_first(cursor):
    assert list(cursor.wanted()) == ["orders", "payments"]
    cursor.took(A, 5, True)
    assert cursor.wanted() == {"orders": {1: 0, 0: 5}, "payments": {0: 0}}
    assert list(cursor.wanted(2).items()) == [("orders", {1: 0}), ("payments", {0: 0})]
    cursor.took(B, 2, True)
    assert list(cursor.wanted(2).items()) == [("payments", {0: 0}), ("orders", {0: 5})]
    cursor.took(C, 1, True)
    assert cursor.wanted(1) == {"orders": {0: 5}}


def test_a_partition_without_records_keeps_no_turn_from_others(cursor):
    cursor.took(A, 5, True)
    cursor.took(B, 3, False)
    assert cursor.wanted(1) == {"orders": {1: 3}}


def test_what_came_of_a_partition_that_is_gone_or_was_sought_is_not_delivered(cursor):
    cursor.seek(A, 40)
    assert not cursor.took(A, 5, True, start=0)
    assert cursor.took(A, 45, True, start=40)
    cursor.adopt([A], 2)
    assert not cursor.took(B, 3, True)
    assert cursor.positions == {"orders": {0: 45}}


def test_what_was_read_is_to_be_committed_once(cursor):
    assert cursor.to_commit() == {}
    cursor.took(A, 5, True)
    cursor.took(C, 2, True)
    assert cursor.to_commit() == {"orders": {0: 5}, "payments": {0: 2}}
    cursor.committed({"orders": {0: 5}})
    assert cursor.to_commit() == {"payments": {0: 2}}
    cursor.took(A, 6, True)
    assert cursor.to_commit() == {"orders": {0: 6}, "payments": {0: 2}}


def test_a_commit_that_came_back_late_leaves_what_was_read_since(cursor):
    cursor.took(A, 5, True)
    sent = cursor.to_commit()
    cursor.took(A, 9, True)
    cursor.committed(sent)
    assert cursor.to_commit() == {"orders": {0: 9}}


def test_where_nothing_was_committed_the_beginning_is_to_be():
    cursor = Cursor()
    cursor.adopt([A])
    cursor.place(A, 17)
    assert cursor.to_commit() == {"orders": {0: 17}}


def test_a_seek_is_committed_too_and_needs_an_assigned_partition(cursor):
    cursor.took(A, 5, True)
    cursor.committed(cursor.to_commit())
    cursor.seek(A, 2)
    assert cursor.to_commit() == {"orders": {0: 2}}
    with pytest.raises(NotAssigned, match="partition 9"):
        cursor.seek(("orders", 9), 0)


def test_a_released_partition_can_be_committed_until_the_next_answer(cursor):
    cursor.took(A, 5, True)
    cursor.took(B, 3, True)
    change = cursor.adopt([B], 2, SECOND)
    assert change == ((A, C), ())
    assert cursor.wanted() == {"orders": {1: 3}}
    assert cursor.to_commit() == {"orders": {0: 5, 1: 3}}
    cursor.committed({"orders": {0: 5}})
    assert cursor.to_commit() == {"orders": {1: 3}}
    cursor.took(B, 4, True)
    cursor.adopt([], 3)
    cursor.adopt([], 3)
    assert cursor.to_commit() == {}


def test_a_partition_that_comes_back_is_placed_anew(cursor):
    cursor.took(A, 5, True)
    cursor.adopt([B, C], 2)
    assert cursor.adopt([A, B, C], 3).added == (A,)
    assert cursor.needs_position() == [A]
    assert cursor.to_commit() == {}


def test_who_was_dropped_gives_up_everything(cursor):
    cursor.took(A, 5, True)
    assert cursor.reset().released == (A, B, C)
    assert (cursor.assignment, cursor.positions, cursor.to_commit()) == ((), {}, {})
    assert cursor.beat_due(0)


def test_a_beat_is_due_at_a_third_of_the_session_or_after_three_seconds():
    for timeout, interval in ((30, 3), (6, 2), (0.3, 0.1)):
        cursor = Cursor(timeout)
        assert cursor.beat_due(0)
        cursor.adopt([A], 1, 5 * SECOND)
        assert cursor.beat_in(5 * SECOND) == interval
        assert not cursor.beat_due(round((5 + interval) * SECOND) - 1)
        assert cursor.beat_due(round((5 + interval) * SECOND))


def test_after_a_release_the_next_beat_is_due_at_once(cursor):
    cursor.adopt([A], 2, SECOND)
    assert cursor.beat_due(SECOND)
    cursor.adopt([A], 2, SECOND)
    assert not cursor.beat_due(SECOND)


def test_a_session_is_over_when_no_answer_came_for_as_long(cursor):
    assert not cursor.session_over(30 * SECOND)
    assert cursor.session_over(30 * SECOND + 1)
    cursor.adopt([A], 2, 30 * SECOND)
    assert not cursor.session_over(31 * SECOND)
    assert not Cursor().session_over(10**18)
