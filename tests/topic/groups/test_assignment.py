"""Partitions are shared evenly, moved as little as that allows, and alike wherever it is worked out."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.errors import InvalidArgument, InvalidType
from seglog.topic.groups.assignment import assign, checked_share, shared

MEMBERS = st.sets(st.sampled_from("abcdefgh"), min_size=1)
PARTITIONS = st.dictionaries(st.sampled_from(["orders", "payments", "users"]), st.integers(0, 9), min_size=1)


def everything(partitions: dict[str, int]) -> set[tuple[str, int]]:
    return {(topic, number) for topic, count in partitions.items() for number in range(count)}


def all_read(members: set[str], partitions: dict[str, int]) -> dict[str, list[str]]:
    return {member: sorted(partitions) for member in members}


@given(MEMBERS, PARTITIONS)
def test_counts_differ_by_at_most_one_and_nothing_is_left_over(members, partitions):
    found = assign(all_read(members, partitions), partitions, {})
    loads = Counter(found.values())
    assert found.keys() == everything(partitions)
    assert max(loads.values(), default=0) - min(loads[member] for member in members) <= 1


@given(MEMBERS, PARTITIONS, MEMBERS)
def test_only_so_many_partitions_move_as_evenness_asks_for(members, partitions, later):
    before = assign(all_read(members, partitions), partitions, {})
    after = assign(all_read(later, partitions), partitions, before)
    loads = Counter(after.values())
    assert max(loads.values(), default=0) - min(loads[member] for member in later) <= 1
    kept = Counter(before[one] for one in before if before[one] == after[one])
    had = Counter(before.values())
    least, extra = divmod(len(before), len(later))
    may_keep = sum(min(had[member], least) for member in later)
    may_keep += min(extra, sum(had[member] > least for member in later))
    assert sum(kept.values()) == may_keep


@given(MEMBERS, PARTITIONS, MEMBERS)
def test_who_stays_keeps_everything_when_others_leave(members, partitions, gone):
    left = members - gone
    before = assign(all_read(members, partitions), partitions, {})
    after = assign(all_read(left, partitions), partitions, before)
    if left:
        assert all(after[one] == member for one, member in before.items() if member in left)
    else:
        assert after == {}


@given(
    st.dictionaries(st.sampled_from("abcdef"), st.sets(st.sampled_from(["orders", "payments", "users", "gone"]))),
    PARTITIONS,
    st.dictionaries(
        st.tuples(st.sampled_from(["orders", "users"]), st.integers(0, 9)), st.sampled_from("abcxyz"), max_size=12
    ),
    st.randoms(use_true_random=False),
)
def test_any_past_gives_each_partition_that_is_read_to_one_who_reads_it(members, partitions, before, shuffled):
    found = assign(members, partitions, before)
    read = {one for one in everything(partitions) if any(one[0] in topics for topics in members.values())}
    assert found.keys() == read
    assert all(topic in members[member] for (topic, _), member in found.items())
    assert assign(members, partitions, found) == found
    assert found == assign(mixed(members, shuffled), mixed(partitions, shuffled), mixed(before, shuffled))
    loads = Counter(found.values())
    for (topic, _), member in found.items():
        least = min(loads[one] for one, topics in members.items() if topic in topics)
        assert loads[member] - least <= 1, "one partition could go to somebody who has less"


def mixed(values: dict, shuffled: random.Random) -> dict:
    pairs = list(values.items())
    shuffled.shuffle(pairs)
    return dict(pairs)


@given(PARTITIONS, st.integers(1, 5))
def test_static_shares_cover_everything_once(partitions, of):
    shares = [shared((index, of), partitions) for index in range(of)]
    assert sorted(one for share in shares for one in share) == sorted(everything(partitions))
    assert all(number % of == index for index, share in enumerate(shares) for _, number in share)


@pytest.mark.parametrize("share", [(2, 2), (-1, 2), (0, 0)])
def test_a_share_that_cannot_be_is_refused(share):
    with pytest.raises(InvalidArgument, match="readers is 0 to"):
        checked_share(share)


@pytest.mark.parametrize("share", [3, (1,), ("0", "2"), (True, 2)])
def test_a_share_is_two_ints(share):
    with pytest.raises(InvalidType, match="two ints"):
        checked_share(share)
