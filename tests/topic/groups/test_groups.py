"""What the coordinator answers members and operators, and what of it is there after the broker's end."""

from __future__ import annotations

import threading

import pytest

from seglog.errors import (
    GroupConflict,
    GroupNotFound,
    InvalidArgument,
    InvalidType,
    LogReadOnly,
    NotAssigned,
    OffsetOutOfRange,
    SeglogError,
    TopicNotFound,
    UnknownMember,
)
from seglog.topic.groups import bounds
from seglog.topic.groups import groups as coordinator

ALL = tuple(("orders", number) for number in range(4))


def beat(groups, answer):
    return groups.heartbeat("billing", answer.member, answer.generation)


def test_the_first_member_reads_everything_at_once(groups):
    answer = groups.join("billing", ["orders"])
    assert answer.assignment == ALL
    assert beat(groups, answer) == answer


def test_a_partition_goes_to_another_only_after_its_owner_came_back_with_the_answer_that_lacks_it(groups):
    first = groups.join("billing", ["orders"], member="a")
    second = groups.join("billing", ["orders"], member="b")
    assert second.assignment == ()
    told = beat(groups, first)
    assert told.assignment == ALL[:2]
    assert beat(groups, second).assignment == ()
    assert beat(groups, first).assignment == ALL[:2], "an answer that never arrived gives nothing away"
    assert beat(groups, second).assignment == ()
    beat(groups, told)
    assert beat(groups, second).assignment == ALL[2:]


def test_while_it_is_handed_over_only_the_old_owner_commits(groups):
    first = groups.join("billing", ["orders"], member="a")
    groups.join("billing", ["orders"], member="b")
    told = beat(groups, first)
    groups.commit("billing", {"orders": {3: 7}}, member="a")
    with pytest.raises(NotAssigned, match="partition 3 of topic 'orders'"):
        groups.commit("billing", {"orders": {3: 9}}, member="b")
    beat(groups, told)
    with pytest.raises(NotAssigned):
        groups.commit("billing", {"orders": {3: 8}}, member="a")
    groups.commit("billing", {"orders": {3: 9}}, member="b")
    assert groups.committed("billing") == {"orders": {3: 9}}


def test_who_leaves_frees_its_partitions_at_once(groups):
    first = groups.join("billing", ["orders"])
    second = groups.join("billing", ["orders"])
    groups.leave("billing", first.member)
    assert beat(groups, second).assignment == ALL
    groups.leave("billing", first.member)
    groups.leave("nobody", "x")
    with pytest.raises(UnknownMember, match="join again"):
        beat(groups, first)


def test_who_is_silent_for_its_session_is_dropped_and_may_come_back_under_its_name(groups, clock):
    first = groups.join("billing", ["orders"], member="a", session_timeout=10)
    second = groups.join("billing", ["orders"], member="b", session_timeout=60)
    clock.advance(10)
    beat(groups, first)
    clock.advance(10.1)
    assert beat(groups, second).assignment == ALL
    with pytest.raises(UnknownMember):
        beat(groups, first)
    with pytest.raises(UnknownMember):
        groups.commit("billing", {"orders": {0: 1}}, member="a")
    assert groups.join("billing", ["orders"], member="a").member == "a"


def test_a_dead_member_is_dropped_in_time_also_where_the_clock_went_back(groups, clock):
    groups.join("billing", ["orders"], member="dead", session_timeout=10)
    alive = groups.join("billing", ["orders"], member="alive", session_timeout=10)
    clock.advance(-3600)
    for _ in range(3):
        alive = beat(groups, alive)
        clock.advance(6)
    assert beat(groups, alive).assignment == ALL


def test_a_commit_renews_the_session(groups, clock):
    answer = groups.join("billing", ["orders"], session_timeout=10)
    for _ in range(3):
        clock.advance(8)
        groups.commit("billing", {}, member=answer.member)
    assert beat(groups, answer) == answer


def test_members_read_what_they_asked_for(groups):
    first = groups.join("billing", ["orders"])
    second = groups.join("billing", ["users"])
    assert (first.assignment, second.assignment) == (ALL, (("users", 0), ("users", 1)))


