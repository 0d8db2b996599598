"""What a user of a broker knows: topics, records, committed offsets and members that were acknowledged, and which of
them are durable. Proofs compare with it what a crash has left.

It is told of a call before it is made and after it has returned. It judges contents; it never looks at files.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa

import seglog
from seglog.log.staging import StagedSegment
from seglog.topic import Topic
from seglog.topic.broker import Broker
from tests.earlier_policies import store_with_logs

GROUP = "billing"
Place = tuple[str, int]


class Crew(NamedTuple):
    """A group at one moment: its committed offsets and the ids of its members."""

    offsets: frozenset[tuple[Place, int]] = frozenset()
    members: frozenset[str] = frozenset()

    def on(self, topics: Mapping[str, tuple[Found, ...]]) -> Crew:
        """Return it as an opening leaves it: nothing committed beyond a partition's end, nothing of what is gone."""
        kept = {(at, min(offset, len(topics[at[0]][at[1]].values))) for at, offset in self.offsets if at[0] in topics}
        return Crew(frozenset(kept), self.members)


class Rules(NamedTuple):
    """The bytes that a partition's retention keeps, and the copies that its topic wants."""

    bytes: int | None = None
    copies: int = 0


class Found(NamedTuple):
    """What one partition was found to hold."""

    values: tuple[bytes, ...]
    rules: Rules


class Content(NamedTuple):
    """What a broker was found to hold."""

    topics: dict[str, tuple[Found, ...]]
    crew: Crew


def content_of(broker: Broker) -> Content:
    """Read everything; AssertionError where a topic cannot be opened."""
    topics = {}
    for name in broker.topics():
        topic = broker.topic(name)
        logs = [topic.partition(number) for number in range(topic.partitions)]
        assert all([record.offset for record in log.scan()] == list(range(log.next_offset)) for log in logs)
        topics[name] = tuple(
            Found(
                tuple(record.value or b"" for record in log.scan()),
                Rules(log.config.retention.bytes, topic.policies.copies),
            )
            for log in logs
        )
    assert broker.failed == {}
    if GROUP not in broker.groups.names():
        return Content(topics, Crew())
    state = broker.groups.describe(GROUP)
    offsets = {((topic, number), at) for topic, of in state.committed.items() for number, at in of.items()}
    return Content(topics, Crew(frozenset(offsets), frozenset(member.id for member in state.members)))


@dataclass(frozen=True)
class Part:
    """What a partition may hold: all the values, or, after a power loss, no fewer than the durable ones."""

    values: tuple[bytes, ...] = ()
    durable: int = 0
    rules: Rules = field(default_factory=Rules)

    def objection(self, found: Found, *, power_lost: bool) -> str | None:
        """Return why it cannot have been this, None if it can."""
        least = self.durable if power_lost else len(self.values)
        if found.values != self.values[: len(found.values)]:
            return f"{found.values} is no beginning of {self.values}"
        if len(found.values) < least:
            return f"{found.values} lacks some of {self.values[:least]}"
        return None if found.rules == self.rules else f"it has {found.rules}"


@dataclass(frozen=True)
class World:
    """All that a broker may hold. crews: the group after every entry since the durable one; known: which of them was
    acknowledged last. lossy: only a power loss leaves this.
    """

    topics: Mapping[str, tuple[Part, ...]]
    crews: tuple[Crew, ...] = (Crew(),)
    known: int = 0
    lossy: bool = False

    def objection(self, found: Content, *, power_lost: bool) -> str | None:
        """Return why it cannot have been this, None if it can."""
        if self.lossy and not power_lost:
            return "no power was lost"
        if found.topics.keys() != self.topics.keys():
            return f"there are topics {sorted(found.topics)}, not {sorted(self.topics)}"
        for name, parts in self.topics.items():
            if len(parts) != len(found.topics[name]):
                return f"{name} has {len(found.topics[name])} partitions"
            for number, (part, one) in enumerate(zip(parts, found.topics[name], strict=True)):
                if reason := part.objection(one, power_lost=power_lost):
                    return f"{name}/{number}: {reason}"
        crews = self.crews if power_lost else self.crews[self.known :]
        if found.crew not in {crew.on(found.topics) for crew in crews}:
            return f"the group is {found.crew}, none of {crews}"
        return None

    def with_part(self, name: str, number: int, part: Part) -> World:
        """Return it with another partition."""
        parts = self.topics[name]
        return replace(self, topics={**self.topics, name: (*parts[:number], part, *parts[number + 1 :])})

    def grown(self, name: str, number: int, values: Iterable[bytes], *, durable: bool = False) -> World:
        """Return it with values at a partition's end; durable: with all before them as well."""
        part = self.topics[name][number]
        every = (*part.values, *values)
        return self.with_part(
            name, number, replace(part, values=every, durable=len(every) if durable else part.durable)
        )

    def then(self, *crews: Crew) -> World:
        """Return it with more entries about the group."""
        return replace(self, crews=(*self.crews, *crews))


