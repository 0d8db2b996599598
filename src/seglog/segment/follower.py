"""Follow an active segment that another process appends to: whole new records appear; nothing is written or locked.

With `durable` only the records that the writer has synced are shown: the count in its index, written after the sync.
"""

from __future__ import annotations

from collections.abc import Sequence

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.codec import InvalidRecord
from seglog.format.index import (
    DENSE_ENTRY,
    DENSE_HEADER_BYTES,
    ENTRY_BYTES,
    Mark,
    MarkBuilder,
    decode_durable_records,
    entry_position,
    unpack_marks,
)
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES
from seglog.segment.lookup import DenseLookup, Place, SparseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.sealed import dense_entries, open_store, rules_of
from seglog.segment.stats import Tally, survey
from seglog.segment.walk import StoreWalk
from seglog.storage import File, Storage

PENDING_MAX_BYTES = 64 * 1024


class ActiveFollower:
    """An active segment that grows; `refresh` looks for new records, `reader` reads what was found."""

    def __init__(self, storage: Storage, entry: SegmentEntry, *, interval: int, durable: bool) -> None:
        self.entry = entry
        self._storage = storage
        self._durable = durable
        self._rules = rules_of(entry)
        self._store = open_store(storage, entry)
        self._index_identity: object = None
        self._index: File | None = None
        self._last: tuple[int, Place] | None = None  # the last record that was found whole: offset, place
        self._marks = MarkBuilder(interval)
        self._marked = (HEADER_BYTES, entry.base_offset)
        self._sparse_marks = MarkBuilder(interval)
        self.reader = SegmentReader(
            self._store,
            DenseLookup(None, 0) if entry.dense else SparseLookup([]),
            self._rules,
            next_offset=entry.base_offset,
            size=HEADER_BYTES,
            marks=self._all_marks,
        )
        if entry.dense:
            self._jump()

    def _open_index(self) -> File | None:
        """Return the present index file: a recovery replaces it."""
        name = self.entry.name(filename.INDEX)
        identity = self._storage.identity(name)
        if self._index is None or identity != self._index_identity:
            try:
                self._index, self._index_identity = self._storage.open(name), identity
            except StorageError:
                self._index = None  # derived: the store is scanned instead
        return self._index

    def refresh(self) -> None:
        """Find the records that were appended since the last call."""
        known = self.reader.next_offset
        self._extend()
        if known == self.reader.next_offset and self._rolled_back():
            self._start_over()

    def _extend(self) -> None:
        if not self.entry.dense:
            self._walk_sparse()
        elif self._durable:
            self._jump()
        elif not self._survey() and self._jump():  # after damage, the index leads further
            self._survey()

    def _rolled_back(self) -> bool:
        """Whether the writer rolled back records that were shown here, which can only happen to unsynced ones."""
        if self._durable or self._last is None or self._store.size() == self.reader.size:
            return False
        return not self._stands(*self._last)

    def _start_over(self) -> None:
        """Follow the segment from its start again, with the same reader."""
        fresh = ActiveFollower(self._storage, self.entry, interval=self._marks.interval, durable=self._durable)
        fresh.refresh()
        reader, found = self.reader, fresh.reader
        reader.next_offset = min(reader.next_offset, found.next_offset)
        reader.lookup, reader.size, reader.next_offset = found.lookup, found.size, found.next_offset
        reader.counted = found.counted
        self._last, self._sparse_marks = fresh._last, fresh._sparse_marks
        self._marks, self._marked = fresh._marks, fresh._marked

    def _jump(self) -> bool:
        """Advance as far as the index leads; return whether that is further than before.

        Records that are only written must verify; records that the durable count covers exist even if the last is
        damaged.
        """
        index = self._open_index()
        if index is None:
            return False
        synced = self._synced_records()
        written = max(index.size() - DENSE_HEADER_BYTES, 0) // ENTRY_BYTES
        known = self.reader.next_offset - self.entry.base_offset
        for records in (synced,) if self._durable else (written, synced):
            if records > known and self._ends_at(records):
                return True
        if synced > known:
            self._believe(synced)
        return synced > known

    def _believe(self, synced: int) -> None:
        """Show the records that the durable count covers, although the index does not lead to the last one."""
        base = self.entry.base_offset
        entries = dense_entries(
            self._store, self._rules, end=self._store.size(), next_offset=base + synced, is_written=True
        )
        sound = [(base + number, place) for number, place in enumerate(DENSE_ENTRY.iter_unpack(entries)) if place[1]]
        self._last = sound[-1] if sound else None
        size = sum(self._last[1][1:]) if self._last is not None else HEADER_BYTES
        self._show(DenseLookup(None, 0, entries), size, base + synced)

    def _ends_at(self, records: int) -> bool:
        lookup = DenseLookup(self._index, records, hold=True)
        place, offset = lookup.exact(records - 1), self.entry.base_offset + records - 1
        if place is None or not self._stands(offset, place):
            return False
        self._last = offset, place
        self._show(lookup, place[2] + place[1], offset + 1)
        return True

    def _stands(self, offset: int, place: Place) -> bool:
        _, length, position = place
        if position + length > self._store.size():
            return False
        data = self._store.pread(length, position)
        try:
            record, _, found = self._rules.codec.decode(data, 0, len(data), self.entry.base_offset, self.entry.salt)
        except InvalidRecord:
            return False
        return (record.offset, found) == (offset, length)

    def _show(self, lookup: DenseLookup, size: int, next_offset: int) -> None:
        self.reader.lookup = lookup
        self.reader.size = size
        self.reader.next_offset = next_offset

    def _survey(self) -> bool:
        """Find the records that follow; return whether that is all there is.

        A batch's first head is written last. Reading it shows that all of the batch is in the store now, not that it
        was when the store's size was taken. So the end is not shown before the size stops changing.
        """
        lookup, entries = self.reader.lookup, bytearray()
        assert isinstance(lookup, DenseLookup)  # noqa: S101 - dense segments have one
        position, expected, end = self.reader.size, self.reader.next_offset, -1
        while (size := self._store.size()) > max(position, end):
            start, end = position, size
            for block in survey(
                self._store,
                self._rules,
                position=position,
                end=end,
                expected=expected,
                marks=self._marks,
                is_written=True,
            ):
                entries += block.entries
                position, expected = block.position, block.next_offset
            if position == start:
                break
        if entries:
            self._last = expected - 1, DENSE_ENTRY.unpack(entries[-ENTRY_BYTES:])
            lookup.pending.extend(entries)
            self._show(lookup, position, expected)
        if len(lookup.pending) > PENDING_MAX_BYTES:
            self._drop_pending(lookup)
        return position >= size

    def _drop_pending(self, lookup: DenseLookup) -> None:
        """Drop entries that the index file has by now, so that following for days does not fill the memory."""
        index = self._open_index()
        if index is not None:
            last = index.pread(ENTRY_BYTES, entry_position(len(lookup) - 1))
            if last == lookup.pending[-ENTRY_BYTES:]:
                lookup.move_pending(index)

    def _walk_sparse(self) -> None:
        """Do what `_survey` does for a segment with gaps."""
        reader, passed = self.reader, []
        limit = self.entry.base_offset + self._synced_records() if self._durable else None
        position, expected, end = reader.size, reader.next_offset, -1
        while (size := self._store.size()) > max(position, end):
            start, end = position, size
            walk = StoreWalk(self._store, self._rules, position=position, end=end, expected=expected)
            for record, checksum, length in walk:
                if limit is not None and record.offset >= limit:
                    break
                passed.append((record.offset, record.timestamp, (checksum, length, position)))
                position, expected = walk.position, walk.expected
            if position == start:
                break
        for offset, timestamp, place in passed:
            self._mark(timestamp, offset - self.entry.base_offset, place[2])
            self._last = offset, place
        reader.size = position
        reader.next_offset = expected
        reader.counted += len(passed)

    def _mark(self, timestamp: int, relative: int, position: int) -> None:
        lookup, known = self.reader.lookup, len(self._sparse_marks.marks)
        assert isinstance(lookup, SparseLookup)  # noqa: S101 - sparse segments have one
        self._sparse_marks.add(timestamp, relative, position)
        if len(self._sparse_marks.marks) != known:
            lookup.extend([(relative, position)])

    def _synced_records(self) -> int:
        index = self._open_index()
        header = b"" if index is None else index.pread(DENSE_HEADER_BYTES, 0)
        return decode_durable_records(header, self.entry.base_offset, self.entry.salt, dense=self.entry.dense) or 0

    def tally(self) -> Tally:
        """Count the visible records again; for figures, not for reading."""
        tally = Tally(self._marks.interval)
        blocks = survey(
            self._store,
            self._rules,
            position=HEADER_BYTES,
            end=self.reader.size,
            expected=self.entry.base_offset,
            marks=tally.marks,
        )
        for block in blocks:
            tally.absorb(block)
        return tally

    def _all_marks(self) -> Sequence[Mark]:
        """Return the time marks up to the present end; first survey what the index skipped."""
        position, expected = self._marked
        end = self.reader.size
        if position < end:
            for block in survey(
                self._store, self._rules, position=position, end=end, expected=expected, marks=self._marks
            ):
                self._marks.extend(block.marks, block.marks_state)
                self._marked = (block.position, block.next_offset)
        return unpack_marks(self._marks.marks)
