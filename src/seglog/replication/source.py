"""What a mirror reads: the history of a log and its encoded records, from one view.

`LogSource` is the contract; `LocalSource` reads a log by its path. `remote` has the one that asks a server.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import NamedTuple, Protocol

from seglog.clock import Clock, system_clock
from seglog.config import LogConfig
from seglog.errors import CorruptRecord, OffsetOutOfRange
from seglog.format.codec import HEAD_BYTES, NATIVE, InvalidRecord
from seglog.log.copied import EncodedRecords
from seglog.log.log import Log
from seglog.log.opening import open_log
from seglog.log.pins import Pin
from seglog.log.view import View
from seglog.replication.lineage import Lineage
from seglog.replication.sameness import Digests, digests_before
from seglog.segment.reader import SegmentReader
from seglog.storage import Storage

FETCH_BYTES = 8 * 1024 * 1024


class Fetched(NamedTuple):
    """One answer of a source.

    records: from the requested offset on, up to the requested size; none if the source does not hold that offset.
    complete: they include the last record before lineage.end. published: the last batch of each query. compacted:
    compaction may have removed records and tombstones after the requested offset. records_left, bytes_left: after that
    offset, estimated. before: digests of the last records before it (see `sameness`); none from a server of an earlier
    version.
    """

    lineage: Lineage
    config: LogConfig
    published: dict[str, int]
    records: list[EncodedRecords]
    complete: bool
    compacted: bool
    records_left: int
    bytes_left: int
    before: Digests


class Held(NamedTuple):
    """What a copy has on its disk: every record before `offset`, which has this epoch in it.

    copy: its id. name: of the whole copy, with all its logs, for people.
    """

    copy: str
    offset: int
    epoch: int
    name: str = ""


class LogSource(Protocol):
    """A log to copy. `name`: for errors, a path or a URL."""

    name: str

    def fetch(self, offset: int | None, most: int = FETCH_BYTES, held: Held | None = None) -> Fetched:
        """Return the present history, and records from `offset` on (None: no records).

        Args:
            offset: The first offset to return.
            most: Bytes of records; the first record may exceed it.
            held: What the copy reports to have on its disk, for appends that wait for it; not stored durably.
        """
        ...

    def pin(self, held: Held) -> None:
        """Store durably what a copy has on its disk.

        Raises OffsetOutOfRange if the source ends before it by now, because it was cut.
        """
        ...

    def pinned(self, copy: str) -> bool:
        """Whether the copy has a pin."""
        ...

    def unpin(self, copy: str) -> None:
        """Remove the pin of a copy."""
        ...

    def close(self) -> None:
        """Release the source."""
        ...


def pin_name(copy: str) -> str:
    """Return the name of the pin of a copy."""
    return f"mirror-{copy}"


def note_copy(log: Log, held: Held, *, durable: bool) -> None:
    """Tell a log what a copy of it has on its disk; see Log._note_copy."""
    pin = Pin(held.offset, held.epoch, held.name, system_clock())
    log._note_copy(pin_name(held.copy), pin, durable=durable)


class LocalSource:
    """Reads a log by its path or Storage, also beside its writer."""

    def __init__(self, place: str | os.PathLike[str] | Storage, *, clock: Clock = system_clock) -> None:
        self._log = open_log(place, mode="r", clock=clock)
        self.name = self._log.path
        self._reported: Held | None = None

    def fetch(self, offset: int | None, most: int = FETCH_BYTES, held: Held | None = None) -> Fetched:
        """Return history and records; see LogSource.fetch."""
        if held is not None and held != self._reported:
            with suppress(OffsetOutOfRange):  # it was cut just now: the copy follows, and reports again
                note_copy(self._log, held, durable=False)
            self._reported = held
        return fetch_from(self._log.view(), offset, most)

    def pin(self, held: Held) -> None:
        """Store the position of a copy; see LogSource.pin."""
        note_copy(self._log, held, durable=True)
        self._reported = held

    def unpin(self, copy: str) -> None:
        """Remove the pin of a copy."""
        self._log.unpin(pin_name(copy))

    def pinned(self, copy: str) -> bool:
        """Whether the copy has a pin."""
        return pin_name(copy) in self._log.pins

    def close(self) -> None:
        """Close the log."""
        self._log.close()


def fetch_from(
    view: View,
    offset: int | None,
    most: int,
    *,
    skip: int | None = None,
    stop: int | None = None,
) -> Fetched:
    """Return the history of a log and records from `offset` on, of one view.

    stop: the first offset not to return; complete then means: all records before it. None: the log's end.
    skip: bytes of the first record to omit; then, and with 0, that record may be incomplete. None: it is complete.
    """
    lineage = Lineage.of(view)
    records: list[EncodedRecords] = []
    before: Digests = {}
    complete, compacted, counted, left = False, False, 0, 0
    if offset is not None and lineage.start <= offset <= lineage.end:
        complete = _read(view, offset, most, records, skip, stop)
        counted = view.records_from(offset)
        compacted = any(not entry.dense and (entry.next_offset or 0) > offset for entry in view.manifest.segments)
        left = bytes_from(view, offset)
        if not skip:
            before = digests_before(view, offset)
    return Fetched(
        lineage,
        view.manifest.config,
        dict(view.manifest.published),
        records,
        complete,
        compacted,
        counted,
        left,
        before,
    )


def bytes_from(view: View, offset: int) -> int:
    """Estimate the bytes of the records from `offset` on: whole segments by their figures, the first by its share."""
    total, entries = 0, view.manifest.segments
    for entry, end, size in [
        *((entry, entry.next_offset or 0, entry.bytes or 0) for entry in entries[:-1]),
        (entries[-1], view.active.next_offset, view.active.size),
    ]:
        if end > offset:
            span = end - entry.base_offset
            total += size if offset <= entry.base_offset else size * (end - offset) // span
    return total


def _read(
    view: View, offset: int, most: int, records: list[EncodedRecords], skip: int | None, stop: int | None
) -> bool:
    """Add records to the list; return whether they include the last one of the view, or before `stop`."""
    end = view.next_offset  # before the active segment's size, which is published first: its records are included
    end = end if stop is None else min(end, stop)
    for reader in view.readers(offset, end):
        first = max(offset, reader.base_offset)
        if first >= reader.next_offset and reader is not view.active:
            continue
        until = min(reader.next_offset, end)
        size = reader.size if stop is None or stop >= reader.next_offset else reader.seek(stop)[0]
        position, found = reader.seek(first)
        if position < size:
            if first > reader.base_offset:
                reader.check_gaps(first, lacking=1)  # a record moved in the store looks like a gap
            begin = position + (skip or 0)
            length = min(size - begin, most if skip is not None else _wanted(reader, position, size, most))
            data = reader.store.pread(length, begin) if length > 0 else b""
            if len(data) < length:
                raise CorruptRecord(reader.store.path, found, begin + len(data), "the store ends before it")
            reached = begin + length >= size
            records.append(
                EncodedRecords(
                    reader.base_offset,
                    reader.rules.salt,
                    reader.rules.dense,
                    first if reader.rules.dense else max(found, first),
                    until if reached else first,
                    reader.store.path,
                    position,
                    data,
                )
            )
            most -= length
            if not reached or skip:
                return False
        elif reader.rules.dense and found < until:
            raise CorruptRecord(reader.store.path, found, position, "the store ends before it")
        if most <= 0 and reader is not view.active:
            return False
    return True


def _wanted(reader: SegmentReader, position: int, size: int, most: int) -> int:
    """Return how many bytes to read: `most`, or more if the first record is longer."""
    try:
        first = NATIVE.length_at(reader.store.pread(HEAD_BYTES, position), 0)
    except InvalidRecord:
        return most  # the copy reports the damage
    return max(most, min(first, size - position))
