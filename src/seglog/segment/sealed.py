"""Open a sealed segment: check its store against the manifest, read its lookups or rebuild them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import cache

from seglog.errors import CorruptLog, StorageError
from seglog.format import filename
from seglog.format.codec import NATIVE, Rules
from seglog.format.index import (
    DENSE_HEADER_BYTES,
    ENTRY_BYTES,
    Mark,
    MarkBuilder,
    decode_durable_records,
    decode_offsets,
    decode_times,
    encode_dense_header,
    encode_offsets,
    encode_times,
    entry_position,
    unpack_marks,
)
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES
from seglog.segment.blocks import BlockFile, header_of, plain_store
from seglog.segment.lookup import DenseLookup, Lookup, SparseLookup
from seglog.segment.reader import SegmentReader
from seglog.segment.resync import find_next
from seglog.segment.stats import survey
from seglog.storage import File, Storage


def rules_of(entry: SegmentEntry) -> Rules:
    """Return what a record of this segment must satisfy."""
    return Rules(entry.base_offset, entry.salt, entry.dense, NATIVE)


def open_store(storage: Storage, entry: SegmentEntry, *, writable: bool = False) -> File:
    """Open a store as a file of plain bytes. Raises CorruptLog if it is missing or another file has its name.

    A damaged header is accepted: the manifest's salt replaces it (`verify` reports the damage).
    """
    try:
        store = storage.open(entry.name(), writable=writable)
    except StorageError as error:
        if storage.identity(entry.name()) is not None:
            raise
        raise CorruptLog(
            f"{storage.path}/{entry.name()}: the store of offsets {entry.base_offset} up to "
            f"{entry.next_offset or 'the end'} is missing; run `seglog repair` to go on without it"
        ) from error
    header = header_of(store)
    if header is not None and header.salt != entry.salt:
        raise CorruptLog(
            f"{store.path}: this is not the file that the manifest names (its salt differs); restore that file, or run "
            "`seglog repair` to go on without it"
        )
    if not writable:
        return plain_store(storage, entry, store, header)
    if header is not None and header.blocks:
        raise CorruptLog(
            f"{store.path}: the manifest names a compressed store as the one to append to, which no log does; restore "
            "the log from a backup"
        )
    return store


def open_sealed(storage: Storage, entry: SegmentEntry, *, interval: int, heal: bool) -> SegmentReader:
    """Open a sealed segment for reading; missing or damaged lookups are rebuilt, and written if `heal`."""
    store = open_store(storage, entry)
    files = _SealedFiles(storage, entry, store, rules_of(entry), interval, heal=heal)
    if isinstance(store, BlockFile) and store.walked:
        files.blocks()
    return SegmentReader(
        store,
        files.dense_lookup() if entry.dense else files.sparse_lookup(),
        files.rules,
        next_offset=entry.next_offset or entry.base_offset,
        size=files.end,
        marks=cache(files.times),
        mend=files.new_dense_lookup if entry.dense else None,
    )


def write_lookups(storage: Storage, entry: SegmentEntry, *, interval: int) -> None:
    """Rebuild every lookup file of a sealed segment from its store."""
    for kind in filename.LOOKUPS:
        storage.unlink(entry.name(kind))
    files = _SealedFiles(storage, entry, open_store(storage, entry), rules_of(entry), interval, heal=True)
    if entry.dense:
        files.new_dense_lookup()
    else:
        files.sparse_lookup()
    files.times()
    files.blocks()


class _SealedFiles:
    """The lookups of one sealed segment: read if valid, else rebuilt from the store."""

    def __init__(
        self, storage: Storage, entry: SegmentEntry, store: File, rules: Rules, interval: int, *, heal: bool
    ) -> None:
        self.storage = storage
        self.entry = entry
        self.store = store
        self.rules = rules
        self.interval = interval
        self.heal = heal
        self.end = entry.bytes or HEADER_BYTES

    @property
    def slots(self) -> int:
        """Number of offsets that a dense index covers, including damaged ones."""
        return (self.entry.next_offset or self.entry.base_offset) - self.entry.base_offset

    def dense_lookup(self) -> Lookup:
        """Return the index file's entries if it is complete, else rebuilt ones."""
        entry, records = self.entry, self.slots
        try:
            index = self.storage.open(entry.name(filename.INDEX))
            durable = decode_durable_records(index.pread(DENSE_HEADER_BYTES, 0), entry.base_offset, entry.salt)
            if durable is not None and index.size() >= entry_position(records):
                return DenseLookup(index, records, hold=True)
        except StorageError:
            pass  # derived: rebuilt below
        return self.new_dense_lookup()

    def new_dense_lookup(self) -> Lookup:
        """Return entries rebuilt from the store."""
        entries = dense_entries(self.store, self.rules, end=self.end, next_offset=self.entry.next_offset or 0)
        header = encode_dense_header(self.entry.base_offset, self.slots, self.entry.salt)
        self._write(filename.INDEX, header + entries)
        return DenseLookup(None, 0, entries)

    def sparse_lookup(self) -> Lookup:
        """Return the pairs of the .offsets file if it is complete, else rebuilt from the store."""
        pairs = decode_offsets(read_whole(self.storage, self.entry.name(filename.OFFSETS)), self.entry.salt)
        if pairs is None:
            marks = survey_marks(self.store, self.rules, self.end, self.interval)
            self._write(filename.OFFSETS, encode_offsets(bytes(marks.marks), marks.interval, self.entry.salt))
            pairs = [(mark.relative, mark.position) for mark in unpack_marks(marks.marks)]
        return SparseLookup(pairs)

    def times(self) -> Sequence[Mark]:
        """Return the marks of the .times file if it is complete, else rebuilt from the store."""
        marks = decode_times(read_whole(self.storage, self.entry.name(filename.TIMES)), self.entry.salt)
        if marks is None:
            made = survey_marks(self.store, self.rules, self.end, self.interval)
            self._write(filename.TIMES, encode_times(bytes(made.marks), made.interval, self.entry.salt))
            marks = unpack_marks(made.marks)
        return marks

    def blocks(self) -> None:
        """Write the `.blocks` file of a compressed store."""
        table = self.store.table() if isinstance(self.store, BlockFile) else None
        if table is not None:
            self._write(filename.BLOCKS, table)

    def _write(self, kind: str, data: bytes) -> None:
        if self.heal:
            write_derived(self.storage, self.entry.name(kind), data)


