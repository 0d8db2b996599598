"""All groups that have members which use Kafka's protocol. Event loop only."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TypeVar

from seglog.errors import GroupConflict
from seglog.kafka.faults import GroupFull
from seglog.kafka.groups.consumer_group import ConsumerGroup
from seglog.kafka.groups.group import Group
from seglog.kafka.groups.member import Joined, Wish
from seglog.kafka.groups.remains import CONSUMER, Remains
from seglog.server.runtime.shares import Shares
from seglog.server.runtime.workers import Workers
from seglog.topic.groups import Groups
from seglog.topic.groups.bounds import MAX_GROUPS

AnyGroup = TypeVar("AnyGroup", Group, ConsumerGroup)
KIND = "a Kafka client"
UNUSED_SECONDS = 5.0
"""How long a group stays reserved without members: the client that wanted to join went away."""


class Coordinator:
    """The groups by name. A group has members of one protocol: seglog's, Kafka's classic or its consumer protocol.

    Of an empty group its committed offsets remain and, until it expires or the server ends, `Remains`.
    """

    def __init__(self, groups: Groups, workers: Workers, most_bytes: int) -> None:
        """Take the broker's groups, which have members of seglog's protocol.

        workers: for reserving a group, which waits while others read and write groups. most_bytes: that all members may
        hold.
        """
        self._groups = groups
        self._workers = workers
        self.room = Shares(most_bytes)
        self._reserved_by = Shares(MAX_GROUPS)
        self._known: dict[str, Group | ConsumerGroup] = {}
        self._reserving: dict[str, asyncio.Task[None]] = {}

    def find(self, name: str) -> Group | None:
        """Return a group of the classic protocol, None if it has no members of that here."""
        found = self._known.get(name)
        return found if isinstance(found, Group) else None

    def find_consumers(self, name: str) -> ConsumerGroup | None:
        """Return a group of the consumer protocol, None if it has no members of that here."""
        found = self._known.get(name)
        return found if isinstance(found, ConsumerGroup) else None

    def holds(self, name: str) -> bool:
        """Whether a group has members here."""
        return name in self._known

    def remains(self, name: str) -> Remains | None:
        """Return what is kept of a group that had members here."""
        found = self._groups.remains(name)
        return found if isinstance(found, Remains) else None

    def were_consumers(self, name: str) -> Remains | None:
        """Return what is kept of a group of the consumer protocol, None if there is none."""
        found = self.remains(name)
        return found if found is not None and found.type == CONSUMER else None

    def names(self) -> list[str]:
        """Return the groups with members."""
        return [*self._known]

    async def join(self, name: str, wish: Wish) -> Joined:
        """Join a group of the classic protocol, which is new if it has no members.

        Raises GroupConflict if it has members of another protocol, GroupFull, and Busy.
        """
        return await (await self._group(name, Group, wish.payer)).join(wish)

    async def consumers(self, name: str, payer: str) -> ConsumerGroup:
        """Return a group of the consumer protocol, which is new if it has no members. Errors as `join`.

        payer: whose share a new group counts against.
        """
        return await self._group(name, ConsumerGroup, payer)

    async def _group(self, name: str, kind: type[AnyGroup], payer: str) -> AnyGroup:
        while (found := self._known.get(name)) is None:
            await self._reserved(name, kind, payer)
        if not isinstance(found, kind):
            other = "classic" if isinstance(found, Group) else "consumer"
            raise GroupConflict(f"group {name!r} has members with group.protocol={other}; stop them first")
        return found

    async def _reserved(self, name: str, kind: type[AnyGroup], payer: str) -> None:
        """Reserve a group, once for all that wait for it; it is completed even if all of them are gone."""
        task = self._reserving.get(name)
        if task is None:
            if not self._reserved_by.fits(payer, 1):
                raise GroupFull(f"members of {self._reserved_by.of(payer)} groups are of this token or address already")
            task = self._reserving[name] = asyncio.create_task(self._reserve(name, kind, payer))
        await asyncio.shield(task)

    async def _reserve(self, name: str, kind: type[AnyGroup], payer: str) -> None:
        self._reserved_by.change(payer, 1)
        try:
            found = await self._workers.run(partial(self._groups.hold, name, KIND))
        except BaseException:
            self._reserved_by.change(payer, -1)
            raise
        finally:
            del self._reserving[name]
        before = found if isinstance(found, Remains) else None
        group = self._known[name] = kind(name, partial(self._forget, payer, before), self.room, before)
        asyncio.get_running_loop().call_later(UNUSED_SECONDS, group.forget_if_unused)

    def _forget(self, payer: str, before: Remains | None, group: Group | ConsumerGroup) -> None:
        if self._known.get(group.name) is group:
            del self._known[group.name]
            self._groups.release(group.name, group.remains or before)
            self._reserved_by.change(payer, -1)

    def close(self) -> None:
        """End all waiting requests."""
        for group in [*self._known.values()]:
            group.close()
