"""One group whose partitions the server assigns (KIP-848, `group.protocol=consumer`). Event loop only.

Each member sends heartbeats, and their answers bring its assignment; nothing else is sent. `Crew` of topic/groups
assigns and hands over, as it does for the members of HTTP:

    the group's epoch      the generation of the crew; rises with each new assignment
    a member's epoch       the group's epoch that the member has reached: it has released what it must not keep

A partition that moves is missing in its owner's answers; it is still the owner's, until a heartbeat reports that the
owner does not read it, or the owner is removed. Only then do the answers of the heir have it.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from seglog.errors import UnknownMember
from seglog.kafka import codes
from seglog.kafka.faults import FencedInstance, FencedMember, GroupFull, UnreleasedInstance
from seglog.kafka.groups.consumer_member import JOIN, LEAVE_FOR_NOW, Answer, Beat, ConsumerMember, size_of
from seglog.kafka.groups.range_assignment import assign_ranges
from seglog.kafka.groups.remains import CONSUMER, Remains
from seglog.kafka.groups.room import MOST_MEMBERS
from seglog.server.runtime.shares import Shares
from seglog.topic.groups.assignment import assign
from seglog.topic.groups.state import Crew, Enrolled
from seglog.topic.layout.places import Partition

SESSION_SECONDS = 45.0
STEADY_SECONDS = 3.0
"""Between the heartbeats of a member."""
WAITING_SECONDS = 0.5
"""The same, while it waits for partitions that others release."""
PLACE_BYTES = 512
"""What a group holds for a partition, about."""
ASSIGNORS = {"uniform": assign, "range": assign_ranges}
"""The first is the default."""


class Found(NamedTuple):
    """A topic that exists. id: 32 hex digits; partitions: how many."""

    id: str
    partitions: int


Find = Callable[[str], Found | None]
"""Returns a topic by its name, None if there is none."""


class ConsumerGroup:
    """A group. emptied: called when the last member is gone. room: for what the members of all groups hold.

    before: what was kept of it when its last member was gone.
    """

    def __init__(
        self, name: str, emptied: Callable[[ConsumerGroup], None], room: Shares, before: Remains | None = None
    ) -> None:
        self.name = name
        self.members: dict[str, ConsumerMember] = {}
        self.crew = Crew(before.epoch if before is not None and before.type == CONSUMER else 0)
        self._statics: dict[str, str] = {}  # instance -> member
        self._emptied = emptied
        self._room = room
        self._loop = asyncio.get_running_loop()
        self._topics: dict[str, Found | None] = {}  # of all names that members read
        self._payers: dict[str, str] = {}  # topic's id -> whose share has its partitions
        self._charged: Counter[str] = Counter()  # bytes of partitions, by share
        self._changed = False  # the members or what they read, since the last assignment

    @property
    def remains(self) -> Remains | None:
        """What to keep of it when its last member is gone."""
        return Remains(CONSUMER, CONSUMER, self.crew.generation).or_none()

    # --- heartbeats -----------------------------------------------------------------------------------------------

    def beat(self, beat: Beat, reads: tuple[str, ...] | None, find: Find) -> Answer:
        """Take a heartbeat, also the first one, and return its answer. reads: the topics by name, None: as before.

        One that is refused changes nothing.

        Raises:
            UnknownMember: It is not a member: it has to join again.
            FencedMember: Its epoch is not the one that it was answered: it has to join again.
            FencedInstance, UnreleasedInstance: Another member has its instance name.
            GroupFull: The group, or the memory for members, is full.
        """
        try:
            if beat.epoch == JOIN:
                member = self._joined(beat, reads or (), find)
            else:
                member = self._known(beat)
                self._hear(member, beat, member.reads if reads is None else reads, find)
            self._restart_session(member)
            self._assign(find)
            self._release(member, beat.owned)
            changed = self._advance(member)
        finally:
            self.forget_if_unused()
        waits = any(move.heir == member.id for move in self.crew.moving.values())
        return Answer(
            member.id,
            member.epoch,
            WAITING_SECONDS if waits else STEADY_SECONDS,
            tuple(sorted(member.assigned)) if changed or beat.is_full else None,
        )

    def _known(self, beat: Beat) -> ConsumerMember:
        found = self.member(beat.member, beat.instance)
        lost = beat.epoch == found.previous and beat.owned is not None and beat.owned <= found.assigned
        if beat.epoch != found.epoch and not lost:
            raise FencedMember(
                f"member {beat.member!r} of group {self.name!r} has reached the epoch {found.epoch}, not {beat.epoch}; "
                "it must give up its partitions and join again"
            )
        return found

    def member(self, member: str, instance: str | None) -> ConsumerMember:
        """Return a member. Raises UnknownMember, or FencedInstance if another one has its instance name."""
        owner = member if instance is None else self._statics.get(instance)
        if owner is not None and owner != member:
            raise FencedInstance(
                f"the instance name {instance!r} belongs to another member, which has replaced this one"
            )
        found = None if owner is None else self.members.get(owner)
        if found is None:
            raise UnknownMember(f"group {self.name!r} has no member {member!r}: it left, or was silent; join again")
        return found

    # --- joining --------------------------------------------------------------------------------------------------

    def _joined(self, beat: Beat, reads: tuple[str, ...], find: Find) -> ConsumerMember:
        """Return a new member, or one that joins again, perhaps under another id."""
        owner = None if beat.instance is None else self._statics.get(beat.instance)
        if owner not in (None, beat.member) and self.members[owner].epoch != LEAVE_FOR_NOW:
            raise UnreleasedInstance(f"the instance name {beat.instance!r} is in use by another member; stop it first")
        old = [self.members[one] for one in {owner, beat.member} if one in self.members]
        found = ConsumerMember(Beat(beat.member, JOIN, payer=beat.payer).and_then(beat), reads=reads)
        paid = sum(one.size for one in old if one.said.payer == beat.payer)
        self._check_room(beat.payer, found.size - paid + self._new_places(reads, find))
        if len(self.members) - len(old) >= MOST_MEMBERS:
            raise GroupFull(f"group {self.name!r} has {MOST_MEMBERS} members already")
        for one in old:
            self._remove(one)
            self._take(_renamed(self.crew, one.id, beat.member))
        self.members[beat.member] = found
        self._room.change(beat.payer, found.size)
        if beat.instance is not None:
            self._statics[beat.instance] = beat.member
        self._changed = True
        return found

    def _check_room(self, payer: str, more: int) -> None:
        if not self._room.fits(payer, more):
            raise GroupFull(
                "the server has no more memory for members of groups of this token or address, and for their "
                "partitions; stop members, subscribe to fewer topics, or raise --memory"
            )

    def _new_places(self, reads: Iterable[str], find: Find) -> int:
        """Return the bytes of the partitions of topics that no member reads yet."""
        topics = [find(name) for name in reads if name not in self._topics]
        return PLACE_BYTES * sum(topic.partitions for topic in topics if topic is not None)

    def _hear(self, member: ConsumerMember, beat: Beat, reads: tuple[str, ...], find: Find) -> None:
        """Take what a heartbeat of a member has."""
        said = member.said.and_then(beat)
        more = size_of(said, reads) - member.size
        self._check_room(said.payer, more + self._new_places(reads, find))
        self._room.change(said.payer, more)
        self._changed |= reads != member.reads
        member.said, member.reads = said, reads

    def _restart_session(self, member: ConsumerMember) -> None:
        if member.expiry is not None:
            member.expiry.cancel()
        member.expiry = self._loop.call_later(SESSION_SECONDS, self._expire, member)

    # --- assignment -----------------------------------------------------------------------------------------------

    def _assign(self, find: Find) -> None:
        """Assign again if members, topics or numbers of partitions have changed."""
        if self._changed:
            self._topics = {name: self._topics.get(name) for one in self.members.values() for name in one.reads}
        topics = self._afforded({name: find(name) for name in self._topics})
        if self._changed or topics != self._topics:
            self._topics, self._changed = topics, False
            self._share()

    def _afforded(self, topics: dict[str, Found | None]) -> dict[str, Found | None]:
        """Return topics, each as it was before if it has more partitions than its share has room for.

        Topics that no member had before come first: their subscription found room.
        """
        if topics == self._topics:
            return topics
        payers, more, afforded = self._payers_of(topics), Counter[str](), dict(topics)
        readers = self._readers_of(topics)
        for name in sorted(topics, key=lambda name: self._topics.get(name) is not None):
            topic, before = topics[name], self._topics.get(name)
            if topic is not None:
                payer, size = payers[topic.id], PLACE_BYTES * _added(before, topic)
                if size == 0 or (payer in readers[topic.id] and self._room.fits(payer, more[payer] + size)):
                    more[payer] += size
                else:
                    afforded[name] = before
        return afforded

    def _payers_of(self, topics: Mapping[str, Found | None]) -> dict[str, str]:
        """Return whose share has the partitions of topics, by their ids: of the caller that read it first, of those
        that read it still and have room; as before, if none has, or none reads a topic that has to be released.
        """
        payers, moved, held = dict(self._payers), Counter[str](), Counter(topic for topic, _ in self.crew.owners)
        for topic, readers in self._readers_of(topics).items():
            before = payers.setdefault(topic, readers[0])
            if before not in readers:
                size = PLACE_BYTES * held[topic]
                fits = (one for one in readers if self._room.fits_from_another(one, moved[one] + size))
                payers[topic] = next(fits, before)
                moved[payers[topic]] += size
        return payers

    def _readers_of(self, topics: Mapping[str, Found | None]) -> dict[str, list[str]]:
        """Return the callers whose members read topics, by their ids."""
        readers: dict[str, list[str]] = {}
        for one in self.members.values():
            for name in one.reads:
                if (topic := topics.get(name)) is not None:
                    readers.setdefault(topic.id, []).append(one.said.payer)
        return readers

    def _share(self) -> None:
        found = {name: topic for name, topic in self._topics.items() if topic is not None}
        enrolled = {
            one.id: Enrolled(
                tuple(sorted(found[name].id for name in one.reads if name in found)), SESSION_SECONDS, local=False
            )
            for one in self.members.values()
        }
        partitions = {topic.id: topic.partitions for topic in found.values()}
        self._take(self.crew.shared(enrolled, partitions, ASSIGNORS[self.assignor]))

    def _take(self, crew: Crew) -> None:
        """Take who owns which partitions, and count them."""
        payers, counts = self._payers_of(self._topics), Counter(topic for topic, _ in crew.owners)
        self.crew, self._payers = crew, {topic: payers[topic] for topic in counts}
        charges = Counter[str]()
        for topic, count in counts.items():
            charges[self._payers[topic]] += PLACE_BYTES * count
        for payer in charges | self._charged:
            self._room.change(payer, charges[payer] - self._charged[payer])
        self._charged = charges

    @property
    def assignor(self) -> str:
        """The assignor that most members want."""
        wanted = Counter(one.said.assignor for one in self.members.values() if one.said.assignor is not None)
        return wanted.most_common(1)[0][0] if wanted else next(iter(ASSIGNORS))

    def _unreleased(self, member: str) -> set[Partition]:
        """Return the partitions that a member has to release."""
        return {place for place in self.crew.moving if self.crew.owners[place] == member}

    def _release(self, member: ConsumerMember, owned: frozenset[Partition] | None) -> None:
        """Give what a member has to release to the heirs, once it reads none of it. owned: None: as before."""
        told = self._unreleased(member.id) & member.since.keys()
        if not told or (owned is not None and not owned & told):
            crew = self.crew.released(member.id, self.crew.generation)
            if crew is not self.crew:
                self._take(crew)

    def _advance(self, member: ConsumerMember) -> bool:
        """Give a member what it may read now; return whether that has changed."""
        unreleased, target = self._unreleased(member.id), frozenset(self.crew.answer(member.id).assignment)
        now = target & member.assigned if unreleased else target
        if not unreleased and member.epoch != self.crew.generation:
            member.previous, member.epoch = member.epoch, self.crew.generation
        kept = now | (unreleased & member.since.keys())
        member.since = {place: member.since.get(place, member.epoch) for place in kept}
        changed, member.assigned = now != member.assigned, now
        if not unreleased and member.revoking is not None:
            member.revoking.cancel()
            member.revoking = None
        elif unreleased and member.revoking is None:
            member.revoking = self._loop.call_later(member.said.rebalance or 0, self._expire, member)
        return changed

    # --- leaving --------------------------------------------------------------------------------------------------

    def leave(self, member: str, instance: str | None) -> None:
        """Remove a member; its partitions are free immediately. Errors as `member`; without an id the name counts."""
        if not member and instance is not None:
            member = self._statics.get(instance, "")
        self._drop(self.member(member, instance))

    def leave_for_now(self, member: str, instance: str | None) -> None:
        """Keep the partitions of a static member until its session ends or it joins again. Errors as `member`."""
        found = self.member(member, instance)
        self._release(found, frozenset())
        if found.revoking is not None:
            found.revoking.cancel()
            found.revoking = None
        found.epoch = found.previous = LEAVE_FOR_NOW

    def _drop(self, member: ConsumerMember) -> None:
        self._remove(member)
        self._topics = {name: self._topics.get(name) for one in self.members.values() for name in one.reads}
        self._share()
        self.forget_if_unused()

    def _remove(self, member: ConsumerMember) -> None:
        del self.members[member.id]
        self._room.change(member.said.payer, -member.size)
        if member.said.instance is not None:
            self._statics.pop(member.said.instance, None)
        member.end()

    def _expire(self, member: ConsumerMember) -> None:
        if self.members.get(member.id) is member:
            self._drop(member)

    def forget_if_unused(self) -> None:
        """End the group if it has no members."""
        if not self.members:
            self._emptied(self)

    def close(self) -> None:
        """Cancel all timers."""
        for one in self.members.values():
            one.end()

    # --- commits, and what operators see --------------------------------------------------------------------------

    def check_commit(self, member: str, instance: str | None, epoch: int, places: set[Partition]) -> int:
        """Return whether a member may commit offsets of partitions, as a code.

        An earlier epoch is accepted for partitions that the member had then: its commit can be on the way while the
        epoch rises.
        """
        if epoch < 0 and not member and not self.members:
            return codes.NONE
        try:
            found = self.member(member, instance)
        except (UnknownMember, FencedInstance) as error:
            return codes.code_of(error)
        had = epoch < found.epoch and all(found.since.get(place, found.epoch) <= epoch for place in places)
        return codes.NONE if epoch == found.epoch or had else codes.STALE_MEMBER_EPOCH

    def check_fetch(self, member: str | None, epoch: int) -> int:
        """Return whether committed offsets may be read by a member of this epoch, or by no member, as a code."""
        if not member and epoch < 0:
            return codes.NONE
        found = self.members.get(member or "")
        if found is None:
            return codes.UNKNOWN_MEMBER_ID
        return codes.NONE if epoch == found.epoch else codes.STALE_MEMBER_EPOCH

    @property
    def described_bytes(self) -> int:
        """About how many bytes a description of the group takes: what it holds, its partitions of each member twice."""
        return sum(one.size for one in self.members.values()) + 2 * len(self.crew.owners) * PLACE_BYTES

    def names(self) -> dict[str, str]:
        """Return the names of the topics, by their ids."""
        return {topic.id: name for name, topic in self._topics.items() if topic is not None}

    def target(self, member: str) -> list[Partition]:
        """Return the partitions that a member has when all members have released what moves."""
        moving = self.crew.moving
        heirs = {place: moving[place].heir if place in moving else owner for place, owner in self.crew.owners.items()}
        return sorted(place for place, heir in heirs.items() if heir == member)

    @property
    def state(self) -> str:
        """The state as Kafka's tools show it."""
        stable = not self.crew.moving and all(
            one.epoch in (self.crew.generation, LEAVE_FOR_NOW) and sorted(one.assigned) == self.target(one.id)
            for one in self.members.values()
        )
        return "Stable" if stable else "Reconciling"


def _added(before: Found | None, topic: Found) -> int:
    """Return how many partitions a topic has that the one before did not have."""
    known = before.partitions if before is not None and before.id == topic.id else 0
    return max(topic.partitions - known, 0)


def _renamed(crew: Crew, old: str, new: str) -> Crew:
    """Return a group in which a member has another id, and has released what it had to."""
    crew = crew.released(old, crew.generation)
    moving = {place: move._replace(heir=new) if move.heir == old else move for place, move in crew.moving.items()}
    owners = {place: new if owner == old else owner for place, owner in crew.owners.items()}
    members = {new if one == old else one: said for one, said in crew.members.items()}
    return replace(crew, members=members, owners=owners, moving=moving)