@dataclass(frozen=True)
class Standing:
    """What may be found now: any of these."""

    possible: tuple[World, ...] = (World({}),)

    def objections(self, found: Content, *, power_lost: bool) -> list[str]:
        """Return why none of the worlds is what was found, empty if one is."""
        reasons = [world.objection(found, power_lost=power_lost) for world in self.possible]
        return [] if None in reasons else [reason for reason in reasons if reason]


class TopicLedger:
    """Calls a broker and notes what it may hold. on_change: called with every new standing."""

    def __init__(self, on_change: Callable[[Standing], None], standing: Standing) -> None:
        self.standing = standing
        self.on_change = on_change

    @property
    def known(self) -> World:
        """What the broker holds if no call is under way."""
        return self.standing.possible[-1]

    def _note(self, *worlds: World) -> None:
        self.standing = Standing(worlds)
        self.on_change(self.standing)

    @contextmanager
    def call(self, broker: Broker, *worlds: World) -> Iterator[None]:
        """A call that leaves everything as it is, or as one of the worlds; as the last one if it returns."""
        self._note(self.known, *worlds)
        yield
        self.done(broker)

    def done(self, broker: Broker) -> None:
        """It has returned: what the logs call durable by now must survive power loss."""
        world = self.known
        for name, parts in world.topics.items():
            for number, part in enumerate(parts):
                durable = broker.topic(name).partition(number).durable_offset
                world = world.with_part(name, number, replace(part, durable=min(durable, len(part.values))))
        offsets = broker.logs()[".groups"]
        if offsets.durable_offset == offsets.next_offset:
            world = replace(world, crews=world.crews[-1:], known=0)
        self._note(replace(world, known=len(world.crews) - 1))

    def settle(self, broker: Broker, *, power_lost: bool = False) -> None:
        """Take what the broker holds for known, if it may hold that; opening has made it durable."""
        found = content_of(broker)
        reasons = self.standing.objections(found, power_lost=power_lost)
        assert not reasons, reasons
        topics = {
            name: tuple(Part(one.values, len(one.values), one.rules) for one in parts)
            for name, parts in found.topics.items()
        }
        self._note(World(topics, (found.crew,)))

    # --- calls ------------------------------------------------------------------------------------------------------

    def create(self, broker: Broker, name: str, partitions: int, config: seglog.LogConfig) -> Topic:
        made = replace(self.known, topics={**self.known.topics, name: (Part(),) * partitions})
        with self.call(broker, made):
            return broker.create_topic(name, partitions=partitions, config=config)

    def add_partitions(self, broker: Broker, name: str, partitions: int) -> None:
        """Add partitions: all of them or none."""
        parts = self.known.topics[name]
        grown = (*parts, *(Part(rules=parts[0].rules) for _ in range(partitions - len(parts))))
        with self.call(broker, replace(self.known, topics={**self.known.topics, name: grown})):
            broker.add_partitions(name, partitions)

    def delete(self, broker: Broker, name: str) -> None:
        """Delete; once it has returned the name and what was committed of it are gone."""
        left = {topic: parts for topic, parts in self.known.topics.items() if topic != name}
        last = self.known.crews[-1]
        forgotten = last._replace(offsets=frozenset(one for one in last.offsets if one[0][0] != name))
        world = replace(self.known, topics=left)
        with self.call(broker, world, world.then(forgotten)):
            broker.delete_topic(name)
        assert len(self.known.crews) == 1, "a deletion returned, and what it forgot is not durable"

    def append(self, broker: Broker, name: str, number: int, value: bytes, *, once: str | None = None) -> None:
        with self.call(broker, self.known.grown(name, number, [value])):
            assert broker.topic(name).append(value, partition=number, once=once)[0] == number

    def append_batch(self, broker: Broker, name: str, shares: Mapping[int, list[bytes]], *, once: str | None) -> None:
        """Append a batch: share by share."""
        worlds = [self.known]
        for number, values in shares.items():
            worlds.append(worlds[-1].grown(name, number, values))
        rows = [(number, value) for number, values in shares.items() for value in values]
        table = pa.table({"partition": [number for number, _ in rows], "value": [value for _, value in rows]})
        with self.call(broker, *worlds[1:]):
            broker.topic(name).append_batch(table, once=once)

    def sync(self, broker: Broker, name: str) -> None:
        with self.call(broker, self.known):
            broker.topic(name).sync()
        assert all(part.durable == len(part.values) for part in self.known.topics[name])

    def publish(
        self,
        broker: Broker,
        name: str,
        staged: Mapping[int, list[StagedSegment]],
        values: Mapping[int, list[bytes]],
        batch: int,
    ) -> None:
        """Publish: all partitions have their share or none has, and once it has returned they keep it."""
        worlds = [replace(world, lossy=True) for world in self._cut(name, list(values))] + [self.known]
        for number, share in values.items():
            worlds = [world.grown(name, number, share, durable=True) for world in worlds]
        with self.call(broker, *worlds):
            broker.topic(name).publish(staged, query="q", batch=batch)
        assert all(self.known.topics[name][number].durable >= len(share) for number, share in values.items())

    def _cut(self, name: str, numbers: list[int]) -> Iterator[World]:
        """Give what is known with every number of records that are not durable missing at the ends of partitions: a
        batch that was committed joins behind what a power loss has left.
        """
        parts = [self.known.topics[name][number] for number in numbers]
        for ends in itertools.product(*(range(part.durable, len(part.values) + 1) for part in parts)):
            world = self.known
            for number, part, end in zip(numbers, parts, ends, strict=True):
                world = world.with_part(name, number, replace(part, values=part.values[:end]))
            yield world

    def commit(
        self, broker: Broker, offsets: Mapping[Place, int], *, member: str | None = None, durable: bool = False
    ) -> None:
        crews, named = [self.known.crews[-1]], dict[str, dict[int, int]]()
        for at, offset in offsets.items():
            others = frozenset(one for one in crews[-1].offsets if one[0] != at)
            crews.append(crews[-1]._replace(offsets=others | {(at, offset)}))
            named.setdefault(at[0], {})[at[1]] = offset
        with self.call(broker, self.known.then(*crews[1:])):
            broker.groups.commit(GROUP, named, member=member, durable=durable)
        assert not durable or len(self.known.crews) == 1, "a durable commit returned, and it is not durable"

    def join(self, broker: Broker, member: str, topics: list[str]) -> None:
        last = self.known.crews[-1]
        with self.call(broker, self.known.then(last._replace(members=last.members | {member}))):
            broker.groups.join(GROUP, topics, member=member, session_timeout=3600)

    def leave(self, broker: Broker, member: str) -> None:
        last = self.known.crews[-1]
        with self.call(broker, self.known.then(last._replace(members=last.members - {member}))):
            broker.groups.leave(GROUP, member)

    def alter(self, broker: Broker, name: str, rules: Rules) -> None:
        """Give a topic other rules: all partitions and the topic, or none."""
        parts = self.known.topics[name]
        altered = tuple(replace(part, rules=rules) for part in parts)
        changes: dict[str, Any] = {}
        if rules.bytes != parts[0].rules.bytes:
            changes = {"retention": seglog.Retention(bytes=rules.bytes), "segment_age": 60}
        if rules.copies != parts[0].rules.copies:
            changes["policies"] = seglog.Policies(copies=rules.copies)
        with self.call(broker, replace(self.known, topics={**self.known.topics, name: altered})):
            broker.alter_topic(name, **changes)

    def as_an_earlier_version(self, broker: Broker, name: str, copies: int) -> None:
        """Store the policies of a topic with its logs, as earlier versions did."""
        store_with_logs(broker.topic(name), seglog.Policies(copies=copies))
        parts = tuple(replace(part, rules=Rules(copies=copies)) for part in self.known.topics[name])
        self._note(replace(self.known, topics={**self.known.topics, name: parts}))
