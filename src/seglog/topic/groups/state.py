"""What a group is at one moment: its members, who owns which partition, and what is being handed over. Pure.

    a partition is      owned by one member, which alone may commit it,
    or                  owned and moving to an heir (or to nobody): missing in its owner's answers since generation
                        `since`; its own still, until it comes back with that generation or a later one
    or                  nobody's, where no member reads its topic

So two members never own a partition, and an heir learns of it only when the owner has let go. Every change gives a new
`Crew`, the old one stays as it was: whoever keeps them can write the new one down before anybody hears of it.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from seglog.topic.groups.assignment import assign

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seglog.topic.places import Partition


class Membership(NamedTuple):
    """What a group answers a member: its id, the generation to come back with, what it is to read from now on."""

    member: str
    generation: int
    assignment: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member as `describe` shows it. session_timeout: seconds; seen_at: microseconds, None if nobody here knows."""

    id: str
    topics: tuple[str, ...]
    assignment: tuple[Partition, ...]
    session_timeout: float
    seen_at: int | None
    local: bool


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as `describe` shows it. committed: topic -> partition -> offset to be read next; lag: records."""

    name: str
    generation: int
    members: tuple[MemberState, ...]
    committed: dict[str, dict[int, int]]
    lag: dict[Partition, int]


class Enrolled(NamedTuple):
    """What a member said when it joined. session_timeout: seconds; local: it ends with the broker's process."""

    topics: tuple[str, ...]
    session_timeout: float
    local: bool


class Move(NamedTuple):
    """Who gets a partition when its owner has let go (None: nobody), and since which generation it is asked to."""

    heir: str | None
    since: int


@dataclass(frozen=True)
class Crew:
    """The members of one group and what they own. partitions: topic -> how many, when it was last shared out."""

    generation: int = 0
    members: Mapping[str, Enrolled] = field(default_factory=dict)
    owners: Mapping[Partition, str] = field(default_factory=dict)
    moving: Mapping[Partition, Move] = field(default_factory=dict)
    partitions: Mapping[str, int] = field(default_factory=dict, compare=False)

    @cached_property
    def _assignments(self) -> dict[str, tuple[Partition, ...]]:
        found: dict[str, list[Partition]] = {}
        for partition in sorted(self.owners):
            if partition not in self.moving:
                found.setdefault(self.owners[partition], []).append(partition)
        return {member: tuple(those) for member, those in found.items()}

    def answer(self, member: str) -> Membership:
        """Return what a member is to know."""
        return Membership(member, self.generation, self._assignments.get(member, ()))

    def released(self, member: str, generation: int) -> Crew:
        """Return the group after a member came back with a generation: what it was asked to let go of goes on."""
        let_go = [
            partition
            for partition, move in self.moving.items()
            if self.owners[partition] == member and move.since <= generation
        ]
        if not let_go:
            return self
        owners = dict(self.owners)
        for partition in let_go:
            heir = self.moving[partition].heir
            if heir is None:
                del owners[partition]
            else:
                owners[partition] = heir
        moving = {partition: move for partition, move in self.moving.items() if partition not in set(let_go)}
        return dataclasses.replace(self, owners=owners, moving=moving)

    def shared(self, members: Mapping[str, Enrolled], partitions: Mapping[str, int]) -> Crew:
        """Return the group with these members and everything shared out evenly, with as few moves as that takes.

        partitions: topic -> how many, of all topics that these members read; of one that is not there 0. What a member
        owned that is none any more is free at once. Itself where neither has changed.
        """
        if members == self.members and partitions == self.partitions:
            return self
        heirs = {partition: move.heir for partition, move in self.moving.items() if move.heir is not None}
        target = assign({one: said.topics for one, said in members.items()}, partitions, {**self.owners, **heirs})
        generation = self.generation + 1
        owners, moving = dict(target), {}
        for partition, owner in self.owners.items():
            if owner in members and target.get(partition) != owner:
                begun = self.moving.get(partition)
                owners[partition] = owner
                moving[partition] = Move(target.get(partition), generation if begun is None else begun.since)
        if (members, owners, moving) == (self.members, self.owners, self.moving):
            generation = self.generation  # another partition count that nobody is touched by, or the first look at it
        return Crew(generation, dict(members), owners, moving, dict(partitions))


class Sessions:
    """When each member of each group was heard of last, and the latest generation it was answered. Of one process.

    A generation that a member names counts only as far as it was answered here: after a power loss, generations that
    were given out once can be given out again for something else.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, int]] = {}  # group -> member -> when
        self._told: dict[str, dict[str, int]] = {}  # group -> member -> generation

    def heard(self, group: str, member: str, now: int) -> None:
        """Note that a member was heard of at `now`, in microseconds."""
        self._seen.setdefault(group, {})[member] = now

    def answered(self, group: str, answer: Membership) -> None:
        """Note what a member is being answered."""
        self._told.setdefault(group, {})[answer.member] = answer.generation

    def told(self, group: str, member: str) -> int:
        """Return the latest generation that a member was answered, -1 where none was."""
        return self._told.get(group, {}).get(member, -1)

    def seen_at(self, group: str, member: str) -> int | None:
        """Return when a member was heard of last, None where it never was."""
        return self._seen.get(group, {}).get(member)

    def silent(self, group: str, crew: Crew, now: int) -> list[str]:
        """Return the members that were silent for longer than their session, and those never heard of here.

        Where the clock went back since, a session begins anew: else a dead member would keep its partitions until the
        clock has come to where it was.
        """
        seen = self._seen.get(group, {})
        seen.update({member: now for member in crew.members if seen.get(member, now) > now})
        return [
            member
            for member, said in crew.members.items()
            if now - seen.get(member, -math.inf) > said.session_timeout * 1_000_000
        ]

    def forget(self, group: str, crew: Crew) -> None:
        """Forget the sessions of all but the members that the group has now."""
        for table in (self._seen, self._told):
            kept = {member: value for member, value in table.pop(group, {}).items() if member in crew.members}
            if kept:
                table[group] = kept
