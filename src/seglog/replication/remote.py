"""Copy from a server: the same contracts as `LocalPlace` and `LocalSource`, over HTTP.

The only module of this package that uses the client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar
from urllib.parse import urlsplit

from seglog.client import Client
from seglog.client.endpoint import Verify
from seglog.client.requests import copy_calls
from seglog.client.requests.call import Call
from seglog.errors import GroupNotFound, InvalidArgument, OffsetError, TopicNotFound
from seglog.format.codec import HEAD_BYTES, NATIVE, InvalidRecord
from seglog.log.copied import EncodedRecords
from seglog.replication import wire
from seglog.replication.places import Kind
from seglog.replication.source import FETCH_BYTES, Fetched, Held, LogSource
from seglog.topic.layout.description import Description
from seglog.topic.layout.locations import parse_location
from seglog.topic.layout.places import Partition

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.client.models import TopicInfo

T = TypeVar("T")

RETRIES = 8
ATTEMPTS = 16  # at a long record whose segment was rewritten while it was fetched in pieces


def _described(one: TopicInfo) -> Description:
    return Description(one.name, one.partitions, one.id, policies=one.policies)


class RemotePlace:
    """All topics of a server with its consumer groups, one topic, or one partition.

    The URL is that of a server (http://host:3000, or with a path that ends with a slash: http://host/prefix/), of a
    topic (http://host:3000/orders) or of a partition (http://host:3000/orders/0).
    """

    def __init__(self, url: str, *, token: str | None = None, verify: Verify = True, retries: int = RETRIES) -> None:
        self.name = url
        path = urlsplit(url).path
        self._topic: str | None = None
        self._partition: int | None = None
        server = url
        if path and not path.endswith("/"):
            server, self._topic, self._partition = parse_location(url)
        self.kind: Kind = "broker" if self._topic is None else "topic" if self._partition is None else "log"
        self.client = Client(server, token=token, verify=verify, retries=retries)

    def topics(self) -> dict[str, Description | None]:
        """Return the present topics by name, a single one as ""; None for one that the server cannot open."""
        if self._topic is not None:
            return {"": self.topic("")}
        unknown = dict.fromkeys(self.client.failed_topics())  # first: one that is repaired meanwhile is in both
        return unknown | {one.name: _described(one) for one in self.client.topics()}

    def topic(self, directory: str) -> Description:
        """Return one topic; see SourcePlace.topic."""
        return _described(self.client.topic(self._topic or directory).info())

    def log(self, topic: str, partition: int) -> LogSource:
        """Return the log of a partition; see SourcePlace.log."""
        return RemoteSource(self, self._at(topic, partition))

    def _at(self, topic: str, partition: int) -> Partition:
        return self._topic or topic, partition if self._partition is None else self._partition

    def groups(self) -> LogSource | None:
        """Return the log of consumer groups; None for a single topic."""
        return RemoteSource(self, None) if self._topic is None else None

    def wait(self, positions: dict[Partition, int], seconds: float) -> None:
        """Return once a partition has a record after its position, or the time is over."""
        nested: dict[str, dict[int, int]] = {}
        for place, offset in positions.items():
            topic, number = self._at(*place)
            nested.setdefault(topic, {})[number] = offset
        if nested:
            try:
                self.client.fetch(nested, max_records=1, wait=seconds)
            except (OffsetError, TopicNotFound, GroupNotFound):
                return  # a log was cut, has expired records or was deleted: the next round follows

    def call(self, call: Call[T]) -> T:
        """Send a request, with the client's retries."""
        return self.client._call(call)

    def fence(self, term: int) -> None:
        """Make all logs of the server reject changes: others were promoted with this term."""
        if self._topic is not None:
            raise InvalidArgument(f"{self.name} names a topic; a whole server is fenced: omit the path")
        self.call(copy_calls.fence(term))

    def comparable(self, topic: str, partition: int) -> RemoteLog:
        """Return a partition for a comparison."""
        return RemoteLog(self.client, *self._at(topic, partition))

    def close(self) -> None:
        """Close the connections."""
        self.client.close()


class RemoteLog:
    """A partition of a server, for `diff`."""

    def __init__(self, client: Client, topic: str, partition: int) -> None:
        self._topic = client.topic(topic)
        self._partition = partition
        state, segments = self._topic.partition(partition)
        self.id = state.log
        self.lowest_offset, self.next_offset = state.lowest_offset, state.next_offset
        self.compacted = self._topic.info().retention.compact or not all(one.dense for one in segments)

    def table(self, start: int, stop: int) -> pa.Table:
        """Return the records of a range."""
        return self._topic.to_arrow(self._partition, start, stop)


class RemoteSource:
    """One log of a server: a partition, or None for the log of consumer groups."""

    def __init__(self, place: RemotePlace, partition: Partition | None) -> None:
        self._place = place
        self._partition = partition
        path = "groups" if partition is None else f"{partition[0]}/{partition[1]}"
        self.name = f"{place.name.rstrip('/')}/{path}"

    def fetch(self, offset: int | None, most: int = FETCH_BYTES, held: Held | None = None) -> Fetched:
        """Return history and records; see LogSource.fetch. A record longer than `most` comes in pieces."""
        for _attempt in range(ATTEMPTS):
            fetched, _ = self._ask(offset, most, held=held)
            if not fetched.records:
                return fetched
            first = self._completed(fetched.records[0], offset, most)
            if first is not None:
                return fetched._replace(records=[first, *fetched.records[1:]])
        return fetched._replace(records=[], complete=False)

    def _ask(
        self, offset: int | None, most: int, *, skip: int = 0, copy: str | None = None, held: Held | None = None
    ) -> tuple[Fetched, bool]:
        reported = None if held is None else (held.offset, held.epoch, held.name)
        copy = copy if held is None else held.copy
        call = copy_calls.copy(self._partition, offset, max_bytes=most, skip=skip, copy=copy, held=reported)
        return wire.decode(self._place.call(call), self.name)

    def _completed(self, part: EncodedRecords, offset: int | None, most: int) -> EncodedRecords | None:
        """Fetch the rest of a first record that is incomplete; None if its segment changed meanwhile."""
        try:
            needed = NATIVE.length_at(bytes(part.data[:HEAD_BYTES]), 0)
        except InvalidRecord:
            return part  # the copy reports the damage
        data = bytearray(part.data) if needed > len(part.data) else part.data
        until = part.until
        while len(data) < needed:
            fetched, _ = self._ask(offset, most, skip=len(data))
            more = fetched.records[0] if fetched.records else None
            if more is None or (more.salt, more.position) != (part.salt, part.position) or not len(more.data):
                return None
            data += more.data
            until = more.until
        return part._replace(data=data, until=until)

    def pin(self, held: Held) -> None:
        """Store the position of a copy; see LogSource.pin."""
        self._place.call(copy_calls.pin(self._partition, held.copy, held.offset, held.epoch, held.name))

    def pinned(self, copy: str) -> bool:
        """Whether the copy has a pin."""
        return self._ask(None, 1, copy=copy)[1]

    def unpin(self, copy: str) -> None:
        """Remove the pin of a copy."""
        self._place.call(copy_calls.forget(self._partition, copy))

    def close(self) -> None:
        """Do nothing: the place has the connections."""
