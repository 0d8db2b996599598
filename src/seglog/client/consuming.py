"""A consumer over HTTP: joins, heartbeats, fetches, commits. Flows around `groups.position`.

Two callers send heartbeats: `poll`, with the generation that it adopted, which confirms the release of partitions; and
`keep_alive` between polls, with the generation before, so that a slow program keeps its partitions and can commit them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from seglog.client import full_values
from seglog.client.flows import taken
from seglog.client.models import Ack, Bounds
from seglog.client.requests import group_calls, topic_calls
from seglog.client.requests.call import Flow, Pause
from seglog.client.retrying import Retries, retrying
from seglog.config import Expose
from seglog.errors import GroupNotFound, InvalidArgument, LogClosed, OffsetOutOfRange, UnknownMember
from seglog.record import Timestamp, checked_offset, checked_timestamp
from seglog.topic.groups.arguments import checked_timeout, checked_topics, checked_wait
from seglog.topic.groups.assignment import checked_share, shared
from seglog.topic.groups.position import Cursor, Standing, Start
from seglog.topic.groups.state import Membership
from seglog.topic.layout.names import checked_group
from seglog.topic.layout.places import Partition
from seglog.topic.positions import Positions, flat
from seglog.topic.read_trace import tell_how_to_go_on

if TYPE_CHECKING:
    from seglog.topic.groups.consumer import TopicBatch

MAX_RECORDS = 500
MAX_BYTES = 1024 * 1024
IDLE_SECONDS = 1.0
LONGEST_WAIT = 20.0


class Reading:
    """One consumer of a group. clock: seconds, monotonic."""

    def __init__(
        self,
        group: str,
        topics: Iterable[str],
        *,
        start: Start,
        session_timeout: float,
        share: tuple[int, int] | None,
        max_poll_interval: float,
        retries: Retries,
        expose: Expose = "appended",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if start not in ("earliest", "latest"):
            raise InvalidArgument(f'start is {start!r}; it must be "earliest" or "latest"')
        self.group, self.topics = checked_group(group), checked_topics(topics)
        self.session_timeout = checked_timeout(session_timeout)
        self.cursor = Cursor(self.session_timeout)
        self.closed = False
        self._start: Start = start
        self._expose = topic_calls.checked_expose(expose)
        self._share = None if share is None else checked_share(share)
        self._patience = checked_timeout(max_poll_interval)
        self._retries, self._clock = retries, clock
        self._member = secrets.token_hex(8)
        self._joined = False
        self._settled = 0  # the generation that `keep_alive` may send
        self._kept: dict[Partition, Standing] = {}
        self._polled_at = clock()
        self._polling = False

    # --- the group ------------------------------------------------------------------------------------------------

    def begin(self) -> Flow[None]:
        """Join the group, or compute a static share, and find the starting offsets."""
        if self._share is None:
            yield from self._join()
        else:
            counts = {}
            for topic in self.topics:
                counts[topic] = (yield from retrying(topic_calls.topic(topic), self._retries)).partitions
            self.cursor.adopt(shared(self._share, counts))
        yield from self._place()

    def _join(self) -> Flow[None]:
        call = group_calls.join(self.group, self.topics, member=self._member, session_timeout=self.session_timeout)
        said: Membership = yield from retrying(call, self._retries)
        self.cursor.adopt(said.assignment, said.generation, self._now())
        self._settled, self._joined = said.generation, True

    def _stay(self) -> Flow[None]:
        """Send a heartbeat if it is due, and adopt the answer; rejoin if the group does not know this member."""
        if self._share is not None or not self.cursor.beat_due(self._now()):
            return
        beaten = self.cursor.generation
        try:
            call = group_calls.heartbeat(self.group, self._member, beaten)
            said: Membership = yield from retrying(call, self._retries)
        except UnknownMember:
            self._kept = self.cursor.standing
            self.cursor.reset()
            self._joined = False
            yield from self._join()
            return
        self.cursor.adopt(said.assignment, said.generation, self._now())
        self._settled = beaten

    def silence(self) -> float | None:
        """Return the seconds until `keep_alive` is due; None if the program has not polled for too long."""
        if self.closed or (not self._polling and self._clock() - self._polled_at > self._patience):
            return None
        return self.session_timeout / 4

    def keep_alive(self) -> Flow[None]:
        """Send a heartbeat for a busy program. The next poll adopts what the group answers."""
        if self._joined and self._share is None:
            yield from retrying(group_calls.heartbeat(self.group, self._member, self._settled), Retries(0))

    def leave(self) -> Flow[None]:
        """Leave the group; what is uncommitted stays uncommitted."""
        self.closed = True
        if self._joined:
            self._joined = False
            try:
                yield from retrying(group_calls.leave(self.group, self._member), Retries(1))
            except GroupNotFound:
                return

    # --- reading --------------------------------------------------------------------------------------------------

    def poll(self, max_records: int, max_bytes: int, timeout: float) -> Flow[list[TopicBatch]]:
        """Return the next batches; wait up to `timeout` seconds for the first."""
        self._check_open()
        timeout = checked_wait(timeout)
        self._polling = True
        try:
            return (yield from self._poll(max_records, max_bytes, self._clock() + timeout))
        finally:
            self._polling, self._polled_at = False, self._clock()

    def _poll(self, max_records: int, max_bytes: int, deadline: float) -> Flow[list[TopicBatch]]:
        while True:
            yield from self._stay()
            yield from self._place()
            left = deadline - self._clock()
            wait = self._wait(left)
            wanted = self.cursor.wanted()
            if wanted:
                found = yield from self._fetch(wanted, max_records, max_bytes, wait)
                if found:
                    return found
            elif wait > 0:
                yield Pause(min(wait, IDLE_SECONDS))
            if self._clock() >= deadline or self._owes():
                return []

    def _wait(self, left: float) -> float:
        """Return how long a fetch may wait: until the poll ends, or the next heartbeat is due."""
        beat = LONGEST_WAIT if self._share is not None else self.cursor.beat_in(self._now())
        return max(0.0, min(left, beat, LONGEST_WAIT))

    def _owes(self) -> bool:
        """Whether released partitions have uncommitted records: the program can commit before the next heartbeat."""
        assigned = set(self.cursor.assignment)
        return any(one not in assigned for one in flat(self.cursor.to_commit()))

    def _fetch(
        self, wanted: dict[str, dict[int, int]], max_records: int, max_bytes: int, wait: float
    ) -> Flow[list[TopicBatch]]:
        call = topic_calls.fetch(wanted, max_records=max_records, max_bytes=max_bytes, wait=wait, expose=self._expose)
        try:
            fetched = yield from full_values.fetched(call, wanted, self._retries)
        except OffsetOutOfRange as error:
            topic, number = getattr(error, "topic", None), getattr(error, "partition", None)
            if isinstance(topic, str) and isinstance(number, int):
                tell_how_to_go_on(error, (topic, number))
            raise
        return taken(self.cursor, wanted, fetched)

    # --- positions ------------------------------------------------------------------------------------------------

    def _place(self) -> Flow[None]:
        """Find the starting offset of each new partition: the group's committed offset, or the start or end.

        After a lost session: this consumer's own position, unless another member or an operator has committed a
        different offset meanwhile.
        """
        missing = self.cursor.needs_position()
        if not missing:
            return
        committed = flat((yield from self._committed()))
        bounds: dict[str, dict[int, Bounds]] = {}
        for partition in missing:
            topic, number = partition
            kept, known = self._kept.pop(partition, None), committed.get(partition)
            if kept is not None and kept.committed == known:
                self.cursor.place(partition, kept.offset, trace=kept.trace)
            elif known is not None:
                self.cursor.place(partition, known, committed=True)
            else:
                if topic not in bounds:
                    bounds[topic] = yield from retrying(topic_calls.bounds(topic), self._retries)
                at = bounds[topic][number]
                self.cursor.place(partition, at.lowest_offset if self._start == "earliest" else at.end(self._expose))
        self._kept = {}

    def _committed(self) -> Flow[dict[str, dict[int, int]]]:
        try:
            return (yield from retrying(group_calls.committed(self.group), self._retries))
        except GroupNotFound:  # no member and no commit yet: a first static consumer
            return {}

    def seek(self, topic: str, partition: int, offset: int) -> Flow[None]:
        """Continue at another offset. Raises NotAssigned; OffsetOutOfRange if the partition does not hold it."""
        self._check_open()
        offset = checked_offset(offset)
        if (topic, partition) in self.cursor.assignment:
            at = (yield from retrying(topic_calls.bounds(topic), self._retries))[partition]
            if not at.lowest_offset <= offset <= at.next_offset:
                raise OffsetOutOfRange(offset, at.lowest_offset, at.next_offset)
        self.cursor.seek((topic, partition), offset)

    def seek_to_time(self, timestamp: Timestamp, *, force_timestamp: bool = False) -> Flow[None]:
        """Continue, in every assigned partition, at the first record at or after a time, or at the end."""
        self._check_open()
        moment = checked_timestamp(timestamp, force_timestamp=force_timestamp)
        for topic in sorted({topic for topic, _ in self.cursor.assignment}):
            ends = yield from retrying(topic_calls.bounds(topic), self._retries)  # before offset_at
            call = topic_calls.offset_at(topic, moment, self._expose, force_timestamp=True)
            found = yield from retrying(call, self._retries)
            for one, number in self.cursor.assignment:
                if one == topic:
                    offset = found[number]
                    self.cursor.seek((topic, number), ends[number].end(self._expose) if offset is None else offset)

    def lag(self) -> Flow[dict[Partition, int]]:
        """Return how many records remain in each assigned partition; an estimate if it is compacted."""
        self._check_open()
        yield from self._place()
        positions = self.cursor.positions
        if not positions:
            return {}
        return flat((yield from retrying(group_calls.lag(positions, self._expose), self._retries)))

    def commit(self, offsets: Positions | None, ack: Ack) -> Flow[None]:
        """Commit offsets, by default of everything poll has returned; all or none."""
        self._check_open()
        wanted: Any = self.cursor.to_commit() if offsets is None else offsets
        if not wanted:
            return
        member = None if self._share is not None else self._member
        yield from retrying(group_calls.commit(self.group, wanted, member=member, ack=ack), self._retries)
        self.cursor.committed(wanted)

    def _now(self) -> int:
        return round(self._clock() * 1_000_000)

    def _check_open(self) -> None:
        if self.closed:
            raise LogClosed("the consumer is closed; create another one")
