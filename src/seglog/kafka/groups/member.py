"""A member of a group, and what it gets as answers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from seglog.kafka import codes
from seglog.kafka.groups.room import MEMBER_BYTES, NAME_BYTES


class Wish(NamedTuple):
    """What a member sends to join.

    Attributes:
        member: Its id, "" for a new one.
        instance: Its name as a static member, which it keeps after a restart; None: a dynamic member.
        session: Seconds of silence until it is removed.
        rebalance: Seconds that others wait for it to join again.
        kind: The type of its protocols; "consumer" for consumers.
        protocols: Name -> what it has to tell the leader; the preferred one first.
        client_id: The client's name.
        host: The client's address.
        needs_id: Whether a new member must join a second time, with the id that it is given.
        may_skip: Whether a leader that has restarted understands that it has nothing to assign.
        payer: Whose share the member counts against, see `Shares`.
    """

    member: str
    instance: str | None
    session: float
    rebalance: float
    kind: str
    protocols: dict[str, bytes]
    client_id: str
    host: str
    needs_id: bool = False
    may_skip: bool = False
    payer: str = ""

    @property
    def size(self) -> int:
        """Bytes that a member holds for it, about."""
        sent = sum(2 * NAME_BYTES + len(name) + len(data) for name, data in self.protocols.items())
        return MEMBER_BYTES + sent + len(self.kind) + len(self.client_id) + len(self.instance or "")


class Joined(NamedTuple):
    """The answer to a join.

    Attributes:
        code: What is wrong, or 0.
        member: The id of the member.
        generation: Of the group.
        kind: The type of the group's protocols.
        protocol: The one of them that all members have.
        leader: The id of the member that assigns partitions.
        members: Id, instance, and what each sent for the protocol; only for the leader.
        skips: Whether the leader has nothing to assign, because all continue with what they have.
    """

    code: int
    member: str = ""
    generation: int = -1
    kind: str = ""
    protocol: str = ""
    leader: str = ""
    members: tuple[tuple[str, str | None, bytes], ...] = ()
    skips: bool = False


class SyncWish(NamedTuple):
    """What a member sends to sync.

    Attributes:
        assignments: From the leader: an assignment for each member's id.
        kind: The type of the protocols that it joined with, None if its version does not send it.
        protocol: The one that was chosen, None if its version does not send it.
    """

    assignments: dict[str, bytes]
    kind: str | None = None
    protocol: str | None = None

    def fits(self, kind: str, protocol: str) -> bool:
        """Whether it was sent for these."""
        return self.kind in (None, kind) and self.protocol in (None, protocol)


class Synced(NamedTuple):
    """The answer to a sync: what the leader assigned; kind, protocol: as in the answer to the join."""

    code: int
    assignment: bytes = b""
    kind: str = ""
    protocol: str = ""


@dataclass(slots=True, eq=False)
class Member:
    """A member.

    assigned_by: whose share the assignment counts against. joining, syncing: its requests that wait for the others;
    expiry: removes it when it is silent.
    """

    id: str
    wish: Wish
    assignment: bytes = b""
    assigned_by: str = ""
    joining: asyncio.Future[Joined] | None = None
    syncing: asyncio.Future[Synced] | None = None
    expiry: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def size(self) -> int:
        """Bytes that it holds, about."""
        return self.wish.size + len(self.assignment)

    def votes(self, candidates: set[str]) -> str:
        """Return the protocol that it prefers among those that all members have."""
        return next(name for name in self.wish.protocols if name in candidates)

    def answer_join(self, answer: Joined) -> None:
        """Answer its join, if it waits."""
        if self.joining is not None and not self.joining.done():
            self.joining.set_result(answer)
        self.joining = None

    def answer_sync(self, answer: Synced) -> None:
        """Answer its sync, if it waits."""
        if self.syncing is not None and not self.syncing.done():
            self.syncing.set_result(answer)
        self.syncing = None

    def end(self, code: int = codes.UNKNOWN_MEMBER_ID) -> None:
        """Answer what it waits for: it is no longer a member."""
        self.answer_join(Joined(code, self.id))
        self.answer_sync(Synced(code))
        if self.expiry is not None:
            self.expiry.cancel()
            self.expiry = None
