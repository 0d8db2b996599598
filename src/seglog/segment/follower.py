"""Following an active segment that another process appends to: new whole records appear, nothing is written or locked.

With `durable` only what the writer has synced is shown: the count in its index, which is written after the sync.
"""

from __future__ import annotations

from collections.abc import Sequence

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.codec import InvalidRecord
from seglog.format.index import (
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
from seglog.segment.lookup import DenseLookup, SparseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.scan import StoreWalk
from seglog.segment.sealed import open_store, rules_of
from seglog.segment.survey import Tally, survey
from seglog.storage import File, Storage

PENDING_MAX_BYTES = 64 * 1024


class ActiveFollower:
    """Sees an active segment grow; `refresh` looks for more, `reader` reads what was found."""

    def __init__(self, storage: Storage, entry: SegmentEntry, *, interval: int, durable: bool) -> None:
        self.entry = entry
        self._storage = storage
        self._durable = durable
        self._rules = rules_of(entry)
        self._store = open_store(storage, entry)
        self._index = self._open_index()
        self._records = 0
        self._marks = MarkBuilder(interval)
        self._marked = (HEADER_BYTES, entry.base_offset)
        self._sparse_marks = MarkBuilder(interval)
        self.reader = SegmentReader(
            self._store,
            DenseLookup(self._index, 0) if entry.dense else SparseLookup([]),
            self._rules,
            next_offset=entry.base_offset,
            size=HEADER_BYTES,
            marks=self._all_marks,
        )
        if entry.dense:
            self._jump()

    def _open_index(self) -> File | None:
        try:
            return self._storage.open(self.entry.name(filename.INDEX))
        except StorageError:
            return None  # derived: the store is scanned instead

    def refresh(self) -> None:
        """Take in the records that were appended since."""
        if not self.entry.dense:
            self._walk_sparse()
        elif self._durable:
            self._jump()
        else:
            self._survey()

    def _jump(self) -> None:
        """Go as far as the index leads, if the last record it names is really there."""
        if self._index is None:
            self._index = self._open_index()
        if self._index is None:
            return
        header = self._index.pread(DENSE_HEADER_BYTES, 0)
        synced = decode_durable_records(header, self.entry.base_offset, self.entry.salt) or 0
        written = max(self._index.size() - DENSE_HEADER_BYTES, 0) // ENTRY_BYTES
        for records in (synced,) if self._durable else (written, synced):
            if records > self._known() and self._ends_at(records):
                return

    def _known(self) -> int:
        return self.reader.next_offset - self.entry.base_offset

    def _ends_at(self, records: int) -> bool:
        lookup = DenseLookup(self._index, records)
        place = lookup.exact(records - 1)
        if place is None:
            return False
        checksum, length, position = place
        if position + length > self._store.size():
            return False
        data = self._store.pread(length, position)
        try:
            record, found, _ = self._rules.codec.decode(data, 0, len(data), self.entry.base_offset, self.entry.salt)
        except InvalidRecord:
            return False
        if record.offset != self.entry.base_offset + records - 1 or found != checksum:
            return False
        self.reader.lookup = lookup
        self.reader.size = position + length
        self.reader.next_offset = self.entry.base_offset + records
        return True

    def _survey(self) -> None:
        end, lookup = self._store.size(), self.reader.lookup
        assert isinstance(lookup, DenseLookup)  # noqa: S101 - dense segments have one
        if end <= self.reader.size:
            return
        for block in survey(
            self._store,
            self._rules,
            position=self.reader.size,
            end=end,
            expected=self.reader.next_offset,
            marks=self._marks,
        ):
            lookup.pending.extend(block.entries)
            self.reader.size = block.position
            self.reader.next_offset = block.next_offset
        if len(lookup.pending) > PENDING_MAX_BYTES:
            self._drop_pending(lookup)

    def _drop_pending(self, lookup: DenseLookup) -> None:
        """Leave to the index file what it has by now, so that following for days does not fill the memory."""
        if self._index is None:
            self._index = self._open_index()
        if self._index is not None:
            last = self._index.pread(ENTRY_BYTES, entry_position(len(lookup) - 1))
            if last == lookup.pending[-ENTRY_BYTES:]:
                lookup.move_pending(self._index)

    def _walk_sparse(self) -> None:
        lookup, marks = self.reader.lookup, self._sparse_marks
        assert isinstance(lookup, SparseLookup)  # noqa: S101 - sparse segments have one
        limit = self._synced_records() if self._durable else None
        walk = StoreWalk(
            self._store,
            self._rules,
            position=self.reader.size,
            end=self._store.size(),
            expected=self.reader.next_offset,
        )
        for record, _, length in walk:
            if limit is not None and self._records >= limit:
                return
            relative, position = record.offset - self.entry.base_offset, walk.position - length
            known = len(marks.marks)
            marks.add(record.timestamp, relative, position)
            if len(marks.marks) != known:
                lookup.extend([(relative, position)])
            self._records += 1
            self.reader.size = walk.position
            self.reader.next_offset = walk.expected

    def _synced_records(self) -> int:
        if self._index is None:
            self._index = self._open_index()
        header = b"" if self._index is None else self._index.pread(DENSE_HEADER_BYTES, 0)
        return decode_durable_records(header, self.entry.base_offset, self.entry.salt) or 0

    def tally(self) -> Tally:
        """Count the visible records anew; for figures, not for reading."""
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
        """Return the time marks up to the present end; what the index let us jump over is surveyed now."""
        position, expected = self._marked
        end = self.reader.size
        if position < end:
            for block in survey(
                self._store, self._rules, position=position, end=end, expected=expected, marks=self._marks
            ):
                self._marks.extend(block.marks, block.marks_state)
                self._marked = (block.position, block.next_offset)
        return unpack_marks(self._marks.marks)
