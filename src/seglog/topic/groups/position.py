"""Where one consumer stands: its partitions, what it read of each, what it has not committed, when to be heard of.

A pure core: no I/O, no threads, no clock of its own. Consumers in the broker's process and over HTTP, sync and async,
all drive this one. What they do, in this order, again and again:

    if cursor.beat_due(now): say so to the group         -> cursor.adopt(assignment, generation, now)
                             or, an unknown member       -> cursor.reset(), join anew, adopt
    for each of cursor.needs_position(): find its start  -> cursor.place(partition, offset, committed=...)
    fetch cursor.wanted(), in its order                  -> cursor.took(partition, next_offset, returned, ...)
    when asked to: commit cursor.to_commit()             -> cursor.committed(those)

Times are integer microseconds of any one clock; offsets are those of the records to be read next.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from seglog.errors import NotAssigned
from seglog.log.history import Trace, was_cut
from seglog.topic.positions import nested
from seglog.topic.trace import log_was_cut

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seglog.topic.places import Partition
    from seglog.topic.positions import Positions
    from seglog.topic.trace import Passage

Start = Literal["earliest", "latest"]
"""Where a consumer begins in a partition without a committed offset."""

MAX_BEAT_SECONDS = 3.0
"""The longest that a member stays silent of its own will, so that a handover does not wait for a long session."""


class Change(NamedTuple):
    """What an answer of the group changed: partitions that are no longer this consumer's, and those that now are."""

    released: tuple[Partition, ...]
    added: tuple[Partition, ...]


class Standing(NamedTuple):
    """Where a partition stands: the offset to be read next, what the group has (None: nothing), what was read last."""

    offset: int
    committed: int | None
    trace: Trace | None


class Cursor:
    """The positions of one consumer. `assignment` in order of topic and partition; `generation` goes into each beat."""

    def __init__(self, session_timeout: float = 30.0) -> None:
        """session_timeout: seconds, as told to the group."""
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
        self._traces: dict[Partition, Trace] = {}  # of the positions, where a fetch told them
        self._cut: set[Partition] = set()  # until a seek: what was read there is not to be committed any more

    # --- the group ------------------------------------------------------------------------------------------------

    def adopt(self, assignment: Iterable[Partition], generation: int = 0, now: int = 0) -> Change:
        """Take an answer of the group, heard at `now`: read no partition that it does not name from here on.

        What was read of a released one can be committed until the next answer: only the beat before that gives it away.
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
        """Give up everything at once, as a member must that the group does not know any more; nothing is committed."""
        change = Change(self.assignment, ())
        self.assignment, self.generation, self._heard, self._handing_over = (), 0, None, False
        self._next, self._committed, self._leaving = {}, {}, {}
        self._traces, self._cut = {}, set()
        return change

    def beat_due(self, now: int) -> bool:
        """Whether the group is to hear of this consumer now; at once where another waits for what it released."""
        return self.beat_in(now) <= 0

    def beat_in(self, now: int) -> float:
        """Return in how many seconds the next beat is due, 0 where it is."""
        if self._heard is None or self._handing_over:
            return 0.0
        return max(0, self._heard + self._interval - now) / 1_000_000

    def session_over(self, now: int) -> bool:
        """Whether no answer came for a whole session: the group may have given every partition to others."""
        return self._heard is not None and now - self._heard > self._timeout

    # --- positions ------------------------------------------------------------------------------------------------

    @property
    def positions(self) -> dict[str, dict[int, int]]:
        """Topic -> partition -> the offset to be read next, of the assigned partitions that have one."""
        return nested({one: self._next[one] for one in self.assignment if one in self._next})

    @property
    def standing(self) -> dict[Partition, Standing]:
        """Partition -> where it stands, as far as is known here."""
        return {
            one: Standing(offset, self._committed.get(one), self._traces.get(one)) for one, offset in self._next.items()
        }

    def needs_position(self) -> list[Partition]:
        """Return the assigned partitions of which nobody has said yet where to begin."""
        return [one for one in self.assignment if one not in self._next]

    def place(self, partition: Partition, offset: int, *, committed: bool = False, trace: Trace | None = None) -> None:
        """Begin a partition at an offset, unless it has one by now. committed: that offset is what the group has.

        trace: what stood before the offset, where this consumer has read that.
        """
        if partition in self.assignment and partition not in self._next:
            self._next[partition] = offset
            if trace is not None:
                self._traces[partition] = trace
            if committed:
                self._committed[partition] = offset

    def seek(self, partition: Partition, offset: int) -> None:
        """Go on at another offset; the next commit includes it. NotAssigned unless the partition is assigned."""
        if partition not in self.assignment:
            topic, number = partition
            raise NotAssigned(
                f"partition {number} of topic {topic!r} is not assigned to this consumer; poll, then seek"
            )
        if partition in self._cut:
            self._committed.pop(partition, None)  # the group's was set back by whoever cut the log
        self._forget_trace(partition)
        self._next[partition] = offset

    def wanted(self, most: int | None = None) -> dict[str, dict[int, int]]:
        """Return topic -> partition -> offset to fetch, of up to `most` partitions: first the one whose turn it is."""
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
        """Note that a fetch came as far as `next_offset`; returned: whether records came of it, which ends the turn.

        False, and the records are not to be delivered, where the partition is no longer assigned, or where it does not
        stand at `start` (where that fetch began) any more because of a seek meanwhile. passage: the traces of the
        fetch's start and end. LogTruncated where the first one says that what was read before is gone: the position
        stays, and is not committed any more, until a seek.
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
            self._traces.pop(partition, None)  # it is of another position
        self._next[partition] = next_offset
        if returned:
            self._turn = partition
        return True

    def _forget_trace(self, partition: Partition) -> None:
        self._traces.pop(partition, None)
        self._cut.discard(partition)

    # --- commits --------------------------------------------------------------------------------------------------

    def to_commit(self) -> dict[str, dict[int, int]]:
        """Return the offsets that are not committed: of all positions, and of what was released in the last answer."""
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
