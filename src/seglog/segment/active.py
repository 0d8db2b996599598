"""The active segment: the one that records are appended to. Writes, rolls back, keeps its index, and seals itself.

One thread at a time calls the writing methods (the log sees to it); `reader` may be used by any thread meanwhile,
because a record's bytes are written before its entry, and its entry before `next_offset` moves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from xxhash import xxh64

from seglog.config import MAX_OFFSET, MAX_STORE_BYTES
from seglog.errors import LogPoisoned, StorageError
from seglog.format import filename
from seglog.format.codec import HEAD_BYTES, NATIVE, encode_headers, record_length, seal_head
from seglog.format.index import (
    DENSE_ENTRY,
    DURABLE_MAX,
    MARK,
    encode_dense_header,
    encode_offsets,
    encode_times,
    entry_position,
    unpack_marks,
)
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.record import Headers
from seglog.segment.active_files import ActiveFiles
from seglog.segment.bulk import Encoder, Encoding
from seglog.segment.calls import Ahead
from seglog.segment.held import CELLS, HELD_MOST_BYTES, Place, Row, encode_rows
from seglog.segment.lookup import DenseLookup, SparseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.scan import Rules
from seglog.segment.sealed import rules_of, write_derived
from seglog.segment.streamed import write_value
from seglog.segment.survey import Block, Tally
from seglog.storage import File, Storage, must_sync

INDEX_EVERY_BYTES = 1024 * 1024
JOIN_BELOW = 64 * 1024
HASHED_BESIDE = 64 * 1024  # entries; fewer are hashed before another thread has begun


def _hashed(digest: xxh64, entries: list[memoryview]) -> xxh64:
    digest = digest.copy()
    for part in entries:
        digest.update(part)
    return digest


def create_segment(storage: Storage, entry: SegmentEntry, log_id: int, *, span: int = 0) -> File:
    """Create the store of a new segment, and return once it is on the medium (its name after the directory's sync)."""
    store = storage.create(entry.name())
    store.pwrite(StoreHeader(entry.salt, log_id, entry.created, span).encode(), 0)
    must_sync(store.datasync)
    return store


class ActiveSegment:
    """Appends to one segment. next_offset: behind what was appended, buffered records included.

    settled is False from the first write of a change until it is published or undone: an interrupt that finds it so
    leaves what nobody may rely on. An interrupt of the last write undoes nothing: a reader may have seen the record.
    """

    def __init__(
        self,
        storage: Storage,
        entry: SegmentEntry,
        store: File,
        index: File,
        *,
        tally: Tally,
        lookup: DenseLookup | SparseLookup,
        next_offset: int,
        size: int,
        buffer_bytes: int = 0,
        segment_bytes: int = MAX_STORE_BYTES,
    ) -> None:
        self.entry = entry
        self.tally = tally
        self.next_offset = next_offset
        self._written = size
        self.settled = True
        self._storage = storage
        self._files = ActiveFiles(store, index)
        self._lookup = lookup
        self._dense = lookup if isinstance(lookup, DenseLookup) else None
        self._indexed_size = size
        self._held: list[Any] = []  # cells, row after row
        self._held_bytes = 0
        self._published = next_offset  # what readers saw last: `reader.next_offset`, before poisoning pulls that back
        self._buffer_bytes = min(buffer_bytes, HELD_MOST_BYTES)
        self._segment_bytes = segment_bytes
        self._hold_most = self._may_hold()
        self._rules: Rules = rules_of(entry)
        self.reader = SegmentReader(
            store,
            lookup,
            self._rules,
            next_offset=next_offset,
            size=size,
            marks=lambda: unpack_marks(tally.marks.marks),
        )
        self.reader.counted = tally.records

    @classmethod
    def start(
        cls,
        storage: Storage,
        entry: SegmentEntry,
        store: File,
        *,
        interval: int,
        buffer_bytes: int = 0,
        segment_bytes: int = MAX_STORE_BYTES,
    ) -> ActiveSegment:
        """Begin with an empty store that `create_segment` made."""
        index = storage.create(entry.name(filename.INDEX), replace=True)
        index.pwrite(encode_dense_header(entry.base_offset, 0, entry.salt), 0)
        return cls(
            storage,
            entry,
            store,
            index,
            tally=Tally(interval),
            lookup=DenseLookup(index, 0, hold=True) if entry.dense else SparseLookup([]),
            next_offset=entry.base_offset,
            size=HEADER_BYTES,
            buffer_bytes=buffer_bytes,
            segment_bytes=segment_bytes,
        )

    @property
    def size(self) -> int:
        """Bytes of the store, with what waits to be written."""
        return self._written + self._held_bytes

    @property
    def dense(self) -> bool:
        """Whether offsets must follow one another."""
        return self._dense is not None

    @property
    def empty(self) -> bool:
        """Whether it holds no record."""
        return self.next_offset == self.entry.base_offset

    @property
    def records(self) -> int:
        """How many were appended, those that wait to be written among them."""
        return self.tally.records + len(self._held) // CELLS

    # --- one record ---------------------------------------------------------------------------------------------

    def append(
        self,
        offset: int,
        timestamp: int,
        key: bytes | None,
        value: bytes | None,
        headers: bytes,
        *,
        through: bool = False,
    ) -> None:
        """Append one record; on an error nothing of it stays. through: it must not wait in the buffer."""
        if self._buffer_bytes:
            row, length = (timestamp, key, value, headers), record_length(key, headers, value)
            may_wait = not through and offset == self.next_offset
            if may_wait and self.hold(row, length):
                return
            self.write_buffer()  # before this record is taken: a refusal leaves it out
            if may_wait and self.hold(row, length):
                return
        relative = offset - self.entry.base_offset
        parts, checksum, length = NATIVE.encode(relative, timestamp, key, value, headers, self.entry.salt)
        self.settled = False
        try:
            if length < JOIN_BELOW:
                self._files.store.pwrite(parts[0] + parts[1], self._written)
            else:
                self._files.store.pwritev(parts, self._written)
        except Exception:
            self._roll_back()
            raise
        self._admit(offset, timestamp, checksum, length, value is None)
        self._publish()

    def hold(self, row: Row, length: int) -> bool:
        """Take in the next record, of `length` bytes, to be written later; False where the buffer does not take it."""
        held = self._held_bytes + length
        if held > self._hold_most:
            return False
        self.settled = False
        self._held.extend(row)
        self._held_bytes = held
        self.next_offset += 1
        self.settled = True
        return True

    def _may_hold(self) -> int:
        """Return how many bytes may wait behind what is written: within the buffer, the segment and the last offset."""
        return min(self._buffer_bytes, self._segment_bytes - self._written, MAX_OFFSET - self.next_offset)

    def append_run(self, rows: Sequence[Row]) -> None:
        """Append records with one write; on an error nothing of any stays."""
        if len(rows) == 1:  # it may be a large one, which is not copied to be written
            return self.append(self.next_offset, *rows[0], through=True)
        self.write_buffer()
        return self._write_rows([*chain.from_iterable(rows)])

    def _write_rows(self, cells: list[Any]) -> None:
        """Write rows that follow what was published; on an error nothing of them stays in the store."""
        data, block = self._encoded(cells)
        self.settled = False
        self._write_last(data, self.reader.size)
        self.tally.absorb(block)
        self._extend_sparse(block.marks)
        if self._dense is not None:
            self._dense.pending.extend(block.entries)
        else:
            self.tally.digest.update(block.entries)
        self._held, self._held_bytes = [], 0
        self._written, self.next_offset = block.position, self._published + block.records
        self._publish()

    def _encoded(self, cells: list[Any]) -> tuple[bytes | memoryview, Block]:
        place = Place(self._published - self.entry.base_offset, self.reader.size, self.entry.salt)
        return encode_rows(cells, place, self.tally.marks)

    def _admit(self, offset: int, timestamp: int, checksum: int, length: int, tombstone: bool) -> None:
        entry = DENSE_ENTRY.pack(checksum, length, self._written)
        if self._dense is not None:
            self._dense.pending.extend(entry)
        else:
            self.tally.digest.update(entry)
        tally = self.tally
        if tally.add(timestamp, offset - self.entry.base_offset, self._written, tombstone):
            self._extend_sparse(bytes(tally.marks.marks[-MARK.size :]))
        self._written += length
        self.next_offset = offset + 1

    def _extend_sparse(self, marks: bytes) -> None:
        if isinstance(self._lookup, SparseLookup):
            self._lookup.extend([(mark.relative, mark.position) for mark in unpack_marks(marks)])

    def _publish(self) -> None:
        """Let readers see what was written."""
        self.reader.size = self._written
        self.reader.next_offset = self.next_offset
        self.reader.counted = self.tally.records
        self._published = self.next_offset
        if self._buffer_bytes:
            self._hold_most = self._may_hold()
        self.settled = True
        if self._written - self._indexed_size >= INDEX_EVERY_BYTES:
            self.write_index()

    def _roll_back(self) -> None:
        """Cut what a failed write left; where that fails, nothing may be promised any more."""
        if getattr(self._files.store, "suspended", False):  # it could not be opened again: nothing was written
            self.settled = True
            return
        try:
            self._files.store.truncate(self.reader.size)
            self.datasync()
        except (StorageError, LogPoisoned) as error:
            raise LogPoisoned(
                error.errno,
                "a write failed and could not be rolled back; open the log again",
                self._files.store.path,
            ) from error
        self.settled = True

    def _write_last(self, data: bytes | memoryview, position: int) -> None:
        """Write what makes a change visible."""
        try:
            self._files.store.pwrite(data, position)
        except Exception:
            self._roll_back()
            raise

    def write_buffer(self) -> None:
        """Write buffered records; on an error they stay buffered."""
        if self._held:
            self._write_rows(self._held)

    # --- a stream -----------------------------------------------------------------------------------------------

    def append_stream(
        self,
        chunks: Iterable[bytes],
        timestamp: int,
        key: bytes | None,
        headers: Headers,
        *,
        record_limit: int,
        value_limit: int | None,
    ) -> None:
        """Append one record whose value comes in pieces: value first, hashed on its way, its head last.

        record_limit: bytes the whole record may take; value_limit: bytes of value the caller allows.
        """
        self.write_buffer()
        packed = encode_headers(headers)
        head_len = record_length(key, packed, None)
        limit = record_limit - head_len if value_limit is None else min(record_limit - head_len, value_limit)
        self.settled = False
        try:
            value_len, value_hash = write_value(self._files.store, chunks, self._written + head_len, limit)
            relative = self.next_offset - self.entry.base_offset
            head, checksum = seal_head(relative, timestamp, key, packed, value_len, value_hash, self.entry.salt)
        except BaseException:
            self._roll_back()
            raise
        self._write_last(head, self._written)
        self._admit(self.next_offset, timestamp, checksum, head_len + value_len, False)
        self._publish()

    # --- a batch ------------------------------------------------------------------------------------------------

    def append_batch(self, batch: Encoder, start: int, stop: int) -> None:
        """Append rows start..stop of a batch: readers see all or none of them: the first head comes last."""
        self.write_buffer()
        encoding = Encoding(
            batch,
            start,
            stop,
            relative=self.next_offset - self.entry.base_offset,
            position=self._written,
            salt=self.entry.salt,
            marks=self.tally.marks,
        )
        position, first_head = self._written, b""
        self.settled = False
        try:
            for data in encoding:
                if not first_head:
                    first_head = bytes(data[:HEAD_BYTES])
                    data[:HEAD_BYTES] = bytes(HEAD_BYTES)
                self._files.store.pwrite(data, position)
                position += len(data)
            block = encoding.block()
        except BaseException:
            self._roll_back()
            raise
        self._write_last(first_head, self._written)
        self.tally.absorb(block)
        self._extend_sparse(block.marks)
        self._admit_entries(encoding.entries, stop - start)
        self._written = position
        self.next_offset += stop - start
        self._publish()

    def _admit_entries(self, entries: list[memoryview], records: int) -> None:
        """Take in the entries of a batch: they go to the index file as they are, since copying many of them costs."""
        if self._dense is None:
            self.tally.digest = _hashed(self.tally.digest, entries)
        elif not self._wrote_entries(self._dense, entries, records):
            for part in entries:
                self._dense.pending.extend(part)

    def _wrote_entries(self, dense: DenseLookup, entries: list[memoryview], records: int) -> bool:
        """Write entries to the index file, and hash them meanwhile; many of both take as long as a few blocks."""
        hashing = Ahead()
        try:
            self._flush_entries()
            hashing.launch(partial(_hashed, self.tally.digest, entries), here=records < HASHED_BESIDE)
            self._files.index.pwritev(entries, entry_position(dense.flushed))
            digest = hashing.take()
        except StorageError:
            return False  # derived: they stay pending
        finally:
            hashing.finish()
        self.tally.digest = digest
        dense.add_flushed(records, self._files.index)
        return True

    # --- lookups and durability ---------------------------------------------------------------------------------

    def write_index(self) -> None:
        """Move pending entries to the index file. Derived, so a refusal only leaves them pending."""
        self._indexed_size = self._written
        try:
            self._flush_entries()
        except StorageError:
            return

    def _flush_entries(self) -> None:
        dense = self._dense
        if dense is None or not dense.pending:
            return
        pending = dense.pending
        self._files.index.pwrite(pending, entry_position(dense.flushed))
        settled, self.settled = self.settled, False  # an interrupt between these two would hash the entries twice
        self.tally.digest.update(bytes(pending))
        dense.move_pending(self._files.index)
        self.settled = settled

    def datasync(self) -> None:
        """Return once every written record is on the medium; see ActiveFiles.sync_store. By any thread."""
        self._files.sync_store()

    @property
    def suspendable(self) -> bool:
        """Whether the files have descriptors that can be closed for a while."""
        return self._files.suspendable

    def suspend(self, reopened: Callable[[], None]) -> bool:
        """Sync the store and close both files until they are needed, unless a change is under way; see ActiveFiles."""
        return self.settled and self._files.suspend(reopened)

    def reopen(self) -> None:
        """Open the files again that `suspend` closed."""
        self._files.reopen()

    def mark_durable(self, next_offset: int) -> None:
        """Note in the index that the records before `next_offset` are on the medium; unsynced itself."""
        try:
            self._flush_entries()
            self._write_durable_word(next_offset)
        except StorageError:
            return

    def _write_durable_word(self, next_offset: int) -> None:
        base, salt = self.entry.base_offset, self.entry.salt
        self._files.index.pwrite(encode_dense_header(base, min(next_offset - base, DURABLE_MAX), salt), 0)

    def rescue(self) -> None:
        """Put on the medium what was appended before an interrupt; the next opening finds it by scanning.

        Do nothing after a sync that failed: a later one would not report what was lost.
        """
        if self._files.failure is not None:
            return
        if self._held:
            self._files.store.pwrite(self._encoded(self._held)[0], self.reader.size)
        self.datasync()

    def leave_to_parent(self) -> None:
        """Refuse every write from now on: in a forked child, which shares the files' descriptors with its parent."""
        self._files = self._files.of_parent()

    def write_marks(self) -> None:
        """Write the sparse lookups that a sealed segment has; marks behind its end, after a cut, lead nowhere."""
        marks, interval = bytes(self.tally.marks.marks), self.tally.marks.interval
        if self._dense is None:
            offsets = encode_offsets(marks, interval, self.entry.salt)
            write_derived(self._storage, self.entry.name(filename.OFFSETS), offsets)
        times = encode_times(marks, interval, self.entry.salt)
        write_derived(self._storage, self.entry.name(filename.TIMES), times)

    def seal(self, sealed_at: int) -> SegmentEntry:
        """Put everything on the medium, write the lookups, and return the entry of a sealed segment."""
        self.write_buffer()
        self.datasync()
        self._flush_entries()
        self._write_durable_word(self.next_offset)
        self.write_marks()
        tally = self.tally
        return replace(
            self.entry,
            next_offset=self.next_offset,
            bytes=self._written,
            records=tally.records,
            tombstones=tally.tombstones,
            min_timestamp=tally.min_timestamp,
            max_timestamp=tally.max_timestamp,
            sealed_at=sealed_at,
            digest=tally.digest.intdigest(),
        )
