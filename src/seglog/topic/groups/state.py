"""The state of a group: its members, the owners of partitions, and handovers. Pure.

    a partition is      owned by one member, which alone may commit it,
    or                  owned and moving to an heir (or to none): missing in its owner's answers since generation
                        `since`; still the owner's until it returns with that generation or a later one
    or                  unowned, if no member reads its topic

So two members never own a partition, and an heir gets it only after the owner has released it. Every change returns a
new `Crew` and leaves the old one unchanged, so that it can be written to the log before it is answered.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from seglog.topic.groups.assignment import Assign, assign
from seglog.topic.layout.places import Partition


class Membership(NamedTuple):
    """A group's answer to a member: its id, the generation to return with, the partitions to read from now on."""

    member: str
    generation: int
    assignment: tuple[Partition, ...]


@dataclass(frozen=True, slots=True)
class MemberState:
    """A member as `describe` shows it. session_timeout: seconds; seen_at: microseconds, None if unknown here."""

    id: str
    topics: tuple[str, ...]
    assignment: tuple[Partition, ...]
    session_timeout: float
    seen_at: int | None
    local: bool


@dataclass(frozen=True, slots=True)
class GroupState:
    """A group as `describe` shows it. committed: topic -> partition -> the next offset to read; lag: records."""

    name: str
    generation: int
    members: tuple[MemberState, ...]
    committed: dict[str, dict[int, int]]
    lag: dict[Partition, int]


class Enrolled(NamedTuple):
    """What a member declared when it joined. session_timeout: seconds; local: it ends with the broker's process.

    payer: who pays for it, see `Payer`.
    """

    topics: tuple[str, ...]
    session_timeout: float
    local: bool
    payer: str = ""


class Move(NamedTuple):
    """A handover: the heir (or None) that gets a partition once its owner releases it, and since which generation."""

    heir: str | None
    since: int


@dataclass(frozen=True)
class Crew:
    """The members of one group and what they own. partitions: topic -> how many, at the last assignment."""

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
        """Return the answer for a member."""
        return Membership(member, self.generation, self._assignments.get(member, ()))

    def released(self, member: str, generation: int) -> Crew:
        """Return the group after a member's heartbeat with a generation: what it was to release moves to the heirs."""
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

    def shared(self, members: Mapping[str, Enrolled], partitions: Mapping[str, int], assignor: Assign = assign) -> Crew:
        """Return the group with these members, assigned evenly with as few moves as possible; itself if unchanged.

        partitions: topic -> how many, for all topics that these members read; 0 for a missing topic. Partitions of
        former members are free immediately. assignor: another way to assign.
        """
        if members == self.members and partitions == self.partitions:
            return self
        heirs = {partition: move.heir for partition, move in self.moving.items() if move.heir is not None}
        target = assignor({one: said.topics for one, said in members.items()}, partitions, {**self.owners, **heirs})
        generation = self.generation + 1
        owners, moving = dict(target), {}
        for partition, owner in self.owners.items():
            if owner in members and target.get(partition) != owner:
                begun = self.moving.get(partition)
                owners[partition] = owner
                moving[partition] = Move(target.get(partition), generation if begun is None else begun.since)
        if (members, owners, moving) == (self.members, self.owners, self.moving):
            generation = self.generation  # a changed partition count that affects no member, or the first one
        return Crew(generation, dict(members), owners, moving, dict(partitions))


class Sessions:
    """The time of each member's last heartbeat, and the latest generation it was sent. Of one process.

    A generation that a member names counts only if it was sent by this process: after a power loss, generations can be
    issued a second time for something else.
    """

    def __init__(self) -> None:
        self._seen: dict[str, dict[str, int]] = {}  # group -> member -> when, by a clock that measures durations
        self._shown: dict[str, dict[str, int]] = {}  # the same, by the clock that is shown
        self._told: dict[str, dict[str, int]] = {}  # group -> member -> generation

    def heard(self, group: str, member: str, now: int, shown: int) -> None:
        """Note a heartbeat of a member. now: us of a clock that measures durations; shown: us since the epoch."""
        self._seen.setdefault(group, {})[member] = now
        self._shown.setdefault(group, {})[member] = shown

    def answered(self, group: str, answer: Membership) -> None:
        """Note what a member is being answered."""
        self._told.setdefault(group, {})[answer.member] = answer.generation

    def told(self, group: str, member: str) -> int:
        """Return the latest generation that a member was sent, -1 if none."""
        return self._told.get(group, {}).get(member, -1)

    def seen_at(self, group: str, member: str) -> int | None:
        """Return the time of a member's last heartbeat, as it is shown; None if there was none."""
        return self._shown.get(group, {}).get(member)

    def silent(self, group: str, crew: Crew, now: int) -> list[str]:
        """Return the members that were silent for longer than their session, or never sent a heartbeat here.

        If a clock that can be set was set back since, a session restarts: otherwise a dead member would keep its
        partitions until the clock catches up.
        """
        seen = self._seen.get(group, {})
        seen.update({member: now for member in crew.members if seen.get(member, now) > now})
        return [
            member
            for member, said in crew.members.items()
            if now - seen.get(member, -math.inf) > said.session_timeout * 1_000_000
        ]

    def forget(self, group: str, crew: Crew) -> None:
        """Delete the sessions of all but the group's present members."""
        for table in (self._seen, self._shown, self._told):
            kept = {member: value for member, value in table.pop(group, {}).items() if member in crew.members}
            if kept:
                table[group] = kept
