"""One group: its members, its generations, and in which order they join and get their assignments. Event loop only.

    empty        no members
    preparing    members join; those that do not in time are removed
    completing   a generation has begun, and its leader has not sent the assignment yet
    stable       every member has its assignment

A rebalance is preparing, then completing, then stable. It begins when a member joins, leaves, is silent, or has
something else to say.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import Counter
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import NamedTuple

from seglog.kafka import codes
from seglog.kafka.groups.member import Joined, Member, Synced, SyncWish, Wish
from seglog.kafka.groups.remains import CLASSIC, Remains
from seglog.kafka.groups.room import MEMBER_BYTES, MOST_MEMBERS
from seglog.server.runtime.shares import Shares

SHOWN_CHARACTERS = 100  # of a client's name in the id of its member
FIRST_SECONDS = 0.05
"""How long an empty group waits for more members before its first generation."""


class State(Enum):
    """The states, named as Kafka's tools show them."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


class _Pending(NamedTuple):
    """A member that was given an id and has not joined with it yet. expiry: forgets it; payer: as of `Wish`."""

    expiry: asyncio.TimerHandle
    payer: str


class Group:
    """A group. emptied: called when the last member is gone. room: for what the members of all groups hold.

    before: what was kept of it when its last member was gone.
    """

    def __init__(
        self, name: str, emptied: Callable[[Group], None], room: Shares, before: Remains | None = None
    ) -> None:
        self.name = name
        self._room = room
        self.state = State.EMPTY
        known = before if before is not None and before.type == CLASSIC else Remains(CLASSIC, "", 0)
        self.generation, self.kind = known.epoch, known.kind
        self.protocol = ""
        self.leader = ""
        self.members: dict[str, Member] = {}
        self._pending: dict[str, _Pending] = {}  # by the ids
        self._statics: dict[str, str] = {}  # instance -> member
        self._emptied = emptied
        self._loop = asyncio.get_running_loop()
        self._deadline: asyncio.TimerHandle | None = None
        self._waiting_first = False  # for the first members of a group that was empty

    @property
    def remains(self) -> Remains | None:
        """What to keep of it when its last member is gone."""
        return Remains(CLASSIC, self.kind, self.generation).or_none()

    # --- joining --------------------------------------------------------------------------------------------------

    async def join(self, wish: Wish) -> Joined:
        """Join, and return when the others have joined too."""
        code = self._refusal(wish)
        if code:
            self.forget_if_unused()
            return Joined(code, wish.member)
        if not wish.member:
            return await self._join_anew(wish)
        known = self.members.get(wish.member)
        if known is None:
            return await self._wait_to_join(self._add(wish.member, wish))
        return await self._join_again(known, wish)

    def _refusal(self, wish: Wish) -> int:
        if wish.member:
            if self._owner(wish.instance) not in (None, wish.member):
                return codes.FENCED_INSTANCE_ID
            known = self.members.get(wish.member)
            is_same = known is not None and known.wish.instance == wish.instance  # a member keeps its instance name
            if not is_same and wish.member not in self._pending:
                return codes.UNKNOWN_MEMBER_ID
        if not wish.protocols or not wish.kind or (self.members and wish.kind != self.kind):
            return codes.INCONSISTENT_GROUP_PROTOCOL
        same = {wish.member, self._owner(wish.instance)}
        others = [one for one in self.members.values() if one.id not in same]
        if others and not self._common(others) & wish.protocols.keys():
            return codes.INCONSISTENT_GROUP_PROTOCOL
        paid = [one.wish for one in self.members.values() if one.id in same and one.wish.payer == wish.payer]
        more = wish.size - sum(one.size for one in paid)
        fits = len(others) < MOST_MEMBERS and self._room.fits(wish.payer, more)
        return codes.NONE if fits else codes.GROUP_MAX_SIZE_REACHED

    def _owner(self, instance: str | None) -> str | None:
        """Return the id of a static member, None if there is none of this name."""
        return None if instance is None else self._statics.get(instance)

    async def _join_anew(self, wish: Wish) -> Joined:
        """Join as a new member, or as a static one that has restarted."""
        shown = (wish.instance or wish.client_id or "member")[:SHOWN_CHARACTERS]
        member = f"{shown}-{secrets.token_hex(16)}"
        if wish.instance in self._statics:
            return await self._replace_static(member, wish)
        if wish.needs_id and wish.instance is None:
            if len(self._pending) >= MOST_MEMBERS:
                return Joined(codes.GROUP_MAX_SIZE_REACHED)
            expiry = self._loop.call_later(wish.session, self._forget_pending, member)
            self._pending[member] = _Pending(expiry, wish.payer)
            self._room.change(wish.payer, MEMBER_BYTES)
            return Joined(codes.MEMBER_ID_REQUIRED, member)
        return await self._wait_to_join(self._add(member, wish))

    def _add(self, member: str, wish: Wish) -> Member:
        self._end_pending(member)
        if not self.members:
            self.kind = wish.kind
        added = self.members[member] = Member(member, wish)
        self._room.change(wish.payer, wish.size)
        if wish.instance is not None:
            self._statics[wish.instance] = member
        self.leader = self.leader or member
        return added

    async def _replace_static(self, member: str, wish: Wish) -> Joined:
        """Continue a static member that has restarted under a new id; without a rebalance if nothing else changed."""
        assert wish.instance is not None  # noqa: S101 - the caller found it
        old = self.members.pop(self._statics[wish.instance])
        self._room.change(old.wish.payer, -old.wish.size)  # the new one takes over its assignment
        unchanged = self.state is State.STABLE and old.wish.protocols == wish.protocols
        led = self.leader == old.id
        old.end(codes.FENCED_INSTANCE_ID)
        found = self._add(member, wish)
        found.assignment, found.assigned_by = old.assignment, old.assigned_by
        self.leader = member if led else self.leader
        self._heard(found)
        if not unchanged:
            return await self._wait_to_join(found)
        joined = self._joined(found)
        if not led or wish.may_skip:
            return joined._replace(skips=led)
        # An earlier client gets its former id as that of the leader: so it keeps its assignment and assigns nothing.
        return joined._replace(leader=old.id, members=())

    async def _join_again(self, known: Member, wish: Wish) -> Joined:
        unchanged = known.wish.protocols == wish.protocols
        self._room.change(known.wish.payer, -known.wish.size)
        self._room.change(wish.payer, wish.size)
        known.wish = wish
        repeats = self.state is State.COMPLETING and unchanged
        if repeats or (self.state is State.STABLE and unchanged and known.id != self.leader):
            self._heard(known)
            return self._joined(known)
        return await self._wait_to_join(known)

    async def _wait_to_join(self, member: Member) -> Joined:
        member.answer_join(Joined(codes.UNKNOWN_MEMBER_ID, member.id))  # of an earlier connection
        waiting: asyncio.Future[Joined] = self._loop.create_future()
        member.joining = waiting
        if member.expiry is not None:
            member.expiry.cancel()
        if self.state is not State.PREPARING:
            self._prepare()
        self._complete_if_all_joined()
        return await waiting

    def _prepare(self) -> None:
        """Begin a rebalance."""
        first = self.state is State.EMPTY
        self.state = State.PREPARING
        for one in self.members.values():
            one.answer_sync(Synced(codes.REBALANCE_IN_PROGRESS))
        seconds = FIRST_SECONDS if first else max(one.wish.rebalance for one in self.members.values())
        self._waiting_first = first
        self._set_deadline(seconds, self._complete)

    def _set_deadline(self, seconds: float, then: Callable[[], None]) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
        self._deadline = self._loop.call_later(seconds, then)

    def _complete_if_all_joined(self) -> None:
        waits = self._waiting_first or self._pending or any(one.joining is None for one in self.members.values())
        if self.state is State.PREPARING and not waits:
            self._complete()

    def _complete(self) -> None:
        """Begin a generation of the members that have joined."""
        for one in [*self.members.values()]:
            if one.joining is None and one.wish.instance is None:
                self._drop(one)
        if not self.members:
            self._become_empty()
            return
        self.generation += 1
        self.state = State.COMPLETING
        candidates = self._common(self.members.values())
        votes = Counter(one.votes(candidates) for one in self.members.values())
        self.protocol = votes.most_common(1)[0][0]
        if self.leader not in self.members or self.members[self.leader].joining is None:
            self.leader = next((one.id for one in self.members.values() if one.joining is not None), self.leader)
        seconds = max(one.wish.rebalance for one in self.members.values())
        self._set_deadline(seconds, partial(self._give_up, self.generation))
        for one in self.members.values():
            if one.joining is not None:  # not a static member that is away
                self._heard(one)
                one.answer_join(self._joined(one))

    def _joined(self, member: Member) -> Joined:
        listed: tuple[tuple[str, str | None, bytes], ...] = ()
        if member.id == self.leader:
            listed = tuple(
                (one.id, one.wish.instance, one.wish.protocols.get(self.protocol, b"")) for one in self.members.values()
            )
        return Joined(codes.NONE, member.id, self.generation, self.kind, self.protocol, self.leader, listed)

    @staticmethod
    def _common(members: Iterable[Member]) -> set[str]:
        """Return the protocols that all these members have."""
        return set.intersection(*(set(one.wish.protocols) for one in members))

    def _give_up(self, generation: int) -> None:
        """Remove the members that did not ask for their assignment in time."""
        if self.state is State.COMPLETING and self.generation == generation:
            for one in [*self.members.values()]:
                if one.syncing is None:
                    self._drop(one)
            self._after_a_loss()

    # --- assignments ----------------------------------------------------------------------------------------------

    async def sync(self, member: str, instance: str | None, generation: int, assigned: SyncWish) -> Synced:
        """Return the member's assignment, when the leader has sent it. assigned: what this member sends for it."""
        code, found = self.check(member, instance, generation)
        if found is None:
            return Synced(code)
        if not assigned.fits(self.kind, self.protocol):
            return Synced(codes.INCONSISTENT_GROUP_PROTOCOL)
        self._heard(found)
        if self.state is State.PREPARING:
            return Synced(codes.REBALANCE_IN_PROGRESS)
        if self.state is State.STABLE:
            return self._synced(found)
        if member == self.leader and not self._room.fits(found.wish.payer, self._more_assigned(found, assigned)):
            return Synced(codes.GROUP_MAX_SIZE_REACHED)
        found.answer_sync(Synced(codes.UNKNOWN_MEMBER_ID))  # of an earlier connection
        waiting: asyncio.Future[Synced] = self._loop.create_future()
        found.syncing = waiting
        if member == self.leader:
            for one in self.members.values():
                self._assign(one, assigned.assignments.get(one.id, b""), found.wish.payer)
            self.state = State.STABLE
            if self._deadline is not None:
                self._deadline.cancel()
            for one in self.members.values():
                one.answer_sync(self._synced(one))
        del assigned  # only that of a leader is kept, and counted
        return await waiting

    def _more_assigned(self, leader: Member, assigned: SyncWish) -> int:
        """Return how many bytes more than now would count against the leader's share."""
        paid = sum(len(one.assignment) for one in self.members.values() if one.assigned_by == leader.wish.payer)
        return sum(len(assigned.assignments.get(one, b"")) for one in self.members) - paid

    def _assign(self, member: Member, assignment: bytes, payer: str) -> None:
        self._room.change(member.assigned_by, -len(member.assignment))
        self._room.change(payer, len(assignment))
        member.assignment, member.assigned_by = assignment, payer

    def _synced(self, member: Member) -> Synced:
        return Synced(codes.NONE, member.assignment, self.kind, self.protocol)

    def check(self, member: str, instance: str | None, generation: int) -> tuple[int, Member | None]:
        """Return the member, or the code of what is wrong with its id or generation."""
        if self._owner(instance) not in (None, member):
            return codes.FENCED_INSTANCE_ID, None
        found = self.members.get(member)
        if found is None:
            return codes.UNKNOWN_MEMBER_ID, None
        if generation != self.generation:
            return codes.ILLEGAL_GENERATION, None
        return codes.NONE, found

    def heartbeat(self, member: str, instance: str | None, generation: int) -> int:
        """Note that a member lives; return whether it must join again, as a code."""
        code, found = self.check(member, instance, generation)
        if found is None:
            return code
        self._heard(found)
        return codes.REBALANCE_IN_PROGRESS if self.state is State.PREPARING else codes.NONE

    def check_commit(self, member: str, instance: str | None, generation: int) -> int:
        """Return whether a member may commit, as a code. A commit without a member needs an empty group."""
        if generation < 0 and not member and not self.members:
            return codes.NONE
        code, found = self.check(member, instance, generation)
        if found is None:
            return code
        self._heard(found)
        return codes.REBALANCE_IN_PROGRESS if self.state is State.COMPLETING else codes.NONE

    # --- leaving --------------------------------------------------------------------------------------------------

    def leave(self, member: str, instance: str | None) -> int:
        """Remove a member; return a code."""
        if instance is not None:
            owner = self._statics.get(instance)
            if owner is None:
                return codes.UNKNOWN_MEMBER_ID
            if member and member != owner:
                return codes.FENCED_INSTANCE_ID
            member = owner
        if self._end_pending(member):
            self._go_on()
            return codes.NONE
        found = self.members.get(member)
        if found is None:
            return codes.UNKNOWN_MEMBER_ID
        self._drop(found)
        self._after_a_loss()
        return codes.NONE

    def _drop(self, member: Member) -> None:
        del self.members[member.id]
        self._assign(member, b"", "")
        self._room.change(member.wish.payer, -member.wish.size)
        if member.wish.instance is not None:
            self._statics.pop(member.wish.instance, None)
        if self.leader == member.id:
            self.leader = ""
        member.end()

    def _after_a_loss(self) -> None:
        """Begin a rebalance without the lost member, or go on with the present one."""
        if not self.members:
            self._become_empty()
        elif self.state is State.PREPARING:
            self._complete_if_all_joined()
        else:
            self.leader = self.leader or next(iter(self.members))
            self._prepare()

    def _become_empty(self) -> None:
        if self.state is not State.EMPTY:
            self.generation += 1
        self.state, self.protocol, self.leader = State.EMPTY, "", ""
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        self.forget_if_unused()

    def forget_if_unused(self) -> None:
        """End the group if it has no members, and none is to come."""
        if not self.members and not self._pending:
            self._emptied(self)

    def _heard(self, member: Member) -> None:
        """Restart a member's session."""
        if member.expiry is not None:
            member.expiry.cancel()
        member.expiry = self._loop.call_later(member.wish.session, self._expire, member)

    def _expire(self, member: Member) -> None:
        if self.members.get(member.id) is not member:
            return
        if member.joining is not None or member.syncing is not None:  # it waits for others, who have deadlines
            self._heard(member)
            return
        self._drop(member)
        self._after_a_loss()

    def _end_pending(self, member: str) -> bool:
        """Wait no longer for a member that was given this id; return whether one was."""
        pending = self._pending.pop(member, None)
        if pending is None:
            return False
        pending.expiry.cancel()
        self._room.change(pending.payer, -MEMBER_BYTES)
        return True

    def _forget_pending(self, member: str) -> None:
        self._end_pending(member)
        self._go_on()

    def _go_on(self) -> None:
        """Go on without a member that did not join with the id that it was given."""
        if self.members or self._pending:
            self._complete_if_all_joined()
        self.forget_if_unused()

    def close(self) -> None:
        """Cancel all timers, and answer everything that waits."""
        if self._deadline is not None:
            self._deadline.cancel()
        for member in [*self._pending]:
            self._end_pending(member)
        for one in self.members.values():
            one.end(codes.COORDINATOR_NOT_AVAILABLE)