def test_what_nobody_reads_any_more_stays_its_owners_until_that_knows(groups):
    first = groups.join("billing", ["orders"], member="a")
    told = groups.join("billing", ["users"], member="a")
    assert told.assignment == (("users", 0), ("users", 1))
    second = groups.join("billing", ["orders"], member="b")
    assert second.assignment == ()
    assert first.generation < told.generation
    beat(groups, told)
    assert beat(groups, second).assignment == ALL


def test_a_commit_is_taken_whole_or_not_at_all(groups):
    answer = groups.join("billing", ["orders"])
    with pytest.raises(OffsetOutOfRange) as caught:
        groups.commit("billing", {"orders": {0: 5, 1: 101}}, member=answer.member)
    assert (caught.value.offset, caught.value.next_offset) == (101, 100)
    assert "partition 1 of topic 'orders'" in caught.value.__notes__[0]
    with pytest.raises(NotAssigned):
        groups.commit("billing", {"orders": {0: 5}, "users": {0: 1}}, member=answer.member)
    assert groups.committed("billing") == {}
    groups.commit("billing", {"orders": {0: 5, 1: 100}}, member=answer.member, durable=True)
    assert groups.committed("billing") == {"orders": {0: 5, 1: 100}}


def test_a_cut_sets_back_what_was_committed_beyond_it_though_others_appended_since(hall):
    hall.groups.commit("far", {"orders": {0: 80, 1: 80}})
    hall.groups.commit("near", {"orders": {0: 40}})
    hall.groups.cut("orders", 0, 50)  # the partition ends at 100 again
    assert hall.groups.committed("far") == {"orders": {0: 50, 1: 80}}
    assert hall.groups.committed("near") == {"orders": {0: 40}}
    assert hall.log.durable_offset == hall.log.next_offset


def test_committing_the_same_again_writes_nothing(hall):
    hall.groups.commit("billing", {"orders": {0: 5}})
    end = hall.log.next_offset
    hall.groups.commit("billing", {"orders": {0: 5}}, durable=True)
    assert hall.log.next_offset == end
    assert hall.log.durable_offset == end


def test_without_a_member_only_a_group_without_members_is_committed_to(groups):
    groups.commit("billing", {"orders": {0: 5}})
    answer = groups.join("billing", ["orders"])
    with pytest.raises(GroupConflict, match="has members"):
        groups.commit("billing", {"orders": {0: 0}})
    groups.leave("billing", answer.member)
    groups.commit("billing", {"orders": {0: 0}})
    assert groups.committed("billing") == {"orders": {0: 0}}


def test_a_group_tells_its_members_what_they_have_and_how_far_it_is_behind(groups, hall, clock):
    answer = groups.join("billing", ["orders"], member="a", session_timeout=20)
    groups.commit("billing", {"orders": {0: 60, 1: 100}}, member="a")
    shown = groups.describe("billing")
    assert (shown.name, shown.generation) == ("billing", answer.generation)
    (member,) = shown.members
    assert (member.id, member.topics, member.assignment) == ("a", ("orders",), ALL)
    assert (member.session_timeout, member.seen_at, member.local) == (20, clock.now, False)
    assert shown.committed == {"orders": {0: 60, 1: 100}}
    assert shown.lag == {("orders", 0): 40, ("orders", 1): 0, ("orders", 2): 100, ("orders", 3): 100}
    del hall.ends["orders"]
    assert set(groups.describe("billing").lag.values()) == {0}


def test_a_group_is_there_from_its_first_member_or_commit_until_it_is_deleted(groups):
    for call in (groups.committed, groups.describe, groups.delete):
        with pytest.raises(GroupNotFound):
            call("billing")
    answer = groups.join("billing", ["orders"])
    groups.commit("audit", {"users": {0: 1}})
    assert groups.names() == ["audit", "billing"]
    assert groups.committed("billing") == {}
    with pytest.raises(GroupConflict, match="stop them first"):
        groups.delete("billing")
    groups.commit("billing", {"orders": {0: 1, 1: 1}}, member=answer.member)
    groups.leave("billing", answer.member)
    groups.delete("billing")
    groups.delete("audit")
    assert groups.names() == []