def dense_entries(store: File, rules: Rules, *, end: int, next_offset: int, is_written: bool = False) -> bytes:
    """Return the packed dense entries of a store; all zero for damaged records. is_written: see `survey`."""
    entries, marks = bytearray(), MarkBuilder(2**31)
    position, expected = rules.codec.header_bytes, rules.base_offset
    while expected < next_offset:
        for block in survey(
            store, rules, position=position, end=end, expected=expected, marks=marks, is_written=is_written
        ):
            entries += block.entries
        if block.next_offset >= next_offset:
            break
        found = find_next(store, rules, position=block.position, end=end, least=block.next_offset + 1)
        position, expected = (found.position, min(found.offset, next_offset)) if found else (end, next_offset)
        entries += bytes(ENTRY_BYTES * (expected - block.next_offset))
    return bytes(entries[: ENTRY_BYTES * (next_offset - rules.base_offset)])


def survey_marks(store: File, rules: Rules, end: int, interval: int) -> MarkBuilder:
    """Return the marks of a store, up to the first damage."""
    marks = MarkBuilder(interval)
    start = rules.codec.header_bytes
    for block in survey(store, rules, position=start, end=end, expected=rules.base_offset, marks=marks):
        marks.extend(block.marks, block.marks_state)
    return marks


def read_whole(storage: Storage, name: str, most: int | None = None) -> bytes:
    """Return a lookup file's bytes (the first `most`); empty if there is none or it cannot be read."""
    try:
        file = storage.open(name)
        return file.pread(file.size() if most is None else most, 0)
    except StorageError:
        return b""


def write_derived(storage: Storage, name: str, data: bytes) -> None:
    """Replace a lookup file atomically for readers; not synced, because it can be rebuilt."""
    try:
        file = storage.create(f"{filename.TMP}/{name}", replace=True)
        file.pwrite(data, 0)
        storage.rename(f"{filename.TMP}/{name}", name)
    except StorageError:  # a read must not fail because there is no space for a lookup
        with suppress(StorageError):
            storage.unlink(f"{filename.TMP}/{name}")
