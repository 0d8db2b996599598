"""Replay a topic on a server: the same contract as `LocalPart`, over HTTP. The only module here that uses a client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast

from seglog.arrow.to_records import pieces_of
from seglog.client import Client
from seglog.client.models import PartitionState
from seglog.client.topic import RemoteTopic
from seglog.errors import CorruptRecord, InvalidArgument, LogTruncated, OffsetError
from seglog.log.history import KNOWN, Trace, was_cut
from seglog.machines.part import Part, partition_name
from seglog.record import Record
from seglog.topic.layout.locations import parse_location

_UNKNOWN = -(2**40)
"""A base for numbers that stand for a file: where the epoch does not decide, another epoch counts as a cut."""


class RemotePart:
    """A partition on a server, with the bounds of one moment."""

    def __init__(self, topic: RemoteTopic, number: int, state: PartitionState) -> None:
        self.name = partition_name(topic.name, number)
        self.lowest, self.initial = state.lowest_offset, state.initial_offset
        self.end = state.durable_offset if topic.expose == "durable" else state.next_offset
        self._topic = topic
        self._number = number
        self._state = state

    def trace_of(self, offset: int) -> Trace:
        """Return the history before an offset."""
        return _trace(self._state, offset)

    def offset_at(self, timestamp: int) -> int | None:
        """Return the first offset with this timestamp or a later one."""
        return self._topic.offset_at(timestamp, force_timestamp=True)[self._number]

    def read(self, offset: int) -> Record | None:
        """Return a record, if it is still there and can be read."""
        try:
            return self._topic.read(self._number, offset)
        except (OffsetError, CorruptRecord):
            return None

    def pieces(self, start: int, stop: int) -> Iterator[list[Record]]:
        """Yield the records of a range. Raises LogTruncated if what was yielded was cut off meanwhile."""
        position = start
        for page in self._topic.pages(self._number, start, stop):
            if (page.log, page.epoch) != (self._state.log, self._state.epoch):
                present = self._topic.states()[self._number]
                if was_cut(self.trace_of(position), _trace(present, position)):
                    raise LogTruncated(
                        f"{self.name} was truncated below offset {position} during the replay; repeat it"
                    )
                self._state = present
            for batch in page.batches:
                yield from pieces_of(batch)
            position = page.next_offset
        if position < stop:
            raise self._was_cut(position)

    def _was_cut(self, position: int) -> LogTruncated:
        return LogTruncated(f"{self.name} was truncated near offset {position} while it was read; replay it again")


def _trace(state: PartitionState, offset: int) -> Trace:
    cuts = state.cuts
    epoch = cuts.epoch_at(offset)
    return Trace(state.log, epoch, KNOWN if cuts.is_known_at(offset) else _UNKNOWN - epoch)


@contextmanager
def remote_parts(place: object) -> Iterator[dict[int, Part]]:
    """Yield the partitions of a `RemoteTopic`, or of the URL of a topic or partition."""
    if not isinstance(place, str):
        yield parts_of_topic(cast("RemoteTopic", place), None)
        return
    location = parse_location(place)
    with Client(location.url) as client:
        yield parts_of_topic(client.topic(location.topic), location.partition)


def parts_of_topic(topic: RemoteTopic, only: int | None) -> dict[int, Part]:
    """Return the partitions of a topic on a server, or only one. Raises InvalidArgument if it does not exist."""
    states = topic.states()
    if only is not None and only not in states:
        raise InvalidArgument(f"topic {topic.name!r} has partitions 0 to {len(states) - 1}, not {only}")
    return {
        number: RemotePart(topic, number, state) for number, state in sorted(states.items()) if only in (None, number)
    }
