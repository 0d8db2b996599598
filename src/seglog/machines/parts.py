"""What is replayed: the partitions of a log or a topic, by path, open, or on a server."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from seglog.errors import CorruptRecord, InvalidArgument, OffsetError
from seglog.log.history import Trace
from seglog.log.log import Log
from seglog.log.opening import open_log, storage_at
from seglog.machines.part import Part, partition_name
from seglog.record import Record
from seglog.topic.layout import description
from seglog.topic.layout.locations import is_location
from seglog.topic.topic import Topic

FEW = 256
"""Ranges of up to this number of offsets are read record by record: faster than a batch, and it loads less."""

PIECE_BYTES = 1024 * 1024


class LocalPart:
    """A log that this process has open, or one partition of a topic."""

    def __init__(self, log: Log, name: str) -> None:
        self.name = name
        self._log = log
        self._view = log.view()
        self.lowest, self.end = self._view.lowest_offset, self._view.next_offset
        self.initial = self._view.manifest.config.initial_offset

    def trace_of(self, offset: int) -> Trace:
        """Return the history before an offset."""
        return self._view.trace_of(offset)

    def offset_at(self, timestamp: int) -> int | None:
        """Return the first offset with this timestamp or a later one."""
        return self._log.offset_at(timestamp, force_timestamp=True)

    def read(self, offset: int) -> Record | None:
        """Return a record, if it is still there and can be read."""
        try:
            return self._log.read(offset)
        except (OffsetError, CorruptRecord):
            return None

    def pieces(self, start: int, stop: int) -> Iterator[list[Record]]:
        """Yield the records of a range, every one verified."""
        if stop - start <= FEW:
            yield from _in_pieces(self._view.scan(start, stop))
            return
        from seglog.arrow.to_records import pieces_of  # noqa: PLC0415 - a short replay needs neither Arrow nor kernels

        for batch in self._view.batches(start, stop):
            yield from pieces_of(batch)


def _in_pieces(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield records in lists of about PIECE_BYTES at most, or of one record."""
    piece: list[Record] = []
    size = 0
    for record in records:
        piece.append(record)
        size += len(record.value or b"")
        if size >= PIECE_BYTES:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


@contextmanager
def parts_of(place: object) -> Iterator[dict[int, Part]]:
    """Open what a place names, for reading, and yield its partitions by number; a log without a topic is partition 0.

    An object that is already open stays open. Raises LogNotFound, NotALog, InvalidArgument, InvalidType.
    """
    if isinstance(place, Log):
        yield {0: LocalPart(place, place.path)}
    elif isinstance(place, Topic):
        yield _of_topic(place)
    elif _is_remote(place):
        from seglog.machines.remote import remote_parts  # noqa: PLC0415 - a replay by path needs no client

        with remote_parts(place) as parts:
            yield parts
    else:
        root = storage_at(place)  # type: ignore[arg-type] # the other kinds are handled above; raises InvalidType
        if description.is_topic(root):
            with Topic.open(root, mode="r") as topic:
                yield _of_topic(topic)
            return
        if topics := description.below(root):
            raise InvalidArgument(
                f"{root.path} is a directory of topics: replay one of them, such as {root.path}/{topics[0]}"
            )
        with open_log(root, mode="r") as log:
            yield {0: LocalPart(log, log.path)}


def _of_topic(topic: Topic) -> dict[int, Part]:
    return {
        number: LocalPart(topic.partition(number), partition_name(topic.name, number))
        for number in range(topic.partitions)
    }


def _is_remote(place: object) -> bool:
    """Whether this is a topic on a server; the client is loaded only if it is."""
    return is_location(place) or type(place).__module__ == "seglog.client.topic"
