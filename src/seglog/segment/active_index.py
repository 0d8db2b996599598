"""The lookups and figures of the active segment, and its index file.

All of it is derived from the store: an error while the index file is written is no error of an append. Entries of
records wait in memory until then, and after an error they remain there.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial

from seglog.errors import StorageError
from seglog.format import filename
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
from seglog.parallel.calls import Ahead
from seglog.segment.active_files import ActiveFiles
from seglog.segment.lookup import DenseLookup, SparseLookup
from seglog.segment.sealed import write_derived
from seglog.segment.stats import Block, Tally
from seglog.storage import Storage
from seglog.storage.base import Buffer

WRITE_EVERY_BYTES = 1024 * 1024  # of the store
WRITTEN_AT_ONCE = 1024  # entries; fewer wait in memory until the index is written, like those of single appends
HASHED_BESIDE = 64 * 1024  # entries; fewer are hashed before another thread has begun


class ActiveIndex:
    """Finds records of the active segment. Writing methods: one thread at a time, as in ActiveSegment.

    tally: the figures, the digest of the entries that were written, and the marks. dense: the lookup if offsets are
    consecutive, else None. due: the size of the store from which on the index is written again. settled is False while
    entries are moved to the index file: after an interrupt in between they would be hashed twice.
    """

    def __init__(
        self,
        storage: Storage,
        entry: SegmentEntry,
        files: ActiveFiles,
        tally: Tally,
        lookup: DenseLookup | SparseLookup,
        size: int,
    ) -> None:
        """size: of the store, whose records are in the lookup."""
        self.tally = tally
        self.settled = True
        self.dense = lookup if isinstance(lookup, DenseLookup) else None
        self._storage = storage
        self._entry = entry
        self._files = files
        self._sparse = lookup if isinstance(lookup, SparseLookup) else None
        self.due = size + WRITE_EVERY_BYTES

    # --- what is appended ---------------------------------------------------------------------------------------

    def add(self, relative: int, timestamp: int, checksum: int, length: int, position: int, *, tombstone: bool) -> None:
        """Add one record."""
        entry = DENSE_ENTRY.pack(checksum, length, position)
        if self.dense is not None:
            self.dense.pending.extend(entry)
        else:
            self.tally.digest.update(entry)
        if self.tally.add(timestamp, relative, position, tombstone):
            self._extend_sparse(bytes(self.tally.marks.marks[-MARK.size :]))

    def add_block(self, block: Block, entries: Sequence[Buffer]) -> None:
        """Add records by their figures and entries; many are written to the index file, without a slow copy."""
        self.tally.absorb(block)
        self._extend_sparse(block.marks)
        if self.dense is None:
            self.tally.digest = self.tally.digest_with(entries)
        elif block.records < WRITTEN_AT_ONCE or not self._wrote_entries(self.dense, entries, block.records):
            for part in entries:
                self.dense.pending.extend(part)

    def _extend_sparse(self, marks: bytes) -> None:
        if self._sparse is not None:
            self._sparse.extend([(mark.relative, mark.position) for mark in unpack_marks(marks)])

    def _wrote_entries(self, dense: DenseLookup, entries: Sequence[Buffer], records: int) -> bool:
        """Write entries to the index file and hash them in parallel; for many entries each takes as long as some
        blocks.
        """
        hashing = Ahead()
        try:
            self._flush()
            hashing.launch(partial(self.tally.digest_with, entries), here=records < HASHED_BESIDE)
            self._files.index.pwritev(entries, entry_position(dense.flushed))
            digest = hashing.take()
        except StorageError:
            return False  # derived: they remain pending
        finally:
            hashing.finish()
        self.tally.digest = digest
        dense.add_flushed(records, self._files.index)
        return True

    # --- the files ----------------------------------------------------------------------------------------------

    def write(self, size: int) -> None:
        """Write pending entries; size: of the store. After an error they remain pending until it has grown again."""
        self.due = size + WRITE_EVERY_BYTES
        with suppress(StorageError):
            self._flush()

    def _flush(self) -> None:
        dense = self.dense
        if dense is None or not dense.pending:
            return
        pending = dense.pending
        self._files.index.pwrite(pending, entry_position(dense.flushed))
        settled, self.settled = self.settled, False
        self.tally.digest.update(bytes(pending))
        dense.move_pending(self._files.index)
        self.settled = settled

    def mark_durable(self, next_offset: int) -> None:
        """Write, without a sync, pending entries and that the records before `next_offset` are on the disk."""
        with suppress(StorageError):
            self._write_count(next_offset)

    def finish(self, next_offset: int) -> None:
        """Write everything that a sealed segment needs; its records up to `next_offset` are on the disk."""
        self._write_count(next_offset)
        self.write_marks()

    def _write_count(self, next_offset: int) -> None:
        self._flush()
        base, salt = self._entry.base_offset, self._entry.salt
        self._files.index.pwrite(encode_dense_header(base, min(next_offset - base, DURABLE_MAX), salt), 0)

    def write_marks(self) -> None:
        """Write the sparse lookups of a sealed segment; after a cut, marks beyond the end are not used."""
        marks, interval, salt = bytes(self.tally.marks.marks), self.tally.marks.interval, self._entry.salt
        if self.dense is None:
            offsets = encode_offsets(marks, interval, salt)
            write_derived(self._storage, self._entry.name(filename.OFFSETS), offsets)
        write_derived(self._storage, self._entry.name(filename.TIMES), encode_times(marks, interval, salt))