def test_a_deleted_topic_takes_its_offsets_along(groups, hall):
    answer = groups.join("billing", ["orders", "users"])
    groups.commit("billing", {"orders": {0: 5}, "users": {0: 1}}, member=answer.member)
    groups.commit("audit", {"orders": {0: 5, 2: 6}})
    del hall.ends["orders"]
    groups.forget_topic("orders")
    assert groups.committed("billing") == {"users": {0: 1}}
    assert groups.committed("audit") == {}
    assert beat(groups, answer).assignment == (("users", 0), ("users", 1))
    with pytest.raises(TopicNotFound):
        groups.join("billing", ["orders"])


@pytest.mark.parametrize("compacted", [False, True])
def test_after_reopening_offsets_members_and_what_they_own_are_as_they_were(hall, clock, compacted):
    groups = hall.groups
    first = groups.join("billing", ["orders"], member="a", session_timeout=10)
    second = groups.join("billing", ["orders"], member="b", session_timeout=10)
    groups.commit("billing", {"orders": {0: 5, 3: 6}}, member="a")
    groups.commit("gone", {"users": {0: 5}})
    groups.delete("gone")
    clock.advance(9)
    beat(groups, second)
    if compacted:
        hall.log.compact(roll=True)
    groups = hall.reopen()
    assert groups.names() == ["billing"]
    assert groups.committed("billing") == {"orders": {0: 5, 3: 6}}
    clock.advance(9)
    told = beat(groups, first)
    assert told.assignment == ALL[:2], "its session began anew"
    beat(groups, told)
    assert beat(groups, second).assignment == ALL[2:]


def test_a_generation_from_before_the_end_frees_nothing_that_was_not_answered_since(hall):
    first = hall.groups.join("billing", ["orders"], member="a")
    hall.groups.join("billing", ["orders"], member="b")
    ahead = first._replace(generation=first.generation + 50)
    groups = hall.reopen()
    beat(groups, ahead)
    assert beat(groups, ahead).assignment == ALL[:2]
    assert groups.describe("billing").members[1].assignment == ALL[2:]


def test_members_in_the_brokers_process_end_with_it(hall):
    hall.groups.join("billing", ["orders"], member="a", local=True)
    hall.groups.join("billing", ["orders"], member="b")
    groups = hall.reopen()
    (left,) = groups.describe("billing").members
    assert (left.id, left.assignment) == ("b", ALL)


def test_beside_the_broker_everything_is_shown_and_nothing_changed(hall, clock):
    hall.groups.join("billing", ["orders"], member="a", local=True, session_timeout=1)
    hall.groups.commit("billing", {"orders": {0: 5}}, member="a")
    clock.advance(100)
    groups = hall.reopen("r")
    (shown,) = groups.describe("billing").members
    assert (shown.id, shown.assignment, shown.seen_at) == ("a", ALL, None)
    assert groups.committed("billing") == {"orders": {0: 5}}
    with pytest.raises(LogReadOnly):
        groups.join("billing", ["orders"])
    with pytest.raises(LogReadOnly):
        groups.commit("other", {"orders": {0: 5}})


def test_offsets_beyond_what_a_power_loss_left_are_set_back_and_told(hall):
    hall.groups.commit("billing", {"orders": {0: 90, 1: 50}, "users": {0: 5}})
    hall.ends["orders"][0] = 70
    del hall.ends["users"]
    groups = hall.reopen()
    told = groups.settle()
    assert len(told) == 2
    assert "offset 90 was committed, but the partition ends at 70" in told[0]
    assert "'users'" in told[1]
    assert groups.committed("billing") == {"orders": {0: 70, 1: 50}}
    assert hall.log.durable_offset == hall.log.next_offset
    assert groups.settle() == ()


def test_a_partition_that_cannot_be_asked_keeps_its_offset_and_that_is_told(hall, monkeypatch):
    def damaged(topic, partition):
        raise SeglogError("it is damaged")

    hall.groups.commit("billing", {"orders": {0: 90}})
    monkeypatch.setattr(hall, "bounds", damaged)
    (told,) = hall.reopen().settle()
    assert "was not checked: it is damaged" in told
    assert hall.groups.committed("billing") == {"orders": {0: 90}}


