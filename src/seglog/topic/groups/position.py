"""The state of one consumer: its partitions, positions, uncommitted offsets and heartbeats.

A pure core: no I/O, no threads, no clock. Consumers in the broker's process and over HTTP, sync and async, all drive
it, in this loop:

    if cursor.beat_due(now): send a heartbeat            -> cursor.adopt(assignment, generation, now)
                             or, an unknown member       -> cursor.reset(), rejoin, adopt
    for each of cursor.needs_position(): find its start  -> cursor.place(partition, offset, committed=...)
    fetch cursor.wanted(), in its order                  -> cursor.took(partition, next_offset, returned, ...)
    on request: commit cursor.to_commit()                -> cursor.committed(those)

Times are integer microseconds of any one clock; offsets are those of the next records to read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from seglog.errors import NotAssigned
from seglog.log.history import Trace, was_cut
from seglog.topic.layout.places import Partition
from seglog.topic.positions import Positions, nested
from seglog.topic.read_trace import Passage, log_was_cut

Start = Literal["earliest", "latest"]
"""Where a consumer begins in a partition without a committed offset."""

MAX_BEAT_SECONDS = 3.0
"""The longest interval between heartbeats, so that a handover does not wait for a long session."""


class Change(NamedTuple):
    """What an answer of the group changed: released partitions, and new ones."""

    released: tuple[Partition, ...]
    added: tuple[Partition, ...]


class Standing(NamedTuple):
    """A partition's position: the next offset to read, the group's (None: none), the end of the last read."""

    offset: int
    committed: int | None
    trace: Trace | None


class _Read(NamedTuple):
    """A read that advanced a partition: where it began, what was there, and whose turn it was before."""

    start: int
    passage: Passage | None
    turn: Partition | None


class Cursor:
    """The positions of one consumer. `assignment` by topic and partition; each heartbeat carries `generation`."""

    def __init__(self, session_timeout: float = 30.0) -> None:
        """session_timeout: seconds, as sent to the group."""
        self.generation = 0
        self.assignment: tuple[Partition, ...] = ()
        self._timeout = round(session_timeout * 1_000_000)
        self._interval = min(self._timeout // 3, round(MAX_BEAT_SECONDS * 1_000_000))
        self._heard: int | None = None
        self._handing_over = False
        self._next: dict[Partition, int] = {}
        self._committed: dict[Partition, int] = {}
        self._leaving: dict[Partition, int] = {}
        self._turn: Partition | None = None
        self._reads: dict[Partition, _Read] = {}  # the last read of each
        self._traces: dict[Partition, Trace] = {}  # of the positions, if a fetch returned them
        self._cut: set[Partition] = set()  # until a seek: records read there must not be committed

    # --- the group ------------------------------------------------------------------------------------------------

    def adopt(self, assignment: Iterable[Partition], generation: int = 0, now: int = 0) -> Change:
        """Take an answer of the group, received at `now`: from here on read only the partitions that it names.

        Records read of a released partition can be committed until the next answer: only the next heartbeat releases
        it.
        """
        answer = tuple(sorted(assignment))
        keeps, had = set(answer), set(self.assignment)
        change = Change(tuple(one for one in self.assignment if one not in keeps), tuple(sorted(keeps - had)))
        self._leaving = {one: self._next[one] for one in change.released if self._is_uncommitted(one)}
        for one in change.released:
            self._next.pop(one, None)
            self._forget_trace(one)
        self._committed = {one: offset for one, offset in self._committed.items() if one in keeps & had}
        self.assignment, self.generation, self._heard = answer, generation, now
        self._handing_over = bool(change.released)
        return change

    def reset(self) -> Change:
        """Drop everything, as a member that the group no longer knows must; nothing is committed."""
        change = Change(self.assignment, ())
        self.assignment, self.generation, self._heard, self._handing_over = (), 0, None, False
        self._next, self._committed, self._leaving = {}, {}, {}
        self._traces, self._cut, self._reads = {}, set(), {}
        return change

    def beat_due(self, now: int) -> bool:
        """Whether a heartbeat is due; immediately if another member waits for a released partition."""
        return self.beat_in(now) <= 0

    def beat_in(self, now: int) -> float:
        """Return the seconds until the next heartbeat, 0 if it is due."""
        if self._heard is None or self._handing_over:
            return 0.0
        return max(0, self._heard + self._interval - now) / 1_000_000

    def session_over(self, now: int) -> bool:
        """Whether no answer came for a whole session: the group may have given every partition to others."""
        return self._heard is not None and now - self._heard > self._timeout

    # --- positions ------------------------------------------------------------------------------------------------

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the next offset to read, of the assigned partitions that have one."""
        return nested({one: self._next[one] for one in self.assignment if one in self._next})

    @property
    def standing(self) -> dict[Partition, Standing]:
        """Partition -> its position, as far as known here."""
        return {
            one: Standing(offset, self._committed.get(one), self._traces.get(one)) for one, offset in self._next.items()
        }

    def needs_position(self) -> list[Partition]:
        """Return the assigned partitions without a start."""
        return [one for one in self.assignment if one not in self._next]

    def place(self, partition: Partition, offset: int, *, committed: bool = False, trace: Trace | None = None) -> None:
        """Set the start of a partition, unless it has one. committed: the group has this offset.

        trace: of the records before the offset, if this consumer has read them.
        """
        if partition in self.assignment and partition not in self._next:
            self._next[partition] = offset
            if trace is not None:
                self._traces[partition] = trace
            if committed:
                self._committed[partition] = offset

    def seek(self, partition: Partition, offset: int) -> None:
        """Continue at another offset, which the next commit includes. Raises NotAssigned if it is not assigned."""
        if partition not in self.assignment:
            topic, number = partition
            raise NotAssigned(
                f"partition {number} of topic {topic!r} is not assigned to this consumer; poll, then seek"
            )
        if partition in self._cut:
            self._committed.pop(partition, None)  # the truncate has reset the group's offset
        self._forget_trace(partition)
        self._next[partition] = offset

    def wanted(self, most: int | None = None) -> dict[str, dict[int, int]]:
        """Return topic -> partition -> offset to fetch, of up to `most` partitions; first the one whose turn it is."""
        placed = [one for one in self.assignment if one in self._next]
        first = next((i for i, one in enumerate(placed) if self._turn is not None and one > self._turn), 0)
        ordered = (placed[first:] + placed[:first])[:most]
        return nested({one: self._next[one] for one in ordered})

    def took(
        self,
        partition: Partition,
        next_offset: int,
        returned: bool,
        *,
        start: int | None = None,
        passage: Passage | None = None,
    ) -> bool:
        """Advance a partition to `next_offset` after a fetch; returned: whether it had records, which ends the turn.

        Return False, and the records must not be delivered, if the partition is no longer assigned, or if its position
        is no longer `start` (where the fetch started) because of a seek. passage: the traces of the fetch's start and
        end. Raises LogTruncated if the first trace shows that the records read before are gone: the position stays, and
        is not committed, until a seek.
        """
        if partition not in self._next or (start is not None and self._next[partition] != start):
            return False
        known = self._traces.get(partition) if self._next[partition] else None  # before offset 0 there is nothing
        if passage is not None:
            if known is not None and was_cut(known, passage.before):
                self._cut.add(partition)
                raise log_was_cut(partition, self._next[partition])
            self._traces[partition] = passage.after
        elif next_offset != self._next[partition]:
            self._traces.pop(partition, None)  # it belongs to another position
        self._reads[partition] = _Read(self._next[partition], passage, self._turn)
        self._next[partition] = next_offset
        if returned:
            self._turn = partition
        return True

    def give_back(self, partition: Partition, offset: int | None = None) -> None:
        """Return to the start of the last read of a partition, or to a later offset of it; it has the next turn.

        For records that were read but not delivered: the next fetch reads them again, and no commit includes them.
        Several partitions are given back in the reverse order of their reads.
        """
        read = self._reads.pop(partition, None)
        if read is None or partition not in self._next:
            return
        self._next[partition] = read.start if offset is None else offset
        self._turn = read.turn
        trace = None if read.passage is None else read.passage.trace_at(self._next[partition] == read.start)
        if trace is None:
            self._traces.pop(partition, None)
        else:
            self._traces[partition] = trace

    def _forget_trace(self, partition: Partition) -> None:
        self._traces.pop(partition, None)
        self._cut.discard(partition)

    # --- commits --------------------------------------------------------------------------------------------------

    def to_commit(self) -> dict[str, dict[int, int]]:
        """Return the uncommitted offsets: of all positions, and of what the last answer released."""
        open_ones = {one: offset for one, offset in self._next.items() if self._is_uncommitted(one)}
        return nested(dict(sorted((self._leaving | open_ones).items())))

    def committed(self, offsets: Positions) -> None:
        """Note that the group has these offsets now."""
        for topic, of in offsets.items():
            for number, offset in of.items():
                partition = (topic, number)
                if partition in self._next:
                    self._committed[partition] = offset
                if self._leaving.get(partition) == offset:
                    del self._leaving[partition]

    def _is_uncommitted(self, partition: Partition) -> bool:
        if partition not in self._next or partition in self._cut:
            return False
        return self._committed.get(partition) != self._next[partition]
