"""Recover the active segment of a log that was not closed: what is kept, what is cut, what is only reported.

1. The durable count of the index is the number of records that are known to be on the disk. It was written after their
   sync, and its check is bound to the store's salt. These records are never cut, and their offsets are never assigned
   again: if one does not verify, that is damage, and its neighbours stay.
2. After them the first invalid record ends the log. The bytes cut are kept beside the store (`.torn`). Zeros alone are
   no such bytes if the log allocates space: they stay, and records are written over them. A log that allocates no more
   cuts them without a report.
3. Records accepted after the durable ones are written again in place and synced before they are served, because after
   a failed fsync the page cache may hold what the disk does not.

Running it twice, or again after a crash at any step, has the same result.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.codec import HEAD_BYTES, ZERO_HEAD, InvalidRecord, Rules
from seglog.format.index import (
    DENSE_ENTRY,
    DURABLE_MAX,
    ENTRY_BYTES,
    decode_durable_records,
    encode_dense_header,
    entry_position,
    unpack_marks,
)
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.segment.active import PLAIN, ActiveSegment, Growth
from seglog.segment.allocated import holds_zeros
from seglog.segment.index_rebuild import NewIndex, OldIndex
from seglog.segment.lookup import DenseLookup, SparseLookup
from seglog.segment.recovery_report import RecoveryEvent
from seglog.segment.resync import Found, find_next, find_record
from seglog.segment.sealed import open_store, rules_of
from seglog.segment.stats import Block, Tally, survey
from seglog.storage import File, Storage

COPY_BYTES = 1024 * 1024
SPREAD_FROM_BYTES = 64 * 1024 * 1024
"""From this size on several threads survey a store."""
SEARCH_BUDGET = 2 * 1024**3
"""Maximum bytes to hash, for about a second, to tell damage from a tear; a torn value may resemble heads everywhere."""


class TailRecovery:
    """The recovery of one active segment; `events` collects its reports.

    unsynced: whether it found records or bytes that were not known to be synced. Readers may have seen more of them.
    The durable count stays then as it is, so that the next recovery finds the same, until `mark_durable`.
    """

    def __init__(self, storage: Storage, entry: SegmentEntry, interval: int, *, allocates: bool = False) -> None:
        """allocates: whether the log allocates space, or did: zeros after the records are expected."""
        self.storage = storage
        self.entry = entry
        self.rules: Rules = rules_of(entry)
        self.store: File = open_store(storage, entry, writable=True)
        self.size = self.store.size()
        self.tally = Tally(interval)
        self.next_offset = entry.base_offset
        self.position = HEADER_BYTES
        self.events: list[RecoveryEvent] = []
        self.unsynced = False
        self._allocates = allocates
        self._durable = 0
        self._old_index = OldIndex(storage, entry.name(filename.INDEX))
        self._index = NewIndex(self._old_index, dense=entry.dense)

    def run(self, growth: Growth = PLAIN) -> ActiveSegment:
        """Recover, and return the segment ready for appends."""
        if decode_header(self.store.pread(HEADER_BYTES, 0), self.store.path) is None:
            detail = "the store's header is damaged; the identity in the manifest is used instead"
            self.events.append(RecoveryEvent(kind="header", path=self.store.path, detail=detail, position=0))
        entry = self.entry
        durable = decode_durable_records(self._old_index.header, entry.base_offset, entry.salt, dense=entry.dense) or 0
        reason = self._survey()
        while self.next_offset < self.entry.base_offset + durable:
            reason = self._pass_damage(durable, reason or "the store ends before it")
        self._durable = durable
        self.unsynced = self.next_offset > entry.base_offset + durable or self.position < self.size
        self._rewrite_accepted(durable)
        if self.position < self.size:
            if not self._has_allocated():
                self._cut_tail(reason or "the store ends before it")
            elif self.size - self.position > growth.allocate_bytes:  # which may be 0, or less than before
                self._cut()
        return self._active(growth)

    def _has_allocated(self) -> bool:
        """Whether what follows the records is allocated space. It may also be a write that was lost, see `unsynced`."""
        return self._allocates and holds_zeros(self.store, self.position, self.size)

    def _verifies(self, place: tuple[int, int, int], number: int) -> bool:
        _, length, position = place
        if position + length > self.size:
            return False
        data = self.store.pread(length, position)
        try:
            record, _, _ = self.rules.codec.decode(data, 0, len(data), self.rules.base_offset, self.rules.salt)
        except InvalidRecord:
            return False
        return record.offset == self.entry.base_offset + number

    def _survey(self) -> str | None:
        """Accept valid records from `position` on; return why they end."""
        block: Block | None = None
        for block in self._blocks():
            self.tally.absorb(block)
            self._index.extend(block.entries)
            self.position, self.next_offset = block.position, block.next_offset
        return block.reason if block is not None else None

    def _blocks(self) -> Iterator[Block]:
        start, end, expected, marks = self.position, self.size, self.next_offset, self.tally.marks
        if not self.rules.dense or end - start < SPREAD_FROM_BYTES:
            return survey(self.store, self.rules, position=start, end=end, expected=expected, marks=marks)
        from seglog.segment.parallel_stats import survey_spread  # noqa: PLC0415 - short stores load no compiler

        return survey_spread(
            self.store, self.rules, self._old_index, position=start, end=end, expected=expected, marks=marks
        )

    def _pass_damage(self, durable: int, reason: str) -> str | None:
        """Leave a damaged durable record in place and continue after it; return why the records after it end.

        The offsets of damaged records are never assigned again.
        """
        self._report("damage", f"a record known to be on the disk is damaged ({reason}); it was left in place")
        found = self._resume(durable)
        if found is None:  # no later record can be found: everything there stays, and so do its offsets
            self._give_up(self.entry.base_offset + durable, self.size)
            self.position = max(self.position, self.size)
            return None
        self._give_up(found.offset, found.position)
        self.position = found.position
        return self._survey()

    def _give_up(self, next_offset: int, end: int) -> None:
        """Skip damaged records before `next_offset`, which are before position `end`; keep their entries of the old
        index if possible, so that errors can name their position.

        Their timestamps are unknown: no search by time may exclude them, not even once the segment is sealed.
        """
        self.tally.pass_damage()
        if self.entry.dense:
            first = entry_position(self.next_offset - self.entry.base_offset)
            length = (next_offset - self.next_offset) * ENTRY_BYTES
            known = self._old_index.read(length, first).ljust(length, b"\0")
            kept = bytearray()
            for checksum, size, position in DENSE_ENTRY.iter_unpack(known):
                between = self.position <= position and position + size <= end  # else it overlaps other records
                kept += DENSE_ENTRY.pack(checksum, size, position) if between else bytes(ENTRY_BYTES)
            self._index.extend(kept)
        self.next_offset = next_offset

    def _resume(self, durable: int) -> Found | None:
        known = min(durable, self._old_index.records) if self.entry.dense else 0
        for number in range(self.next_offset + 1 - self.entry.base_offset, known):
            place = self._old_index.entry(number)
            if place is not None and self._verifies(place, number):
                return Found(place[2], self.entry.base_offset + number)
        return find_next(self.store, self.rules, position=self.position, end=self.size, least=self.next_offset + 1)

    def _rewrite_accepted(self, durable: int) -> None:
        """Write the accepted records that are not known to be durable again in place, and sync."""
        start = self._end_of(durable)
        if start >= self.position:
            return
        for position in range(start, self.position, COPY_BYTES):
            self.store.pwrite(self.store.pread(min(COPY_BYTES, self.position - position), position), position)
        self.store.datasync()

    def _end_of(self, records: int) -> int:
        """Return the position after the first `records` records; the store's start if that is unknown."""
        if not records or not self.entry.dense:
            return HEADER_BYTES
        _, length, position = self._index.entry(records - 1)
        return min(position + length, self.position) if length else HEADER_BYTES

    def _cut_tail(self, reason: str) -> None:
        """End the store after its last valid record; keep what is cut, unless it is only zeros."""
        kind, detail = self._name_tail(reason)
        kept = self._keep_torn(kind)
        cut = self.size - self.position
        self._cut()
        self._report(kind, detail + kept, cut=cut)

    def _cut(self) -> None:
        self.store.truncate(self.position)
        self.store.datasync()
        self.size = self.position

    def _name_tail(self, reason: str) -> tuple[str, str]:
        """Distinguish a tear (an unfinished write) from damage (valid records after an invalid one)."""
        head = self.store.pread(HEAD_BYTES, self.position)
        if head == ZERO_HEAD[: len(head)]:
            return "torn", "an unfinished write was cut: its head was never written"
        least = self.next_offset + 1
        found = find_record(
            self.store, self.rules, position=self.position + 1, end=self.size, least=least, budget=SEARCH_BUDGET
        )
        if found is None:
            return "torn", f"an unfinished write was cut ({reason})"
        return (
            "damage",
            f"{reason}, but a valid record of offset {found.offset} follows at position {found.position}; it was cut",
        )

    def _keep_torn(self, kind: str) -> str:
        """Copy the tail beside the store; return how to report it. Without space for it a tear is cut all the same."""
        name = self._torn_name()
        try:
            if not self._copy_tail(name):
                return "; it held only zeros"
        except StorageError as error:
            if kind == "damage" or error.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            self.storage.unlink(f"{filename.TMP}/{name}")
            return "; there was no space to keep the bytes"
        return f"; the bytes are kept in {name}"

    def _torn_name(self) -> str:
        """Return a name not in use: what was cut earlier at the same position is evidence, too."""
        number, name = 0, filename.torn_file(self.entry.name(), self.position)
        while self.storage.identity(name) is not None:
            number += 1
            name = filename.torn_file(self.entry.name(), self.position, number)
        return name

    def _copy_tail(self, name: str) -> bool:
        copy = self.storage.create(f"{filename.TMP}/{name}", replace=True)
        something = False
        for position in range(self.position, self.size, COPY_BYTES):
            data = self.store.pread(min(COPY_BYTES, self.size - position), position).rstrip(b"\0")
            if data:
                copy.pwrite(data, position - self.position)
                something = True
        if not something:
            self.storage.unlink(f"{filename.TMP}/{name}")
            return False
        copy.datasync()
        self.storage.rename(f"{filename.TMP}/{name}", name)
        self.storage.sync_directory()
        return True

    def _report(self, kind: str, detail: str, cut: int = 0) -> None:
        self.events.append(
            RecoveryEvent(
                kind=kind,
                path=self.store.path,
                detail=detail,
                offset=self.next_offset,
                position=self.position,
                bytes=cut,
            )
        )

    def _active(self, growth: Growth) -> ActiveSegment:
        """Rewrite the index if it differs, and return the active segment."""
        entry, records = self.entry, self.next_offset - self.entry.base_offset
        self.tally.digest = self._index.digest
        known = self._durable if self.unsynced else min(records, DURABLE_MAX)
        header = encode_dense_header(entry.base_offset, known, entry.salt)
        index = self._index.write(self.storage, entry.name(filename.INDEX), header)
        lookup: DenseLookup | SparseLookup
        if entry.dense:
            lookup = DenseLookup(index, records, hold=True)
        else:
            lookup = SparseLookup([(mark.relative, mark.position) for mark in unpack_marks(self.tally.marks.marks)])
        return ActiveSegment(
            self.storage,
            entry,
            self.store,
            index,
            tally=self.tally,
            lookup=lookup,
            next_offset=self.next_offset,
            size=max(self.position, HEADER_BYTES),
            allocated=self.size,
            growth=growth,
        )
