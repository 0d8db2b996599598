"""Read a log that laminarmq wrote: records by offset, verified by its checksums. Read only.

    log = open_laminarmq("/var/lib/laminarmq/log")
    for record in log.scan(): ...

Nothing is skipped. A record that does not verify raises CorruptRecord, as does a missing one that must exist according
to the next segment. `recovery` reports what a crash left: laminarmq buffers both files of a segment and does not sync
one after the other, so either may be ahead. Index entries beyond the end of the store were never readable; bytes of a
store without an index entry cannot be framed.

laminarmq takes no lock: stop it first. Files are read as they were when the log was opened.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from seglog.errors import CorruptRecord, LogNotFound, NotALog, OffsetCompacted, OffsetOutOfRange
from seglog.format.codec import InvalidRecord
from seglog.format.laminarmq import (
    ENTRY,
    INDEX,
    STORE,
    Entries,
    decode_index,
    decode_record,
    parse_segment_file,
    segment_file,
    split_record,
)
from seglog.log.opening import storage_at
from seglog.record import checked_offset
from seglog.segment.recovery_report import RecoveryEvent, RecoveryReport
from seglog.storage import Storage

READ_BYTES = 8 * 1024 * 1024
ADVICE = "laminarmq's files are unchanged; the records before it are readable"

Offsets = np.ndarray[Any, np.dtype[np.int64]]


class LaminarmqRecord(NamedTuple):
    """One record. metadata: what laminarmq's user stored with it, in bincode; mostly empty."""

    offset: int
    metadata: bytes
    value: bytes


class Run(NamedTuple):
    """Consecutive records as columns of the fields of LaminarmqRecord; offsets may have gaps."""

    offsets: list[int]
    metadata: list[bytes]
    values: list[bytes]


@dataclass(frozen=True, slots=True)
class _Segment:
    """A segment with its whole records.

    offsets, entries: of the records, in order; next_bases: possible base offsets of the next segment; fault: what is
    wrong after the last record, None if nothing; events: what a crash left.
    """

    base_offset: int
    store: str
    offsets: Offsets
    entries: Entries
    next_bases: tuple[int, ...]
    fault: str | None
    events: tuple[RecoveryEvent, ...]

    @property
    def next_offset(self) -> int:
        return int(self.offsets[-1]) + 1 if self.offsets.size else self.base_offset

    @property
    def end(self) -> int:
        """The position after the last whole record."""
        return int(self.entries["position"][-1]) + int(self.entries["length"][-1]) if self.entries.size else 0


def open_laminarmq(place: str | os.PathLike[str] | Storage) -> LaminarmqLog:
    """Open the log in a directory for reading.

    Args:
        place: Path of the directory, or a storage.

    Raises:
        LogNotFound: If the directory does not exist.
        NotALog: If it holds no log of laminarmq.
    """
    storage = storage_at(place)
    if not storage.exists():
        raise LogNotFound(errno.ENOENT, "the directory does not exist", storage.path)
    sizes = storage.sizes()
    names = {name: parsed for name in sizes if (parsed := parse_segment_file(name)) is not None}
    strange = [name for name in sizes if name not in names and name.endswith((f".{STORE}", f".{INDEX}"))]
    if strange or not names:
        what = f"{strange[0]!r} is not a name that laminarmq uses" if strange else "it holds no <offset>.index"
        raise NotALog(errno.ENOTDIR, f"this directory is not a log of laminarmq: {what}", storage.path)
    return LaminarmqLog(storage, sorted({parsed.base_offset for parsed in names.values()}), sizes)


