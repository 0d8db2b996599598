"""Connections, groups and transactional ids, as an operator sees them; see `seglog.server.overview`."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Mapping
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, NamedTuple

from seglog.errors import GroupNotFound
from seglog.kafka.groups.assigned import Assigned, assigned
from seglog.kafka.groups.consumer_group import SESSION_SECONDS
from seglog.kafka.groups.group import Group
from seglog.kafka.transactions.state import State
from seglog.server.overview import (
    MOST_LISTED,
    AssignedPartition,
    ClientGroup,
    ClientMember,
    ConnectionState,
    Page,
    TransactionalId,
    first_after,
    shown,
)

if TYPE_CHECKING:
    from seglog.kafka.groups.consumer_group import ConsumerGroup
    from seglog.kafka.groups.consumer_member import ConsumerMember
    from seglog.kafka.groups.member import Member
    from seglog.kafka.requests.call import Parts, Sender
    from seglog.kafka.transactions.state import Transactional
    from seglog.topic.groups import GroupState
    from seglog.topic.layout.places import Partition

NUMBER_DIGITS = 20
MOST_PLACES = 5000
"""Partitions of all groups of a page: a page ends before the group that would exceed it."""
ACTIVE = (State.OPEN, State.DECIDED)


class KafkaOverview:
    """The clients of a listener. Event loop only."""

    def __init__(self, parts: Parts, senders: Callable[[], Collection[Sender]], address: str) -> None:
        """senders: returns those of all connections."""
        self._parts = parts
        self._senders = senders
        self.address = address

    def connections(self, after: str, most: int) -> Page[ConnectionState]:
        """Return the connections, the oldest first."""
        senders = self._senders()
        page, more = first_after(senders, attrgetter("number"), _number(after), most)
        return Page(len(senders), [_connection(one) for one in page], str(page[-1].number) if more else None)

    async def groups(self, after: str, most: int) -> Page[ClientGroup]:
        """Return the groups that have members, by name; fewer than `most` if they are large."""
        coordinator = self._parts.coordinator
        names = coordinator.names()
        page, more = first_after(names, str, after, most)
        held = [coordinator.find(name) or coordinator.find_consumers(name) for name in page]
        seen = [_Seen.of(group) if isinstance(group, Group) else _Seen.of_consumers(group) for group in held if group]
        found = await self._parts.services.groups.run(partial(self._described, seen))
        more = more or len(found) < len(seen)
        return Page(len(names), found, found[-1].name if more and found else None)

    def _described(self, seen: list[_Seen]) -> list[ClientGroup]:
        found: list[ClientGroup] = []
        left = MOST_PLACES
        for group in seen:
            state = self._state(group.name)
            members = [(one, one.reads() if group.consumes else None) for one in group.members]
            lag = {} if state is None else state.lag
            left -= len(lag) + sum(len(each.places) for _, each in members if each is not None)
            if left < 0 and found:
                break
            shown_members = [_member(one, each, lag) for one, each in members]
            total = sum(lag.values())
            found.append(
                ClientGroup(group.name, group.state, group.generation, group.protocol, total, group.size, shown_members)
            )
        return found

    def _state(self, group: str) -> GroupState | None:
        try:
            return self._parts.services.broker.groups.describe(group)
        except GroupNotFound:  # it has committed nothing
            return None

    def transactional_ids(self, after: str, most: int) -> Page[TransactionalId]:
        """Return the transactional ids, those with an open transaction first."""
        ids = self._parts.transactions.all()
        page, more = first_after(ids, _place, after, most)
        return Page(len(ids), [_transactional(one) for one in page], _place(page[-1]) if more else None)

    def producers(self) -> tuple[int, int]:
        """Return how many idempotent producers the partitions remember, each counted per partition; in how many."""
        return self._parts.producers.counts()


def _number(after: str) -> int:
    """Return the number of a connection; 0 for what no page has."""
    return int(after) if len(after) <= NUMBER_DIGITS and after.isascii() and after.isdigit() else 0


def _connection(sender: Sender) -> ConnectionState:
    return ConnectionState(
        id=sender.number,
        client=shown(sender.client_id),
        software=shown(sender.software),
        version=shown(sender.software_version),
        address=_address(sender.host, sender.port),
        token=None if sender.caller is None else sender.caller.name,
        connected_at=sender.connected_at,
        used_at=sender.used_at,
        requests=sender.requests,
    )


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


class _Seen(NamedTuple):
    """A group at one moment, for another thread."""

    name: str
    state: str
    generation: int
    protocol: str
    consumes: bool
    size: int
    members: list[_SeenMember]

    @classmethod
    def of(cls, group: Group) -> _Seen:
        members = [_SeenMember.of(one) for one in islice(group.members.values(), MOST_LISTED)]
        values = group.name, group.state.value, group.generation, shown(group.protocol)
        return cls(*values, group.kind == "consumer", len(group.members), members)

    @classmethod
    def of_consumers(cls, group: ConsumerGroup) -> _Seen:
        names = group.names()
        members = [_SeenMember.of_consumer(one, names) for one in islice(group.members.values(), MOST_LISTED)]
        values = group.name, group.state, group.crew.generation, group.assignor
        return cls(*values, True, len(group.members), members)


class _SeenMember(NamedTuple):
    id: str
    instance: str | None
    client: str
    host: str
    session: float
    assignment: bytes | Assigned

    @classmethod
    def of(cls, member: Member) -> _SeenMember:
        wish = member.wish
        instance = None if wish.instance is None else shown(wish.instance)
        return cls(shown(member.id), instance, shown(wish.client_id), wish.host, wish.session, member.assignment)

    @classmethod
    def of_consumer(cls, member: ConsumerMember, names: Mapping[str, str]) -> _SeenMember:
        said = member.said
        instance = None if said.instance is None else shown(said.instance)
        places = heapq.nsmallest(MOST_LISTED, ((names[topic], one) for topic, one in member.assigned if topic in names))
        reads = Assigned(places, len(member.assigned) <= MOST_LISTED)
        return cls(shown(member.id), instance, shown(said.client_id), said.host, SESSION_SECONDS, reads)

    def reads(self) -> Assigned | None:
        """Return the first partitions that it reads, None for an assignment of another format."""
        return self.assignment if isinstance(self.assignment, Assigned) else assigned(self.assignment, MOST_LISTED)


def _member(one: _SeenMember, reads: Assigned | None, lag: dict[Partition, int]) -> ClientMember:
    places = None
    if reads is not None:
        places = [AssignedPartition(shown(topic), number, lag.get((topic, number))) for topic, number in reads.places]
    complete = reads is not None and reads.complete
    return ClientMember(one.id, one.instance, one.client, one.host, one.session, places, complete)


def _place(one: Transactional) -> str:
    return f"{int(one.state not in ACTIVE)}{one.name}"


def _transactional(one: Transactional) -> TransactionalId:
    return TransactionalId(
        id=one.name,
        token=one.owner,
        producer=one.producer_id,
        epoch=max(one.epoch, 0),  # a new one has none yet
        state=one.state.value,
        used_at=one.used_at,
        timeout=one.timeout,
        bytes=0 if one.journal is None else one.journal.size,
        records=sum(line.staged for line in one.lines.values()),
        partitions=heapq.nsmallest(MOST_LISTED, one.partitions),
        groups=heapq.nsmallest(MOST_LISTED, one.groups),
        complete=max(len(one.partitions), len(one.groups)) <= MOST_LISTED,
    )
