"""The coordinator: answers members and stores committed offsets; writes both to the log before answering.

The log `.groups` contains all state except the time of each member's last heartbeat: sessions restart when the log is
opened. `assignment` decides which member gets which partition, `state` models handovers, `offsets` checks committed
offsets; this module knows neither how records are read nor who the caller is.
"""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from seglog.clock import Clock, system_clock, ticks_for
from seglog.errors import (
    GroupConflict,
    GroupNotFound,
    InvalidArgument,
    NotAssigned,
    TopicNotFound,
    UnknownMember,
)
from seglog.forks import Inheritable
from seglog.format.cuts import Cuts
from seglog.log.follower import LogFollower
from seglog.log.log import Log
from seglog.record import checked_offset, checked_text
from seglog.topic.groups.arguments import checked_offsets, checked_timeout, checked_topics
from seglog.topic.groups.bounds import MAX_GROUPS, MAX_MEMBERS, Bounds
from seglog.topic.groups.charges import NOBODY, Payer
from seglog.topic.groups.offsets import Offsets
from seglog.topic.groups.records import Entry, GroupRecord, Note, OffsetRecord
from seglog.topic.groups.registry import Book, Kept
from seglog.topic.groups.state import Crew, Enrolled, GroupState, Membership, MemberState, Sessions
from seglog.topic.layout.names import checked_group, checked_name
from seglog.topic.layout.places import Partition
from seglog.topic.positions import Positions, nested
from seglog.uncopied import Uncopied

NOTHING = Kept(None)


