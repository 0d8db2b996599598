"""The active segment, to which records are appended: writes, rolls back, maintains its index, and seals itself.

Publish order. One thread at a time calls the writing methods (the log ensures this); any thread may use `reader`
meanwhile, without a lock. That is safe because every append does, in this order:
1. write the record's bytes to the store. A batch or a stream writes its first head last, so readers in other processes
   see all of it or nothing;
2. add its entry to the lookup and its figures to the tally;
3. set `reader.size`, then `reader.next_offset`, which makes the record visible;
4. set `settled`.
If step 1 fails, the store is cut to `reader.size` and synced, so that no part of the record can appear later; if that
fails as well, the log is poisoned. Index files are derived: an error while writing them is no error of an append.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, NamedTuple

from seglog.config import MAX_OFFSET, MAX_STORE_BYTES, LogConfig
from seglog.errors import LogPoisoned, StorageError
from seglog.format import filename
from seglog.format.codec import HEAD_BYTES, NATIVE, Rules, encode_headers, record_length, seal_head
from seglog.format.index import encode_dense_header, unpack_marks
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.record import Headers
from seglog.segment.active_files import ActiveFiles
from seglog.segment.active_index import ActiveIndex
from seglog.segment.allocated import Space
from seglog.segment.batches import Encoder, encoding
from seglog.segment.lookup import DenseLookup, SparseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.sealed import rules_of
from seglog.segment.stats import Block, Place, Tally
from seglog.segment.streamed_value import write_value
from seglog.segment.write_buffer import CELLS, HELD_MOST_BYTES, Row, encode_rows
from seglog.storage import File, Storage, must_sync
from seglog.storage.base import Buffer

JOIN_BELOW = 64 * 1024


class Growth(NamedTuple):
    """How an active segment grows, in bytes: what waits in memory, its size, and the space allocated ahead."""

    buffer_bytes: int = 0
    segment_bytes: int = MAX_STORE_BYTES
    allocate_bytes: int = 0

    @classmethod
    def of(cls, config: LogConfig) -> Growth:
        """Return that of a log."""
        return cls(config.buffer_bytes, config.segment_bytes, config.allocate_bytes)


PLAIN = Growth()  # nothing waits, and no space is allocated


def create_segment(storage: Storage, entry: SegmentEntry, log_id: int, *, span: int = 0) -> File:
    """Create the store of a new segment; return once it is on the disk (its name needs a sync of the directory)."""
    store = storage.create(entry.name())
    store.pwrite(StoreHeader(entry.salt, log_id, entry.created, span).encode(), 0)
    must_sync(store.datasync)
    return store


class ActiveSegment:
    """Appends to one segment. next_offset: after everything appended, including buffered records.

    settled is False from the first write of a change until it is published or rolled back, and for good after an
    interrupt while the index was written: the state is unknown then, and the log is poisoned. An interrupt of the last
    write rolls nothing back, because a reader may have seen the record.
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
        allocated: int = 0,
        growth: Growth = PLAIN,
    ) -> None:
        """allocated: up to this position the store holds zeros after its records."""
        self.entry = entry
        self.tally = tally
        self.next_offset = next_offset
        self._written = size
        self._settled = True
        self._files = ActiveFiles(store, index)
        self._index = ActiveIndex(storage, entry, self._files, tally, lookup, size)
        self._held: list[Any] = []  # buffered rows as cells, row after row
        self._held_bytes = 0
        self._published = next_offset  # the last `reader.next_offset`; poisoning may reduce that, but not this
        self._buffer_bytes = min(growth.buffer_bytes, HELD_MOST_BYTES)
        self._segment_bytes = growth.segment_bytes
        self._space = Space(self._files, ahead=growth.allocate_bytes, limit=growth.segment_bytes, end=allocated)
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
        growth: Growth = PLAIN,
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
            growth=growth,
        )

    @property
    def settled(self) -> bool:
        """Whether memory and disk agree about it."""
        return self._settled and self._index.settled

    @settled.setter
    def settled(self, settled: bool) -> None:
        self._settled = settled

    @property
    def size(self) -> int:
        """Size of the store in bytes, including buffered records."""
        return self._written + self._held_bytes

    @property
    def dense(self) -> bool:
        """Whether offsets must be consecutive."""
        return self._index.dense is not None

    @property
    def empty(self) -> bool:
        """Whether it holds no record."""
        return self.next_offset == self.entry.base_offset

    @property
    def records(self) -> int:
        """Number of records, including buffered ones."""
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
        """Append one record; after an error nothing of it remains. through: it must not be buffered."""
        if self._buffer_bytes:
            row, length = (timestamp, key, value, headers), record_length(key, headers, value)
            may_wait = not through and offset == self.next_offset
            if may_wait and self.hold(row, length):
                return
            self.write_buffer()  # before this record, which is not appended if this fails
            if may_wait and self.hold(row, length):
                return
        relative = offset - self.entry.base_offset
        parts, checksum, length = NATIVE.encode(relative, timestamp, key, value, headers, self.entry.salt)
        self._space.reserve(self._written, self._written + length)
        self._settled = False
        try:
            if length < JOIN_BELOW:
                self._files.store.pwrite(parts[0] + parts[1], self._written)
            else:
                self._files.store.pwritev(parts, self._written)
        except Exception:
            self._roll_back()
            raise
        self._index.add(relative, timestamp, checksum, length, self._written, tombstone=value is None)
        self._written += length
        self.next_offset = offset + 1
        self._publish()

    def hold(self, row: Row, length: int) -> bool:
        """Buffer the next record, of `length` bytes; return False if the buffer has no space for it."""
        held = self._held_bytes + length
        if held > self._hold_most:
            return False
        self._settled = False
        self._held.extend(row)
        self._held_bytes = held
        self.next_offset += 1
        self._settled = True
        return True

    def limit(self, segment_bytes: int) -> None:
        """Let the segment take records up to this size from now on."""
        self._segment_bytes = segment_bytes
        self._hold_most = self._may_hold()

    def _may_hold(self) -> int:
        """Return how many bytes may be buffered: within the buffer, the segment and the last possible offset."""
        return min(self._buffer_bytes, self._segment_bytes - self._written, MAX_OFFSET - self.next_offset)

    def append_run(self, rows: Sequence[Row]) -> None:
        """Append records with one write; after an error nothing of them remains."""
        if len(rows) == 1:  # it may be large, and is written without a copy
            return self.append(self.next_offset, *rows[0], through=True)
        self.write_buffer()
        return self._write_rows([*chain.from_iterable(rows)])

    def _write_rows(self, cells: list[Any]) -> None:
        """Write rows that follow the published ones; after an error nothing of them remains in the store."""
        data, block = self._encoded(cells)
        self._space.reserve(self._written, block.position)
        self._settled = False
        self._write_last(data, self.reader.size)
        self._index.add_block(block, [block.entries])
        self._held, self._held_bytes = [], 0
        self._written, self.next_offset = block.position, self._published + block.records
        self._publish()

    def append_encoded(self, data: Buffer, entries: memoryview, block: Block) -> None:
        """Append records encoded for this segment, of these entries and figures; after an error nothing of them
        remains.
        """
        self._space.reserve(self._written, block.position)
        self._settled = False
        self._write_last(data, self._written)
        self._index.add_block(block, [entries])
        self._written, self.next_offset = block.position, block.next_offset
        self._publish()

    def _encoded(self, cells: list[Any]) -> tuple[bytes | memoryview, Block]:
        return encode_rows(cells, self._place(), self.tally.marks)

    def _place(self) -> Place:
        """Return where the next bytes are written, after the published records: first those of what is buffered."""
        return Place(self._published - self.entry.base_offset, self.reader.size, self.entry.salt)

    def _publish(self) -> None:
        """Make what was written visible to readers."""
        self.reader.size = self._written
        self.reader.next_offset = self.next_offset
        self.reader.counted = self.tally.records
        self._published = self.next_offset
        if self._buffer_bytes:
            self._hold_most = self._may_hold()
        self._settled = True
        if self._written >= self._index.due:
            self._index.write(self._written)

    def _roll_back(self) -> None:
        """Cut what a failed write left; if that fails, nothing more can be acknowledged."""
        if getattr(self._files.store, "suspended", False):  # it could not be opened again, so nothing was written
            self._settled = True
            return
        self._space.end = 0
        try:
            self._files.store.truncate(self.reader.size)
            self.datasync()
        except (StorageError, LogPoisoned) as error:
            raise LogPoisoned(
                error.errno,
                "a write failed and could not be rolled back; open the log again",
                self._files.store.path,
            ) from error
        self._settled = True

    def _write_last(self, data: Buffer, position: int) -> None:
        """Write the bytes that make a change visible."""
        try:
            self._files.store.pwrite(data, position)
        except Exception:
            self._roll_back()
            raise

    def write_buffer(self) -> None:
        """Write buffered records; after an error they remain buffered."""
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
        """Append one record whose value comes in chunks: first the value, hashed on the way, then its head.

        record_limit: maximum size of the record; value_limit: maximum size of the value, from the caller.
        """
        self.write_buffer()
        packed = encode_headers(headers)
        head_len = record_length(key, packed, None)
        limit = record_limit - head_len if value_limit is None else min(record_limit - head_len, value_limit)
        self._settled = False
        try:
            value_len, value_hash = write_value(self._files.store, chunks, self._written + head_len, limit)
            relative = self.next_offset - self.entry.base_offset
            head, checksum = seal_head(relative, timestamp, key, packed, value_len, value_hash, self.entry.salt)
        except BaseException:
            self._roll_back()
            raise
        self._write_last(head, self._written)
        self._index.add(relative, timestamp, checksum, head_len + value_len, self._written, tombstone=False)
        self._written += head_len + value_len
        self.next_offset += 1
        self._publish()

    # --- a batch ------------------------------------------------------------------------------------------------

    def append_batch(self, batch: Encoder, start: int, stop: int) -> None:
        """Append rows start..stop of a batch. Readers see all of them or none: the first head is written last."""
        self.write_buffer()
        position, first_head = self._written, b""
        self._settled = False
        try:
            encoded = encoding(batch, start, stop, self._place(), self.tally.marks)
            for data in encoded:
                if not first_head:
                    first_head = bytes(data[:HEAD_BYTES])
                    data[:HEAD_BYTES] = bytes(HEAD_BYTES)
                self._files.store.pwrite(data, position)
                position += len(data)
            block = encoded.block()
        except BaseException:
            self._roll_back()
            raise
        self._write_last(first_head, self._written)
        self._index.add_block(block, encoded.entries)
        self._written = position
        self.next_offset += stop - start
        self._publish()

    # --- lookups and durability ---------------------------------------------------------------------------------

    def datasync(self) -> None:
        """Return once every written record is on the disk; see ActiveFiles.sync_store. Any thread may call it."""
        self._files.sync_store()

    @property
    def suspendable(self) -> bool:
        """Whether the files have descriptors that can be closed for a while."""
        return self._files.suspendable

    def suspend(self, reopened: Callable[[], None]) -> bool:
        """Sync the store and close both files until they are needed, unless a change is in progress."""
        return self.settled and self._files.suspend(reopened)

    def reopen(self) -> None:
        """Open the files again that `suspend` closed."""
        self._files.reopen()

    def mark_durable(self, next_offset: int) -> None:
        """Write to the index, without a sync, that the records before `next_offset` are on the disk."""
        self._index.mark_durable(next_offset)

    def rescue(self) -> None:
        """Write and sync what was appended before an interrupt; the next opening finds it by scanning.

        Does nothing after a failed sync: a later one would not report what was lost.
        """
        if self._files.failure is not None:
            return
        if self._held:
            self._files.store.pwrite(self._encoded(self._held)[0], self.reader.size)
        self.datasync()

    def leave_to_parent(self) -> None:
        """Reject every write from now on: in a forked child, which shares the files' descriptors with its parent."""
        self._files.leave_to_parent()

    def give_back(self) -> None:
        """Cut the space that is allocated and not used. After an error it stays, as after a crash."""
        self._space.give_back(self._written)

    def complete(self) -> None:
        """Write what is buffered, cut what is only allocated, and sync."""
        self.write_buffer()
        self.give_back()
        self.datasync()

    def write_marks(self) -> None:
        """Write the sparse lookups of a sealed segment; after a cut, marks beyond the end are not used."""
        self._index.write_marks()

    def seal(self, sealed_at: int) -> SegmentEntry:
        """Write and sync everything, write the lookups, and return the entry of the sealed segment."""
        self.complete()
        self._index.finish(self.next_offset)
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
