"""Members come, beat, miss answers, fall silent and leave; topics go and come back; the broker dies at any point.

The model is what consumers believe: the last answer that reached them. Whoever's session has not run out reads what it
believes to be its own, so two of those must never believe in the same partition.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import seglog
from seglog import LogConfig, MemoryStorage, Retention
from seglog.errors import GroupNotFound, NotAssigned, TopicNotFound, UnknownMember
from seglog.topic.groups import Groups

SECOND = 1_000_000
GROUP = "billing"
CONFIG = LogConfig(segment_bytes=4096, retention=Retention(compact=True))
TOPICS = {"orders": 4, "users": 3}
END = 100

subsets = st.sets(st.sampled_from(sorted(TOPICS)), min_size=1)
picks = st.randoms(use_true_random=False)


@dataclass
class Believer:
    """A consumer: the answer it has, and when it was heard of last."""

    topics: set[str]
    timeout: int
    local: bool
    generation: int
    reads: set[tuple[str, int]]
    seen: int


class GroupMachine(RuleBasedStateMachine):
    @initialize()
    def begin(self) -> None:
        self.storage = MemoryStorage()
        self.now = 1_700_000_000 * SECOND
        self.topics = dict(TOPICS)
        self.believers: dict[str, Believer] = {}
        self.committed: dict[str, dict[int, int]] = {}
        self.names = 0
        self.open()

    def open(self) -> None:
        self.log = seglog.open(self.storage, CONFIG, clock=lambda: self.now)
        self.groups = Groups(
            self.log,
            partitions=self.count,
            clock=lambda: self.now,
            bounds=self.bounds,
            records_from=lambda topic, partition, offset: max(0, self.bounds(topic, partition)[1] - offset),
        )

    def count(self, topic: str) -> int:
        if topic not in self.topics:
            raise TopicNotFound(topic)
        return self.topics[topic]

    def bounds(self, topic: str, partition: int) -> tuple[int, int]:
        assert partition < self.count(topic)
        return 0, END

    def alive(self) -> dict[str, Believer]:
        return {name: one for name, one in self.believers.items() if self.now - one.seen <= one.timeout * SECOND}

    def hear(self, name: str, answer: Any) -> None:
        one = self.believers[name]
        one.generation, one.reads, one.seen = answer.generation, set(answer.assignment), self.now

    @rule(topics=subsets, timeout=st.sampled_from([5, 30]), local=st.booleans())
    def join(self, topics: set[str], timeout: int, local: bool) -> None:
        topics &= self.topics.keys()
        if not topics or len(self.believers) > 5:
            return
        self.names += 1
        name = f"m{self.names}"
        answer = self.groups.join(GROUP, topics, member=name, session_timeout=timeout, local=local)
        self.believers[name] = Believer(topics, timeout, local, 0, set(), 0)
        self.hear(name, answer)

    @precondition(lambda self: self.alive())
    @rule(pick=picks, topics=subsets)
    def come_back_with_other_topics(self, pick: Any, topics: set[str]) -> None:
        topics &= self.topics.keys()
        name = pick.choice(sorted(self.alive()))
        if topics:
            one = self.believers[name]
            one.topics = topics
            self.hear(name, self.groups.join(GROUP, topics, member=name, session_timeout=one.timeout, local=one.local))

    @precondition(lambda self: self.believers)
    @rule(pick=picks, lost=st.booleans())
    def beat(self, pick: Any, lost: bool) -> None:
        """Lost: the group hears of it, the answer does not come back."""
        name = pick.choice(sorted(self.believers))
        one = self.believers[name]
        if name not in self.alive():
            with pytest.raises(UnknownMember):
                self.groups.heartbeat(GROUP, name, one.generation)
            del self.believers[name]
            return
        answer = self.groups.heartbeat(GROUP, name, one.generation)
        if lost:
            one.seen = self.now
        else:
            self.hear(name, answer)

    @rule(seconds=st.sampled_from([1, 4, 6, 31]))
    def time_passes(self, seconds: int) -> None:
        self.now += seconds * SECOND

    @precondition(lambda self: self.believers)
    @rule(pick=picks)
    def leave(self, pick: Any) -> None:
        name = pick.choice(sorted(self.believers))
        self.groups.leave(GROUP, name)
        del self.believers[name]

    @precondition(lambda self: any(one.reads for one in self.alive().values()))
    @rule(pick=picks, offset=st.integers(0, END))
    def commit_what_one_reads(self, pick: Any, offset: int) -> None:
        name = pick.choice(sorted(name for name, one in self.alive().items() if one.reads))
        mine = sorted(one for one in self.believers[name].reads if one[0] in self.topics)
        chosen = pick.sample(mine, pick.randint(0, len(mine)))
        offsets: dict[str, dict[int, int]] = {}
        for topic, number in chosen:
            offsets.setdefault(topic, {})[number] = offset
        self.groups.commit(GROUP, offsets, member=name)
        self.believers[name].seen = self.now
        for topic, of in offsets.items():
            self.committed.setdefault(topic, {}).update(of)

    @precondition(lambda self: self.believers)
    @rule(pick=picks, topic=st.sampled_from(sorted(TOPICS)))
    def commit_what_somebody_else_reads(self, pick: Any, topic: str) -> None:
        """One of the offsets may be its own: nothing of the call is kept all the same."""
        name = pick.choice(sorted(self.believers))
        others = [other for other in self.alive() if other != name]
        foreign = [one for other in others for one in self.believers[other].reads if one[0] == topic]
        if not foreign or topic not in self.topics:
            return
        offsets = {
            number: 7 for _, number in [*foreign, *(mine for mine in self.believers[name].reads if mine[0] == topic)]
        }
        with pytest.raises(NotAssigned if name in self.alive() else UnknownMember):
            self.groups.commit(GROUP, {topic: offsets}, member=name)

    @rule(topic=st.sampled_from(sorted(TOPICS)))
    def topic_goes_or_comes_back(self, topic: str) -> None:
        if topic in self.topics:
            del self.topics[topic]
            self.groups.forget_topic(topic)
            self.committed.pop(topic, None)
        else:
            self.topics[topic] = TOPICS[topic]

    @rule(compacted=st.booleans())
    def the_broker_dies_and_is_opened_again(self, compacted: bool) -> None:
        if compacted:
            self.log.compact(roll=True)
        self.log.close()
        self.open()
        self.believers = {name: one for name, one in self.believers.items() if not one.local}
        for one in self.alive().values():
            one.seen = self.now  # sessions begin anew; those that had ended were dropped when the group was looked at

    @precondition(lambda self: self.alive())
    @rule(pick=picks)
    def all_beat_until_everything_is_read(self, pick: Any) -> None:
        living = sorted(self.alive())
        for _ in range(2):
            pick.shuffle(living)
            for name in living:
                self.hear(name, self.groups.heartbeat(GROUP, name, self.believers[name].generation))
        owned = {one for member in self.groups.describe(GROUP).members for one in member.assignment}
        assert owned == self.readable(), "after two beats everything has an owner, and nothing is on its way"
        for name in living:
            self.hear(name, self.groups.heartbeat(GROUP, name, self.believers[name].generation))
        assert {one for believer in self.alive().values() for one in believer.reads} == self.readable()

    def readable(self) -> set[tuple[str, int]]:
        read = {topic for one in self.alive().values() for topic in one.topics} & self.topics.keys()
        return {(topic, number) for topic in read for number in range(TOPICS[topic])}

    @invariant()
    def no_partition_is_read_by_two(self) -> None:
        taken: dict[tuple[str, int], str] = {}
        for name, one in self.alive().items():
            for partition in one.reads:
                assert partition not in taken, f"{name} and {taken[partition]} both read {partition}"
                taken[partition] = name

    @invariant()
    def what_is_committed_is_what_was_committed_by_owners(self) -> None:
        try:
            assert self.groups.committed(GROUP) == {topic: of for topic, of in self.committed.items() if of}
        except GroupNotFound:
            assert not self.committed

    @invariant()
    def the_members_are_those_that_live(self) -> None:
        if GROUP in self.groups.names():
            assert {member.id for member in self.groups.describe(GROUP).members} == self.alive().keys()

    def teardown(self) -> None:
        self.log.close()


TestGroups = pytest.mark.no_cover(GroupMachine.TestCase)
TestGroups.settings = settings(max_examples=60, stateful_step_count=40)