def test_a_group_without_members_and_commits_is_forgotten_in_time(groups, hall, clock):
    for group in ("left", "silent", "committed"):
        groups.join(group, ["orders"], member="a", session_timeout=60)
    groups.commit("committed", {"orders": {0: 5}}, member="a")
    groups.leave("left", "a")
    assert groups.names() == ["committed", "left", "silent"]
    clock.advance(bounds.SWEEP_SECONDS + 1)
    assert groups.names() == ["committed", "left", "silent"]  # empty from now on
    clock.advance(bounds.EMPTY_SECONDS + 1)
    assert groups.names() == ["committed"]
    with pytest.raises(GroupNotFound):
        groups.describe("silent")
    assert hall.reopen().names() == ["committed"]
    assert hall.groups.join("left", ["orders"]).generation == 1


def test_there_are_so_many_groups_and_empty_ones_make_way_for_new_ones(groups, monkeypatch):
    monkeypatch.setattr(bounds, "MAX_GROUPS", 3)
    for group in ("a", "b", "c"):
        groups.join(group, ["orders"], member="m")
    for refused in (lambda: groups.join("d", ["orders"]), lambda: groups.commit("d", {"orders": {0: 1}})):
        with pytest.raises(GroupConflict, match="3 consumer groups already"):
            refused()
    groups.join("a", ["orders"], member="n")
    groups.commit("a", {}, member="m")
    groups.leave("b", "m")
    groups.join("d", ["orders"])
    assert groups.names() == ["a", "c", "d"]


def test_a_group_takes_so_many_members_and_no_more(groups, monkeypatch):
    monkeypatch.setattr(coordinator, "MAX_MEMBERS", 2)
    groups.join("billing", ["orders"], member="a")
    groups.join("billing", ["orders"], member="b")
    groups.join("billing", ["orders"], member="a")
    with pytest.raises(GroupConflict, match="the most members already, 2"):
        groups.join("billing", ["orders"], member="c")


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (InvalidArgument, lambda groups: groups.join(".billing", ["orders"])),
        (InvalidArgument, lambda groups: groups.join("billing", [])),
        (InvalidType, lambda groups: groups.join("billing", "orders")),
        (InvalidType, lambda groups: groups.join("billing", [7])),
        (InvalidArgument, lambda groups: groups.join("billing", ["orders"], member="a/b")),
        (InvalidArgument, lambda groups: groups.join("billing", ["orders"], session_timeout=0)),
        (InvalidArgument, lambda groups: groups.join("billing", ["orders"], session_timeout=float("nan"))),
        (InvalidType, lambda groups: groups.join("billing", ["orders"], session_timeout="30")),
        (InvalidType, lambda groups: groups.heartbeat("billing", "a", None)),
        (InvalidType, lambda groups: groups.commit("billing", [("orders", 0, 1)])),
        (InvalidType, lambda groups: groups.commit("billing", {"orders": {0: "1"}})),
        (InvalidType, lambda groups: groups.commit("billing", {"orders": {"0": 1}})),
        (OffsetOutOfRange, lambda groups: groups.commit("billing", {"orders": {0: -1}})),
        (TopicNotFound, lambda groups: groups.commit("billing", {"nothing": {0: 1}})),
    ],
)
def test_what_cannot_be_meant_is_refused_and_changes_nothing(groups, hall, error, call):
    with pytest.raises(error):
        call(groups)
    assert groups.names() == []
    assert hall.log.next_offset == 0


def test_many_threads_join_commit_and_leave_at_once(groups):
    failures = []

    def live(number):
        try:
            for _ in range(10):
                answer = groups.join("billing", ["orders"], member=f"m{number}")
                for _ in range(3):
                    answer = beat(groups, answer)
                    mine = {number: 1 for _, number in answer.assignment}
                    groups.commit("billing", {"orders": mine} if mine else {}, member=answer.member)
                groups.leave("billing", answer.member)
        except Exception as error:  # noqa: BLE001 - a thread's failure is to be seen
            failures.append(error)

    threads = [threading.Thread(target=live, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert groups.describe("billing").members == ()