class LaminarmqLog:
    """A log of laminarmq with `lowest_offset <= offset < next_offset`. recovery: unreadable remains of a crash."""

    def __init__(self, storage: Storage, bases: list[int], sizes: dict[str, int]) -> None:
        self._storage, self._sizes, self._bases = storage, sizes, bases
        self._held: _Segment | None = None
        self.path = storage.path
        self.lowest_offset = bases[0]
        self.records = 0
        events: list[RecoveryEvent] = []
        for base in bases:
            segment = self._segment(base)
            self.records += segment.offsets.size
            events += segment.events
        self.next_offset = segment.next_offset
        self.recovery = RecoveryReport(tuple(events))

    def read(self, offset: int) -> LaminarmqRecord:
        """Return one record.

        Args:
            offset: Offset of the record.

        Raises:
            OffsetOutOfRange: If offset < lowest_offset or >= next_offset.
            OffsetCompacted: If laminarmq skipped the offset.
            CorruptRecord: If the record does not verify.
        """
        offset = checked_offset(offset)
        if not self.lowest_offset <= offset < self.next_offset:
            raise OffsetOutOfRange(offset, self.lowest_offset, self.next_offset)
        for record in self.scan(offset, offset + 1):
            return record
        raise OffsetCompacted(offset, next(self.scan(offset)).offset)

    def scan(self, start: int | None = None, stop: int | None = None) -> Iterator[LaminarmqRecord]:
        """Yield the records start <= offset < stop in order.

        Args:
            start: First offset. Default: the lowest offset.
            stop: First offset not to return. Default: the end.

        Raises:
            CorruptRecord: At a damaged or missing record.
        """
        for run in self.runs(start, stop):
            yield from map(LaminarmqRecord, *run)

    def runs(self, start: int | None = None, stop: int | None = None) -> Iterator[Run]:
        """Yield the records of `scan` in runs of about READ_BYTES; those before a damaged one come before its error.

        Args:
            start: As in `scan`.
            stop: As in `scan`.

        Raises:
            CorruptRecord: At a damaged or missing record.
        """
        first = self.lowest_offset if start is None else checked_offset(start)
        end = self.next_offset if stop is None else checked_offset(stop)
        for base, following in zip(self._bases, [*self._bases[1:], None], strict=True):
            if stop is not None and base >= end:
                return
            if following is not None and following <= first:
                continue
            segment = self._segment(base)
            yield from self._runs(segment, first, end)
            if stop is None or end > segment.next_offset:
                self._check_complete(segment, following, end)

    def _check_complete(self, segment: _Segment, following: int | None, stop: int) -> None:
        """Raise CorruptRecord if a segment lacks records below `stop`."""
        fault = segment.fault
        if following is not None and following not in segment.next_bases:
            fault = fault or f"the next segment begins at {following}"
        if fault and (following is None or segment.next_offset < stop):
            raise self._corrupt(segment, segment.next_offset, segment.end, fault)

    def _corrupt(self, segment: _Segment, offset: int, position: int, reason: str) -> CorruptRecord:
        return CorruptRecord(f"{self.path}/{segment.store}", offset, position, reason, advice=ADVICE)

    def _runs(self, segment: _Segment, start: int, stop: int) -> Iterator[Run]:
        first, last = np.searchsorted(segment.offsets, [start, stop]).tolist()
        if first >= last:
            return
        file = self._storage.open(segment.store)
        try:
            for begin, end in _stretches(segment.entries, first, last):
                entries = segment.entries[begin:end]
                wanted = int(entries["length"].sum(dtype=np.int64))
                data = file.pread(wanted, int(entries["position"][0]))
                run, error = self._decoded(segment, segment.offsets[begin:end].tolist(), entries, data)
                if run.offsets:
                    yield run
                if error is not None:
                    raise error
        finally:
            file.close()

    def _decoded(
        self, segment: _Segment, offsets: list[int], entries: Entries, data: bytes
    ) -> tuple[Run, CorruptRecord | None]:
        """Verify adjacent records in `data`; return those before the first invalid one, and the error."""
        run, at = Run([], [], []), 0
        for offset, (checksum, length, position) in zip(offsets, entries.tolist(), strict=True):
            try:
                metadata, value = decode_record(data[at : at + length], checksum, offset)
            except InvalidRecord as why:
                return run, self._corrupt(segment, offset, position, str(why))
            run.offsets.append(offset)
            run.metadata.append(metadata)
            run.values.append(value)
            at += length
        return run, None

    def _segment(self, base: int) -> _Segment:
        if self._held is None or self._held.base_offset != base:
            self._held = self._surveyed(base)
        return self._held

    def _surveyed(self, base: int) -> _Segment:
        """Read the index of a segment and compare it with the size of the store."""
        store, index = segment_file(base, STORE), segment_file(base, INDEX)
        store_bytes, data = self._sizes.get(store, 0), b""
        if index in self._sizes:
            file = self._storage.open(index)
            data = file.pread(self._sizes[index], 0)
            file.close()
        try:
            entries, repeated, cut = decode_index(data, base)
        except InvalidRecord as why:
            return _Segment(base, store, np.empty(0, np.int64), np.empty(0, ENTRY), (), str(why), ())
        fault = None if store in self._sizes or not entries.size else "its store is missing"
        whole = _whole(entries, store_bytes)
        offsets = base + np.arange(whole, dtype=np.int64)
        if repeated:
            offsets = self._offsets_said(store, base, entries[:whole])
        next_bases = (base + whole, base + whole + repeated)
        events = self._torn_index(index, len(data), cut, entries.size - whole)
        events += self._unclaimed(store, store_bytes, entries[:whole])
        return _Segment(base, store, offsets, entries[:whole], next_bases, fault, tuple(events))

    def _torn_index(self, index: str, size: int, cut: int, beyond: int) -> list[RecoveryEvent]:
        lost = cut + beyond * ENTRY.itemsize
        if not lost:
            return []
        detail = f"{beyond} entries at its end point beyond the end of the store" if beyond else ""
        part = f"{cut} bytes at its end are no entry" if cut else ""
        return [
            RecoveryEvent(
                kind="torn",
                path=f"{self.path}/{index}",
                detail=", ".join(filter(None, (detail, part))),
                position=size - lost,
                bytes=lost,
            )
        ]

    def _unclaimed(self, store: str, store_bytes: int, entries: Entries) -> list[RecoveryEvent]:
        """Report the bytes of a store that lie before, between or after its records."""
        starts = np.append(entries["position"].astype(np.int64), store_bytes)
        ends = np.insert(entries["position"].astype(np.int64) + entries["length"], 0, 0)
        gaps = np.flatnonzero(starts > ends)
        if not gaps.size:
            return []
        position, lost = int(ends[gaps[0]]), int((starts - ends)[gaps].sum())
        detail = f"{lost} bytes belong to no record of the index, the first at position {position}"
        return [RecoveryEvent(kind="torn", path=f"{self.path}/{store}", detail=detail, position=position, bytes=lost)]

    def _offsets_said(self, store: str, base: int, entries: Entries) -> Offsets:
        """Return the offsets as stored in the records, where the entry number may be one too low."""
        said, follows = np.empty(entries.size, np.int64), base
        file = self._storage.open(store)
        for number, (_, length, position) in enumerate(entries.tolist()):
            data, skipped = file.pread(length, position), base + number + 1
            follows = skipped if follows != skipped and _says(data, skipped) else follows
            said[number] = follows
            follows += 1
        file.close()
        return said


def _says(data: bytes, offset: int) -> bool:
    try:
        split_record(data, offset)
    except InvalidRecord:
        return False
    return True


def _whole(entries: Entries, store_bytes: int) -> int:
    """Return how many entries remain without those at the end that are adjacent and exceed the store."""
    positions = entries["position"].astype(np.int64)
    ends = positions + entries["length"]
    whole = entries.size
    while whole and ends[whole - 1] > store_bytes and (whole == 1 or positions[whole - 1] == ends[whole - 2]):
        whole -= 1
    return whole


def _stretches(entries: Entries, first: int, last: int) -> Iterator[tuple[int, int]]:
    """Split entries first to last - 1 into runs that are adjacent in the store, of READ_BYTES or one record."""
    positions = entries["position"][first:last].astype(np.int64)
    ends = positions + entries["length"][first:last]
    breaks = np.append(np.flatnonzero(positions[1:] != ends[:-1]) + 1, last - first).tolist()
    begin = 0
    for stop in breaks:
        while begin < stop:
            fits = int(np.searchsorted(ends[begin:stop], positions[begin] + READ_BYTES, "right"))
            end = begin + max(1, fits)
            yield first + begin, first + end
            begin = end