class Groups(Inheritable, Uncopied):
    """All consumer groups of a broker. Thread-safe; get it from `Broker.groups`.

    If the log was opened for reading, it shows the state at that moment and raises LogReadOnly for changes.
    """

    def __init__(
        self,
        log: Log,
        *,
        partitions: Callable[[str], int],
        clock: Clock = system_clock,
        ticks: Clock | None = None,
        bounds: Callable[[str, int], tuple[int, int]],
        records_from: Callable[[str, int, int], int],
        history: Callable[[str, int], tuple[str, Cuts]] | None = None,
    ) -> None:
        """log: `.groups`, read now; raises CorruptLog for an unknown record.

        partitions: topic -> how many (TopicNotFound); bounds: topic, partition -> its lowest and next offset;
        records_from: topic, partition, offset -> how many records from there on. history: topic, partition -> the id of
        its log and where it was truncated; None: committed offsets are not checked. All are called while a group is
        locked. clock: for what is shown; ticks: for sessions, default: what measures durations beside the clock.
        """
        self._log = log
        self._partitions = partitions
        self._offsets = Offsets(bounds, records_from, history)
        self._clock = clock
        self._ticks = ticks_for(clock) if ticks is None else ticks
        self._reads_only = isinstance(log, LogFollower)
        self._enter_child()
        self._watch_forks()
        self._book = Book(log)
        self._sessions = Sessions()
        self._held: dict[str, str] = {}
        self._bounds = Bounds(self._book, self._ticks)
        if not self._reads_only:
            self._begin_sessions()

    def _enter_child(self) -> None:
        self._lock = threading.RLock()

    def _begin_sessions(self) -> None:
        for group, crew in self._book.crews.items():
            for member, said in crew.members.items():
                if not said.local:  # a local member ended with its process
                    self._sessions.heard(group, member, self._ticks(), self._clock())

    @property
    def log(self) -> Log:
        """The log that members and committed offsets are written to."""
        return self._log

    # --- members --------------------------------------------------------------------------------------------------

    def join(
        self,
        group: str,
        topics: Iterable[str],
        *,
        member: str | None = None,
        session_timeout: float = 30.0,
        local: bool = False,
        payer: Payer | None = None,
    ) -> Membership:
        """Join a group and return the partitions to read now; later heartbeats may add more.

        Args:
            group: The group's name.
            topics: The topics to read.
            member: An id, to return under it, or with other topics.
            session_timeout: Seconds of silence until the member is removed.
            local: The member ends with this process.
            payer: Who pays for the member; None: no caller.

        Raises:
            TopicNotFound: a topic does not exist.
            GroupConflict: there are MAX_MEMBERS members or MAX_GROUPS groups.
        """
        checked_group(group)
        said = Enrolled(checked_topics(topics), checked_timeout(session_timeout), bool(local), _id(payer))
        member = secrets.token_hex(8) if member is None else checked_name(member, "member")
        for topic in said.topics:
            self._partitions(topic)
        with self._lock:
            self._refuse_held(group)
            self._bounds.admit(group, self._present)
            crew = self._present(group)
            if member not in crew.members and len(crew.members) >= MAX_MEMBERS:
                raise GroupConflict(f"group {group!r} has the most members already, {MAX_MEMBERS}; none was added")
            before = crew.members.get(member)
            if before is not None and said == before._replace(payer=said.payer):
                said = before  # nothing is written
            crew = self._with_members(crew, {**crew.members, member: said})
            self._check_room(group, [GroupRecord(group, crew)], payer)
            self._book.write(group, crew)
            self._book.kept.pop(group, None)
            return self._answer(group, crew, member)

    def hold(self, group: str, kind: str) -> object:
        """Reserve a group for members that another coordinator manages, until `release`; not stored.

        Returns what `release` has kept of the group.

        Args:
            group: The group's name.
            kind: What its members are, for errors.

        Raises:
            GroupConflict: The group has members here, or MAX_GROUPS groups are reserved.
        """
        checked_group(group)
        with self._lock:
            if group not in self._held and len(self._held) >= MAX_GROUPS:
                raise GroupConflict(f"{MAX_GROUPS} consumer groups have members that are {kind}s; {group!r} gets none")
            if self._present(group).members:
                raise GroupConflict(
                    f"group {group!r} has members that use seglog's protocol; {kind} cannot join it. Stop them first, "
                    "or use another group"
                )
            self._held[group] = kind
            before = self._book.kept.pop(group, NOTHING)
            if before.topics:  # it stays hidden from the same callers
                self._book.kept[group] = Kept(None, before.topics)
            return before.remains

    def release(self, group: str, remains: object = None) -> None:
        """End a reservation. remains: what to keep of the group until it expires; None: nothing."""
        topics = self._book.kept.get(group, NOTHING).topics  # of offsets that it lost meanwhile
        if remains is not None:
            self._keep(group, Kept(remains, topics))
        self._held.pop(group, None)

    def _keep(self, group: str, kept: Kept) -> None:
        """Let a group that is empty from now on exist until it expires, unless too many do."""
        if len(self._book.kept) < MAX_GROUPS:
            self._book.kept[group] = kept
            self._bounds.emptied(group)

    def remains(self, group: str) -> object:
        """Return what `release` has kept of a group."""
        return self._book.kept.get(group, NOTHING).remains

    def _refuse_held(self, group: str) -> None:
        if group in self._held:
            raise GroupConflict(
                f"group {group!r} has members of another protocol ({self._held[group]}), which do not share partitions "
                "with others; stop them first, or use another group"
            )

    def heartbeat(self, group: str, member: str, generation: int) -> Membership:
        """Stay a member and return the partitions to read from now on.

        A partition missing in the answer stays the member's, for commits, until it returns with the answer's
        generation.

        Args:
            group: The group's name.
            member: The member's id.
            generation: Of the last answer.

        Raises:
            UnknownMember: it was removed, or left: join again.
        """
        checked_offset(generation, "generation")
        with self._lock:
            crew = self._member_of(group, member)
            crew = crew.released(member, min(generation, self._sessions.told(group, member)))
            self._book.write(group, crew)
            return self._answer(group, crew, member)

    def leave(self, group: str, member: str) -> None:
        """Leave a group: its partitions are free immediately. No error if it is not a member."""
        with self._lock:
            crew = self._present(group)
            self._book.write(group, self._with_members(crew, _without(crew, [member])))
            self._sessions.forget(group, self._book.crew(group))

    def _answer(self, group: str, crew: Crew, member: str) -> Membership:
        answer = crew.answer(member)
        self._sessions.heard(group, member, self._ticks(), self._clock())
        self._sessions.answered(group, answer)
        return answer

    def _member_of(self, group: str, member: str) -> Crew:
        checked_text(member, "member")
        crew = self._present(group)
        if member not in crew.members:
            raise not_a_member(group, member)
        return crew

    def _present(self, group: str) -> Crew:
        """Return a group's present state: without expired members, with the present partitions assigned.

        An unknown group is empty.
        """
        crew = self._book.crew(group)
        if self._reads_only or not crew.members:
            return crew
        gone = self._sessions.silent(group, crew, self._ticks())
        now = self._with_members(crew, _without(crew, gone))
        self._book.write(group, now)
        if gone:
            self._sessions.forget(group, now)
        return now

    def _with_members(self, crew: Crew, members: Mapping[str, Enrolled]) -> Crew:
        topics = {topic for said in members.values() for topic in said.topics}
        return crew.shared(members, {topic: self._count(topic) for topic in sorted(topics)})

    def _count(self, topic: str) -> int:
        try:
            return self._partitions(topic)
        except TopicNotFound:  # deleted since; it may be created again
            return 0

    # --- offsets --------------------------------------------------------------------------------------------------

    def commit(
        self,
        group: str,
        offsets: Positions,
        *,
        member: str | None = None,
        durable: bool = False,
        holds: bool = False,
        notes: Mapping[Partition, Note] | None = None,
        after_end: bool = False,
        payer: Payer | None = None,
    ) -> None:
        """Commit offsets, all or none.

        Args:
            group: The group's name.
            offsets: topic -> partition -> the next offset to read.
            member: Must own every partition; None, for static sharing and seeking, needs a group without members.
            durable: Return when the commit survives power loss; otherwise kill -9.
            holds: The caller has reserved the group, and knows its members.
            notes: What to store with the offsets of partitions.
            after_end: Accept offsets after the end of a partition, as Kafka does.
            payer: Who pays for the offsets that this changes; None: no caller.

        Raises:
            NotAssigned, UnknownMember: the member does not own a partition, or is not one.
            GroupConflict: the group has members, and none was given.
            OffsetOutOfRange: unless 0 <= offset <= next_offset; with after_end, unless 0 <= offset.
        """
        checked_group(group)
        named = checked_offsets(offsets)
        with self._lock:
            if not holds:
                self._refuse_held(group)
            self._check_committer(group, member, named)
            self._bounds.admit(group, self._present)
            for partition, offset in named.items():
                self._offsets.check(partition, offset, after_end=after_end)
            given, pays = notes or {}, _id(payer)
            entries = [
                self._offsets.record(group, one, offset)._replace(payer=pays, **given.get(one, Note())._asdict())
                for one, offset in named.items()
            ]
            changed = [entry for entry in entries if not self._is_known(entry)]
            self._check_room(group, changed, payer)
            self._book.append(changed)
            if member is not None:
                self._sessions.heard(group, member, self._ticks(), self._clock())
        if durable:
            self._log.sync()

    def _is_known(self, entry: OffsetRecord) -> bool:
        """Whether the same was committed before, perhaps by another payer."""
        before = self._book.records.get((entry.group, entry.partition))
        return before is not None and before._replace(payer=entry.payer) == entry

    def _check_room(self, group: str, entries: Iterable[Entry], payer: Payer | None) -> None:
        if payer is not None:
            payer.admits(group, self._book.growth(entries), self._book.charges)

    def check_staged(self, group: str, notes: Mapping[Partition, Note], payer: Payer, staged: int = 0) -> None:
        """Raise what `payer` raises for offsets with these notes, which a transaction will commit.

        staged: bytes of the offsets that transactions have for this payer already.
        """
        with self._lock:
            entries = [
                OffsetRecord(group, one, 0, metadata=note.metadata, payer=payer.id) for one, note in notes.items()
            ]
            growth = self._book.growth(entries)
            if growth.get(payer.id, 0) > 0:
                growth[payer.id] += staged
            payer.admits(group, growth, self._book.charges)

    def logs_of(self, offsets: Mapping[Partition, int]) -> dict[Partition, tuple[str | None, int]]:
        """Return of which log each offset is now, and its epoch there, for `commit_decided`. Raises TopicNotFound."""
        with self._lock:
            records = [self._offsets.record("", place, offset) for place, offset in offsets.items()]
        return {one.partition: (one.log, one.epoch) for one in records}

    def commit_decided(self, offsets: Iterable[OffsetRecord], at: int) -> None:
        """Commit offsets of a transaction that was decided then; nothing refuses them, also if a group has members.

        Those of topics that were deleted since, or created again, are left out, and those after a truncation are reset
        to it. Sync the log afterwards.
        """
        with self._lock:
            entries = []
            for one in offsets:
                with suppress(TopicNotFound, InvalidArgument):
                    self._partitions(one.partition[0])
                    still = self._offsets.still(one)
                    if still is not None:
                        present = self._offsets.record(one.group, one.partition, still)
                        entries.append(present._replace(metadata=one.metadata, payer=one.payer))
            self._book.append(entries, at)

    def committed(self, group: str) -> dict[str, dict[int, int]]:
        """Return topic -> partition -> the next offset to read. Raises GroupNotFound."""
        with self._lock:
            self._check_known(group)
            return nested(dict(sorted(self._valid(group).items())))

    def commits(self, group: str) -> dict[Partition, OffsetRecord]:
        """Return what a group has committed, with epochs and metadata; nothing for an unknown group."""
        with self._lock:
            records = {one: self._book.records[group, one] for one in self._book.offsets.get(group, {})}
            valid = self._valid(group)
            return {one: record.at(valid[one]) for one, record in records.items() if one in valid}

    def _valid(self, group: str) -> dict[Partition, int]:
        """Return a group's committed offsets, reset where a partition was truncated since.

        Omits partitions that were deleted and created again since.
        """
        found = {one: self._offsets.still(self._book.records[group, one]) for one in self._book.offsets.get(group, {})}
        return {one: offset for one, offset in found.items() if offset is not None}

    def _check_committer(self, group: str, member: str | None, named: Iterable[Partition]) -> None:
        if member is None:
            if self._present(group).members:
                raise GroupConflict(
                    f"group {group!r} has members, and only they may commit; nothing was committed. Stop them first, "
                    "or use another group for static readers"
                )
            return
        crew = self._member_of(group, member)
        for topic, number in named:
            if crew.owners.get((topic, number)) != member:
                raise NotAssigned(
                    f"partition {number} of topic {topic!r} is not assigned to member {member!r} of group {group!r}; "
                    "nothing was committed, and its owner continues from the last commit"
                )

    # --- for operators --------------------------------------------------------------------------------------------

    def topics(self, group: str) -> set[str]:
        """Return the topics that a group's members read or that it has committed offsets of.

        If there are none, those of the offsets that it had last. Raises GroupNotFound.
        """
        with self._lock:
            self._check_known(group)
            read = {topic for said in self._present(group).members.values() for topic in said.topics}
            committed = {topic for topic, _ in self._book.offsets.get(group, {})}
            return read | committed or {*self._book.kept.get(group, NOTHING).topics}

    def names(self) -> list[str]:
        """Return the names of all groups that have members or committed offsets, or recently had some, sorted."""
        with self._lock:
            if not self._reads_only:
                self._bounds.sweep_if_due(self._present)
            return sorted({*self._book.crews, *self._book.offsets, *list(self._book.kept)})

    def has_members(self, group: str) -> bool:
        """Whether a group has members. Raises GroupNotFound."""
        with self._lock:
            self._check_known(group)
            return bool(self._present(group).members)

    def describe(self, group: str) -> GroupState:
        """Return a group's members, committed offsets and lag in records. Raises GroupNotFound."""
        with self._lock:
            self._check_known(group)
            crew, offsets = self._present(group), self._valid(group)
            members = tuple(
                MemberState(
                    id=member,
                    topics=said.topics,
                    assignment=crew.answer(member).assignment,
                    session_timeout=said.session_timeout,
                    seen_at=self._sessions.seen_at(group, member),
                    local=said.local,
                )
                for member, said in sorted(crew.members.items())
            )
            lag = {one: self._offsets.lag(one, offsets.get(one)) for one in sorted(offsets.keys() | crew.owners.keys())}
            return GroupState(group, crew.generation, members, nested(dict(sorted(offsets.items()))), lag)

    def delete(self, group: str) -> None:
        """Delete a group and its committed offsets. Raises GroupNotFound; GroupConflict while it has members."""
        with self._lock:
            self._refuse_held(group)
            self._check_known(group)
            if self._present(group).members:
                raise GroupConflict(f"group {group!r} has members; stop them first. Nothing was deleted")
            forgotten: list[Entry] = [OffsetRecord(group, one, None) for one in self._book.offsets.get(group, {})]
            if group in self._book.crews:
                forgotten.append(GroupRecord(group, None))
            self._book.append(forgotten)
            self._book.kept.pop(group, None)

    def forget_offsets(self, group: str, partitions: Iterable[Partition], *, holds: bool = False) -> None:
        """Delete what a group has committed for some partitions; those without a commit are left out.

        holds: the caller has reserved the group, and knows its members. Raises GroupNotFound, and GroupConflict while
        the group has members.
        """
        with self._lock:
            if not holds:
                self._refuse_held(group)
                self._check_known(group)
            if self._present(group).members:
                raise GroupConflict(f"group {group!r} has members; stop them first. Nothing was deleted")
            known = self._book.offsets.get(group, {})
            self._forget([OffsetRecord(group, one, None) for one in dict.fromkeys(partitions) if one in known])

    def forget_topic(self, name: str) -> None:
        """Delete every group's committed offsets of a topic, as when it is deleted."""
        with self._lock:
            self._forget(
                [
                    OffsetRecord(group, one, None)
                    for group, offsets in self._book.offsets.items()
                    for one in offsets
                    if one[0] == name
                ]
            )

    def _forget(self, offsets: list[OffsetRecord]) -> None:
        """Delete committed offsets; groups that lose their last one stay until they expire."""
        self._book.append(offsets)
        topics: dict[str, set[str]] = {}
        for one in offsets:
            topics.setdefault(one.group, set()).add(one.partition[0])
        for group in topics.keys() - self._book.offsets.keys() - self._book.crews.keys():
            self._keep(group, Kept(self.remains(group), frozenset(topics[group])))

    def cut(self, topic: str, partition: int, offset: int) -> None:
        """Reset group offsets past `offset`, for a partition that was truncated to it; durable.

        Records appended there since are new to all groups.
        """
        place = (topic, partition)
        with self._lock:
            beyond = [group for group, offsets in self._book.offsets.items() if offsets.get(place, 0) > offset]
            self._book.append([self._offsets.reset(self._book.records[group, place], offset) for group in beyond])
        if beyond:
            self._log.sync()

    def settle(self) -> tuple[str, ...]:
        """Reset offsets committed past their partition's end, delete those of missing ones; return that as text.

        For a broker that opens after a power loss: a commit may be on disk while the records before it are not, and the
        following records would never be read. Durable when it returns.
        """
        with self._lock:
            found = [
                settled
                for group, offsets in sorted(self._book.offsets.items())
                for one in sorted(offsets)
                if (settled := self._offsets.settled(self._book.records[group, one]))
            ]
            changes = [entry for entry, _ in found if entry is not None]
            self._book.append(changes)
        if changes:
            self._log.sync()
        return tuple(text for _, text in found)

    def _check_known(self, group: str) -> None:
        if not self._book.knows(group):
            raise GroupNotFound(checked_group(group))


def not_a_member(group: str, member: str) -> UnknownMember:
    """Return the error for a member that a group does not have."""
    return UnknownMember(f"group {group!r} has no member {member!r}: it left, or its session expired; join again")


def _id(payer: Payer | None) -> str:
    return NOBODY if payer is None else payer.id


def _without(crew: Crew, gone: Iterable[str]) -> dict[str, Enrolled]:
    return {member: said for member, said in crew.members.items() if member not in set(gone)}
