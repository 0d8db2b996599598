"""A group whose partitions the server assigns, without clients: any order of heartbeats, also with lost answers."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.errors import SeglogError, UnknownMember
from seglog.kafka import codes
from seglog.kafka.faults import FencedMember, GroupFull
from seglog.kafka.groups import consumer_group
from seglog.kafka.groups.consumer_group import ConsumerGroup, Found
from seglog.kafka.groups.consumer_member import JOIN, LEAVE_FOR_NOW, Answer, Beat
from seglog.kafka.groups.range_assignment import assign_ranges
from seglog.server.runtime.shares import Shares
from seglog.topic.groups.assignment import assign
from tests.kafka.virtual import run_in_virtual_time

ROOM = 1_000_000


class Topics:
    """The topics of a server: name -> how many partitions; the id is the name."""

    def __init__(self, **counts: int) -> None:
        self.counts = counts

    def find(self, name: str) -> Found | None:
        return Found(name, self.counts[name]) if name in self.counts else None


class Client:
    """A member as clients behave: it stops reading what it lost before it reports that, and then reads what it got."""

    def __init__(self, group: ConsumerGroup, topics: Topics, name: str, instance: str | None = None) -> None:
        self.group, self.topics, self.name, self.instance = group, topics, name, instance
        self.reads: tuple[str, ...] = ()
        self.away()

    def away(self) -> None:
        """Read nothing, and be no member."""
        self.epoch, self.is_member, self.needs_all = JOIN, False, False
        self.target: frozenset[Any] = frozenset()
        self.owned: frozenset[Any] = frozenset()
        self.reported: frozenset[Any] = frozenset()

    def beat(self, *, lost: bool = False) -> None:
        """Send a heartbeat; its answer may be lost."""
        full = self.epoch == JOIN or self.needs_all
        beat = Beat(
            self.name,
            self.epoch,
            self.instance,
            rebalance=60.0 if full else None,
            topics=self.reads if full else None,
            owned=self.owned if full or self.owned != self.reported else None,
        )
        try:
            answer = self.group.beat(beat, self.reads if full else None, self.topics.find)
        except (FencedMember, UnknownMember):
            self.away()
            return
        self.needs_all = lost
        if not lost:
            self._take(answer)

    def _take(self, answer: Answer) -> None:
        self.epoch, self.is_member, self.reported = answer.epoch, True, self.owned
        if answer.assignment is not None:
            self.target = frozenset(answer.assignment)

    def apply(self) -> None:
        """Read what it is assigned, and nothing else."""
        self.owned = self.target


def told(story: Callable[[ConsumerGroup, list[ConsumerGroup]], Coroutine[Any, Any, None]]) -> None:
    """Run a story of a group; its second argument lists the group as often as it was forgotten."""

    async def run() -> None:
        forgotten: list[ConsumerGroup] = []
        group = ConsumerGroup("g", forgotten.append, Shares(ROOM))
        try:
            await story(group, forgotten)
        finally:
            group.close()

    run_in_virtual_time(run())


def check(clients: list[Client]) -> None:
    """No two members read one partition."""
    read = [place for one in clients for place in one.owned]
    assert len(read) == len(set(read)), [sorted(one.owned) for one in clients]


ACTS = st.lists(
    st.tuples(
        st.sampled_from(["join", "beat", "beat", "apply", "apply", "lose", "leave", "rest", "grow", "drop"]),
        st.integers(0, 3),
        st.sampled_from([("t",), ("u",), ("t", "u")]),
    ),
    max_size=40,
)


@settings(deadline=None, max_examples=60)
@given(ACTS)
def test_no_two_members_ever_read_one_partition_and_in_the_end_all_are_read(acts: list[tuple[str, int, Any]]) -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=3, u=2)
        clients = [Client(group, topics, f"m{one}", None if one else "static") for one in range(4)]
        for act, number, reads in acts:
            _act(act, clients[number], topics, reads)
            check(clients)
        for one in clients[:2]:
            one.away()
            one.reads = ("t", "u")
        for one in clients[2:]:
            one.away()
            if one.name in group.members:
                group.leave(one.name, None)
        for _round in range(8):
            for one in clients[:2]:
                one.beat()
                one.apply()
                check(clients)
        counts = sorted(len(one.owned) for one in clients)
        assert sum(counts) == sum(topics.counts.values())
        assert counts[3] - counts[2] <= 1
        assert {one.epoch for one in clients[:2]} == {group.crew.generation}
        assert group.state == "Stable"
        for one in clients[:2]:
            group.leave(one.name, one.instance)
        assert group._room.held == 0

    told(story)


def _act(act: str, one: Client, topics: Topics, reads: tuple[str, ...]) -> None:
    if act == "join" and one.epoch == JOIN:
        one.reads = reads
        one.beat()
    elif act in ("beat", "lose") and one.is_member:
        one.beat(lost=act == "lose")
    elif act == "apply":
        one.apply()
    elif act in ("leave", "rest") and one.is_member:
        name, instance = one.name, one.instance
        one.away()
        try:
            leave = one.group.leave if act == "leave" or instance is None else one.group.leave_for_now
            leave(name, instance)
        except SeglogError:
            assert name not in one.group.members
    elif act == "grow":
        topics.counts[reads[0]] = min(topics.counts.get(reads[0], 0) + 1, 6)
    elif act == "drop" and len(topics.counts) > 1:
        del topics.counts[reads[0]]


@given(st.integers(1, 5), st.integers(0, 12))
def test_ranges_are_contiguous_and_as_long_as_each_other(members: int, count: int) -> None:
    found = assign_ranges({f"m{one}": ["t"] for one in range(members)}, {"t": count}, {})
    held = [sorted(number for (_, number), who in found.items() if who == f"m{one}") for one in range(members)]
    assert [number for those in held for number in those] == list(range(count))
    assert max(map(len, held)) - min(map(len, held)) <= 1


def test_a_member_that_was_never_told_of_a_partition_need_not_release_it() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=2)
        one, other = Client(group, topics, "a"), Client(group, topics, "b")
        one.reads = other.reads = ("t",)
        one.beat()
        one.apply()
        one.beat()
        topics.counts["t"] = 4
        other.beat()  # assigns: two more are free
        assert other.target == {("t", 2), ("t", 3)}
        group.leave("b", None)  # now they are the first one's, who does not know it
        other.away()
        other.beat()
        assert one.owned == {("t", 0), ("t", 1)}
        one.beat()
        assert one.epoch == group.crew.generation  # nothing had to be released
        other.beat()
        assert len(other.target) == 2

    told(story)


def test_a_silent_member_is_removed_and_one_that_does_not_release(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(group: ConsumerGroup, forgotten: list[ConsumerGroup]) -> None:
        topics = Topics(t=2)
        silent, busy = Client(group, topics, "silent"), Client(group, topics, "busy")
        busy.reads = silent.reads = ("t",)
        monkeypatch.setattr(consumer_group, "SESSION_SECONDS", 60.0)
        group.beat(Beat("busy", JOIN, rebalance=0.05, topics=("t",), owned=frozenset()), ("t",), topics.find)
        monkeypatch.setattr(consumer_group, "SESSION_SECONDS", 0.05)
        silent.beat()
        monkeypatch.setattr(consumer_group, "SESSION_SECONDS", 60.0)
        told_of = group.beat(Beat("busy", 1, owned=frozenset({("t", 0), ("t", 1)})), None, topics.find)
        assert len(told_of.assignment or ()) == 1
        while group.members:
            await asyncio.sleep(0.01)
        assert forgotten == [group]
        assert group._room.held == 0

    told(story)


def test_memory_for_members_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        def join(member: str, *names: str, find: Any = {}.get) -> Answer:
            return group.beat(Beat(member, JOIN, rebalance=1.0, topics=names, owned=frozenset()), names, find)

        with pytest.raises(GroupFull):
            join("a", "n" * ROOM)
        with pytest.raises(GroupFull):
            join("a", "t", find=Topics(t=ROOM).find)
        assert (group._room.held, group.members) == (0, {})
        join("a", "t")
        many = frozenset(("unknown", number) for number in range(10_000))
        group.beat(Beat("a", 1, owned=many), None, Topics().find)
        assert group.members["a"].said.owned is None
        with pytest.raises(GroupFull):
            group.beat(Beat("a", 1, topics=("n" * ROOM,)), ("n" * ROOM,), Topics().find)
        assert group.members["a"].reads == ("t",)
        monkeypatch.setattr(consumer_group, "MOST_MEMBERS", 1)
        with pytest.raises(GroupFull):
            join("b", "t")
        join("a", "t")
        group.leave("a", None)
        assert group._room.held == 0

    told(story)


def join(group: ConsumerGroup, topics: Topics, member: str, *names: str, payer: str = "") -> Answer:
    """Join as a member that owns nothing."""
    beat = Beat(member, JOIN, rebalance=60.0, topics=names, owned=frozenset(), payer=payer)
    return group.beat(beat, names, topics.find)


MANY = 800  # partitions, which take more than 400 KB


def test_a_heartbeat_that_subscribes_to_more_partitions_than_there_is_memory_for_is_refused() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=1, u=10 * MANY, v=MANY, w=MANY)
        epoch = join(group, topics, "a", "t").epoch
        held = group._room.held
        with pytest.raises(GroupFull):
            group.beat(Beat("a", epoch, topics=("t", "u")), ("t", "u"), topics.find)
        assert (group.members["a"].reads, group._room.held) == (("t",), held)
        epoch = group.beat(Beat("a", epoch, topics=("t", "v")), ("t", "v"), topics.find).epoch
        for wanted in (("t",), ("t", "w"), ("t", "v")):  # it does not release what it had: that counts until it does
            with suppress(GroupFull):
                group.beat(Beat("a", group.members["a"].epoch, topics=wanted), wanted, topics.find)
        assert len(group.crew.owners) * consumer_group.PLACE_BYTES < ROOM
        group.leave("a", None)
        assert group._room.held == 0

    told(story)


def test_a_topic_counts_against_the_share_of_the_caller_that_brought_it_while_it_reads_it() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=1, u=MANY)
        join(group, topics, "a", "t", payer="victim")
        before = group._room.of("victim")
        epoch = join(group, topics, "b", "t", "u", payer="mallory").epoch
        assert (group._room.of("victim"), group._room.of("mallory") > 400_000) == (before, True)
        join(group, topics, "c", "u", payer="third")
        assert group._room.of("third") < 10_000
        group.beat(Beat("b", epoch, topics=("t",), owned=frozenset()), ("t",), topics.find)
        assert (group._room.of("third") > 400_000, group._room.of("mallory") < 10_000) == (True, True)
        for member in ("a", "b", "c"):
            group.leave(member, None)
        assert group._room.held == 0

    told(story)


def test_a_topic_of_a_caller_that_leaves_stays_with_it_while_no_reader_has_room_for_it() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=MANY)
        join(group, topics, "a", "t", payer="mallory")
        epoch = join(group, topics, "b", "t", payer="victim").epoch
        group._room.change("victim", ROOM * 3 // 5)
        group.leave("a", None)
        assert (group._room.of("victim") < ROOM * 3 // 5 + 10_000, group._room.of("mallory") > 400_000) == (True, True)
        topics.counts["t"] = MANY + 1
        epoch = group.beat(Beat("b", epoch), None, topics.find).epoch
        assert len(group.crew.owners) == MANY  # nobody pays for more
        group._room.change("victim", -ROOM * 3 // 5)
        group.beat(Beat("b", epoch), None, topics.find)
        topics.counts["t"] = MANY + 2
        epoch = group.beat(Beat("b", group.members["b"].epoch), None, topics.find).epoch
        assert (group._room.of("victim") > 400_000, group._room.of("mallory")) == (True, 0)
        assert len(group.crew.owners) == MANY + 2
        group.leave("b", None)
        assert group._room.held == 0

    told(story)


def test_a_topic_that_grows_beyond_the_share_of_its_caller_keeps_its_partitions_and_others_read_on() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=1, u=2)
        mine = join(group, topics, "a", "t", payer="victim").epoch
        theirs = join(group, topics, "b", "u", payer="mallory").epoch
        mine = group.beat(Beat("a", mine), None, topics.find).epoch
        topics.counts |= {"t": 3, "u": 10 * MANY}
        for _ in range(3):
            theirs = group.beat(Beat("b", theirs), None, topics.find).epoch
            mine = group.beat(Beat("a", mine), None, topics.find).epoch
        assert group.target("a") == [("t", 0), ("t", 1), ("t", 2)]
        assert group.target("b") == [("u", 0), ("u", 1)]
        assert group._room.held < 10_000
        await asyncio.sleep(0.7 * consumer_group.SESSION_SECONDS)
        group.beat(Beat("b", theirs), None, topics.find)
        await asyncio.sleep(0.7 * consumer_group.SESSION_SECONDS)
        assert [*group.members] == ["b"]  # its heartbeats count

    told(story)


def test_a_member_joins_a_group_whose_topic_has_grown_beyond_the_share_and_is_charged_once() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=4)
        first = join(group, topics, "a", "t", payer="mallory").epoch
        topics.counts["t"] = 10 * MANY
        assert join(group, topics, "b", "t", payer="mallory").epoch == 2
        assert (len(group.crew.owners), [*group.members]) == (4, ["a", "b"])
        held = group._room.of("mallory")
        with pytest.raises(GroupFull):
            join(group, topics, "c", "t", "n" * ROOM, payer="mallory")
        assert (group._room.of("mallory"), [*group.members]) == (held, ["a", "b"])
        assert group.beat(Beat("a", first), None, topics.find).epoch == 1  # it has to release two

    told(story)


def test_a_member_of_a_caller_whose_share_is_full_joins_again_and_one_that_wants_more_stays_as_it_was() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        topics = Topics(t=1)
        join(group, topics, "a", "t", payer="mallory")
        group._room.change("mallory", ROOM * 3 // 4)
        with pytest.raises(GroupFull):
            join(group, topics, "b", "t", payer="mallory")
        held, first = group._room.held, group.members["a"]
        assert join(group, topics, "a", "t", payer="mallory").assignment == (("t", 0),)
        again = group.members["a"]
        assert (again is first, again.expiry is None, group._room.held) == (False, False, held)
        with pytest.raises(GroupFull):
            join(group, topics, "a", "t", "longer", payer="mallory")
        assert (group.members, group._room.held) == ({"a": again}, held)
        await asyncio.sleep(consumer_group.SESSION_SECONDS + 1)
        assert (group.members, group._room.held) == ({}, ROOM * 3 // 4)

    told(story)


def test_a_static_member_that_is_away_commits_nothing() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        one = Client(group, Topics(t=1), "a", "static")
        one.reads = ("t",)
        one.beat()
        assert group.check_commit("a", "static", 1, {("t", 0)}) == codes.NONE
        assert group.check_commit("b", "static", 1, {("t", 0)}) == codes.FENCED_INSTANCE_ID
        group.leave_for_now("a", "static")
        assert group.check_commit("a", "static", 1, {("t", 0)}) == codes.STALE_MEMBER_EPOCH
        assert group.members["a"].epoch == LEAVE_FOR_NOW
        assert group.state == "Stable"

    told(story)


def test_most_members_choose_the_assignor() -> None:
    async def story(group: ConsumerGroup, _: list[ConsumerGroup]) -> None:
        for name, wanted in (("a", "range"), ("b", "uniform"), ("c", "range")):
            beat = Beat(name, JOIN, rebalance=1.0, topics=("t",), assignor=wanted, owned=frozenset())
            group.beat(beat, ("t",), Topics(t=6).find)
        assert group.assignor == "range"
        assert [group.target(name) for name in ("a", "b", "c")] == [
            [("t", 0), ("t", 1)],
            [("t", 2), ("t", 3)],
            [("t", 4), ("t", 5)],
        ]

    told(story)


def test_uniform_is_the_default_assignor() -> None:
    assert next(iter(consumer_group.ASSIGNORS.values())) is assign
