"""What an operator may see of the clients of another protocol: the contract between the server and that protocol.

Clients choose names and numbers of what is shown, so every text is cut, every list has a limit, and the lists of
connections, groups and transactional ids come in pages.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

MOST_TEXT = 200
"""Characters of a name that a client chose."""
MOST_LISTED = 100
"""Members of a group, and partitions or groups of a member or of a transaction."""
T = TypeVar("T")
Key = TypeVar("Key", str, int)


@dataclass(frozen=True, slots=True)
class ConnectionState:
    """A connection.

    Attributes:
        id: Its number; later ones have greater numbers.
        client: What the client calls itself.
        software, version: The client's library, if it has named it.
        address: The client's address and port.
        token: The name of its token; "anybody" where the server has none; None before it has authenticated.
        connected_at, used_at: When it connected, and when its last request came, in us.
        requests: How many it has sent.
    """

    id: int
    client: str
    software: str
    version: str
    address: str
    token: str | None
    connected_at: int
    used_at: int
    requests: int


@dataclass(frozen=True, slots=True)
class AssignedPartition:
    """A partition of a member. lag: records after the group's committed offset; None if it has committed none."""

    topic: str
    partition: int
    lag: int | None


@dataclass(frozen=True, slots=True)
class ClientMember:
    """A member of a group.

    Attributes:
        id: Its id.
        instance: Its name as a static member.
        client, address: Of the client that joined.
        session: Seconds of silence until it is removed.
        partitions: The first of those that it reads; None if its assignment is not one of consumers.
        complete: Whether these are all.
    """

    id: str
    instance: str | None
    client: str
    address: str
    session: float
    partitions: list[AssignedPartition] | None
    complete: bool


@dataclass(frozen=True, slots=True)
class ClientGroup:
    """A group that has members.

    Attributes:
        name: Its name.
        state: As Kafka's tools name it.
        generation: The number of its assignment.
        protocol: The assignor that its members have agreed on.
        lag: Records after its committed offsets, of all partitions.
        count: Of its members.
        members: The first of them.
    """

    name: str
    state: str
    generation: int
    protocol: str
    lag: int
    count: int
    members: list[ClientMember]


@dataclass(frozen=True, slots=True)
class TransactionalId:
    """A transactional id.

    Attributes:
        id: The id.
        token: The name of the token that owns it.
        producer: The id of its producer.
        epoch: Of its producer; each start of the client raises it.
        state: Of its last transaction: empty, open, decided, committed or aborted.
        used_at: When that state began, in us.
        timeout: Seconds after which an open transaction is aborted.
        bytes: Staged by an open transaction.
        records: The same in records.
        partitions: The first of those that an open transaction writes to.
        groups: The first of those that it commits offsets for.
        complete: Whether these are all.
    """

    id: str
    token: str
    producer: int
    epoch: int
    state: str
    used_at: int
    timeout: float
    bytes: int
    records: int
    partitions: list[tuple[str, int]]
    groups: list[str]
    complete: bool


class Page(NamedTuple, Generic[T]):
    """A part of a list. total: entries of the whole list; after: where the next page begins, None: this is the last."""

    total: int
    entries: list[T]
    after: str | None


class Overview(Protocol):
    """The clients of another protocol, as they are now. after: of the page before, "" for the first; most: entries."""

    @property
    def address(self) -> str:
        """Where clients connect: host and port."""
        ...

    def connections(self, after: str, most: int) -> Page[ConnectionState]:
        """Return the connections, the oldest first."""
        ...

    async def groups(self, after: str, most: int) -> Page[ClientGroup]:
        """Return the groups that have members, by name; fewer than `most` if they are large."""
        ...

    def transactional_ids(self, after: str, most: int) -> Page[TransactionalId]:
        """Return the transactional ids, those with an open transaction first."""
        ...

    def producers(self) -> tuple[int, int]:
        """Return how many idempotent producers the partitions remember, each counted per partition; in how many."""
        ...


def first_after(found: Iterable[T], key: Callable[[T], Key], after: Key, most: int) -> tuple[list[T], bool]:
    """Return the entries of a page in the order of their keys, and whether others follow."""
    first = heapq.nsmallest(most + 1, (one for one in found if key(one) > after), key=key)
    return first[:most], len(first) > most


def shown(text: Any) -> str:
    """Return a text that a client chose, cut."""
    return str(text)[:MOST_TEXT]
