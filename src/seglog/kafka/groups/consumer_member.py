"""A member of a group whose partitions the server assigns: what its heartbeats say, and what they are answered."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import NamedTuple

from seglog.kafka.groups.room import MEMBER_BYTES, NAME_BYTES
from seglog.topic.layout.places import Partition

JOIN, LEAVE, LEAVE_FOR_NOW = 0, -1, -2
"""Epochs of heartbeats. LEAVE_FOR_NOW: a static member comes back within its session."""


class Beat(NamedTuple):
    """A heartbeat; None: as before. Partitions have the id of their topic.

    Attributes:
        member: The member's id.
        epoch: The last one that it was answered, or JOIN, LEAVE, LEAVE_FOR_NOW.
        instance: Its name as a static member, which it keeps after a restart.
        rack: Where it runs.
        rebalance: Seconds that it may take to release partitions.
        topics: The names of the topics that it subscribes to.
        regex: A regular expression of names that it subscribes to, too; "": none.
        assignor: How partitions should be assigned.
        owned: The partitions that it reads now.
        client_id: The client's name.
        host: The client's address.
        payer: Whose share the member counts against, see `Shares`; of its first heartbeat.
    """

    member: str
    epoch: int
    instance: str | None = None
    rack: str | None = None
    rebalance: float | None = None
    topics: tuple[str, ...] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: frozenset[Partition] | None = None
    client_id: str = ""
    host: str = ""
    payer: str = ""

    @property
    def is_full(self) -> bool:
        """Whether it is complete, as after a lost answer: then its answer is complete, too."""
        subscribes = self.topics is not None or self.regex is not None
        return self.epoch == JOIN or (self.rebalance is not None and subscribes and self.owned is not None)

    def and_then(self, later: Beat) -> Beat:
        """Return what both say together, the later one first; without partitions."""
        given = {name: value for name, value in later._asdict().items() if value is not None}
        return self._replace(**given)._replace(owned=None, payer=self.payer)


def size_of(said: Beat, reads: tuple[str, ...]) -> int:
    """Return the bytes that a member holds, about."""
    texts = (said.member, said.instance or "", said.rack or "", said.regex or "", said.client_id, *(said.topics or ()))
    return MEMBER_BYTES + sum(map(len, texts)) + sum(len(name) + NAME_BYTES for name in reads)


class Answer(NamedTuple):
    """The answer to a heartbeat. interval: seconds until the next; assignment: None: as before."""

    member: str
    epoch: int
    interval: float = 0.0
    assignment: tuple[Partition, ...] | None = None


@dataclass(slots=True, eq=False)
class ConsumerMember:
    """A member.

    Attributes:
        said: What it has said in all heartbeats together.
        epoch: The epoch of the group that it has reached; LEAVE_FOR_NOW: it is away.
        previous: The one before, whose heartbeats are accepted: an answer can get lost.
        reads: The names of the topics that it subscribes to, also by a regular expression.
        matched_at: When the regular expression was last compared with all topics, on the loop's clock.
        assigned: The partitions that it was answered.
        since: Partition -> the member's epoch when it got it; also of those that it has to release.
        expiry: Removes it when it is silent.
        revoking: Removes it if it does not release partitions in time.
    """

    said: Beat
    epoch: int = JOIN
    previous: int = JOIN
    reads: tuple[str, ...] = ()
    matched_at: float = 0.0
    assigned: frozenset[Partition] = frozenset()
    since: dict[Partition, int] = field(default_factory=dict)
    expiry: asyncio.TimerHandle | None = field(default=None, repr=False)
    revoking: asyncio.TimerHandle | None = field(default=None, repr=False)

    @property
    def id(self) -> str:
        """Its id."""
        return self.said.member

    @property
    def size(self) -> int:
        """Bytes that it holds, about."""
        return size_of(self.said, self.reads)

    def end(self) -> None:
        """Cancel its timers."""
        for handle in (self.expiry, self.revoking):
            if handle is not None:
                handle.cancel()
        self.expiry = self.revoking = None
