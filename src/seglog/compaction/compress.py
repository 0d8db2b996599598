"""Write a sealed segment again with a compressed store, or a plain one. Reads the log's files, changes none.

The result has the same records at the same positions, and the same salt. It is read back, and counts only if it holds
the records that the manifest's entry describes: so damage of the source, and an error of a codec, are never installed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from itertools import islice

from seglog.compaction.rate_limit import Pace
from seglog.errors import CorruptRecord
from seglog.format import filename
from seglog.format.blocks import SIZE_LOG, Codec, encode_block, plain_limit, plain_start, read_head
from seglog.format.index import (
    BlockPlace,
    encode_blocks,
    encode_dense_header,
    encode_offsets,
    encode_times,
    entry_position,
)
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.parallel.calls import THREADS, Ahead
from seglog.segment.blocks import BlockFile
from seglog.segment.sealed import rules_of
from seglog.segment.stats import Tally, survey
from seglog.storage import File, Storage

STRETCH_BYTES = 16 << SIZE_LOG  # that one call compresses
SYNC_BYTES = 8 * 1024 * 1024  # a store is synced while it grows, so that the sync at its end is short
SAVED_LEAST = 8  # a segment that does not become an eighth smaller stays plain


class Rewrite:
    """One segment that is written again into an empty directory, which the caller removes after an error.

    source: its store, as a file of plain bytes; codec: "lz4", "zstd", or None for a plain store; interval: of the
    indexes in bytes; log_id: of the log; pace: counts the bytes.
    """

    def __init__(
        self,
        source: File,
        entry: SegmentEntry,
        output: Storage,
        *,
        codec: Codec | None,
        interval: int,
        log_id: int,
        pace: Pace,
    ) -> None:
        self._source = source
        self._entry = entry
        self._output = output
        self._codec = codec
        self._interval = interval
        self._log_id = log_id
        self._pace = pace
        self._end = entry.bytes or HEADER_BYTES
        self._places: list[BlockPlace] = []

    def run(self) -> SegmentEntry | None:
        """Write the segment and return its entry; None if the compressed store is not an eighth smaller.

        Everything but the names is on the disk then, except for the lookups, which are derived.

        Raises:
            CorruptRecord: If the source is damaged.
            CompactionAborted: If the pace ends the pass.
            MissingExtra: If this build of pyarrow lacks the codec.
            StorageError: If reading or writing fails.
        """
        entry, name = self._entry, self._entry.name()
        store = self._output.create(name)
        size = self._write_all(store)
        if self._codec is not None and size > self._end - self._end // SAVED_LEAST:
            self._output.unlink(name)
            return None
        span = (entry.next_offset or 0) - entry.base_offset
        header = StoreHeader(entry.salt, self._log_id, entry.created, span, blocks=self._codec is not None)
        store.pwrite(header.encode(), 0)
        store.datasync()
        if self._codec is None:
            self._check(store)
            return replace(entry, codec=None, stored=None)
        table = encode_blocks(self._places, 1 << SIZE_LOG, entry.salt)
        self._output.create(entry.name(filename.BLOCKS)).pwrite(table, 0)
        self._check(BlockFile(store, entry.salt, table))
        return replace(entry, codec=self._codec, stored=size)

    # --- writing ------------------------------------------------------------------------------------------------

    def _write_all(self, store: File) -> int:
        """Write everything after the file header; return the size of the store."""
        ahead, position, synced = Ahead(), HEADER_BYTES, 0
        stretches = [(start, min(start + STRETCH_BYTES, self._end)) for start in range(0, self._end, STRETCH_BYTES)]
        encoder = _Encoder(self._source, self._codec, self._entry.salt, self._end)
        calls = iter([partial(encoder.encoded, *stretch) for stretch in stretches])
        try:
            for call in islice(calls, THREADS + 2):
                ahead.launch(call)
            for start, stop in stretches:
                pieces: list[bytes] = ahead.take()
                for call in islice(calls, 1):
                    ahead.launch(call)
                self._pace.step(stop - start)
                for piece in pieces:
                    self._note(piece, position)
                    store.pwrite(piece, position)
                    position += len(piece)
                    self._pace.move(len(piece))
                if position - synced >= SYNC_BYTES:
                    store.datasync()
                    synced = position
        finally:
            ahead.finish()
        return position

    def _note(self, piece: bytes, position: int) -> None:
        """Add a block to the table."""
        head = None if self._codec is None else read_head(piece)
        if head is not None:
            self._places.append(BlockPlace(head.check, head.stored_len, position))

    # --- reading back -------------------------------------------------------------------------------------------

    def _check(self, result: File) -> None:
        """Read every record of the result, write the lookups. Raises CorruptRecord unless they are the entry's."""
        entry, tally = self._entry, Tally(self._interval)
        index = self._output.create(entry.name(filename.INDEX)) if entry.dense else None
        position, expected, reason = HEADER_BYTES, entry.base_offset, None
        for block in survey(
            result, rules_of(entry), position=position, end=self._end, expected=expected, marks=tally.marks
        ):
            if index is not None:
                index.pwrite(block.entries, entry_position(tally.records))
            tally.digest.update(block.entries)
            tally.absorb(block)
            self._pace.step(block.position - position)
            position, expected, reason = block.position, block.next_offset, block.reason
        if reason is not None or position != self._end:
            raise CorruptRecord(self._source.path, expected, position, reason or "the store ends before it")
        if tally.records != entry.records or entry.digest not in (None, tally.digest.intdigest()):
            raise CorruptRecord(self._source.path, None, HEADER_BYTES, "its records are not those of the manifest")
        self._write_lookups(tally, index)

    def _write_lookups(self, tally: Tally, index: File | None) -> None:
        entry, marks = self._entry, bytes(tally.marks.marks)
        if index is None:
            offsets = encode_offsets(marks, self._interval, entry.salt)
            self._output.create(entry.name(filename.OFFSETS)).pwrite(offsets, 0)
        else:
            index.pwrite(encode_dense_header(entry.base_offset, tally.records, entry.salt), 0)
        times = encode_times(marks, self._interval, entry.salt)
        self._output.create(entry.name(filename.TIMES)).pwrite(times, 0)


class _Encoder:
    """Encodes stretches of a store, on threads. It refers to nothing of the log: a thread may keep it for a moment."""

    def __init__(self, source: File, codec: Codec | None, salt: int, end: int) -> None:
        self._source = source
        self._codec = codec
        self._salt = salt
        self._end = end

    def encoded(self, start: int, stop: int) -> list[bytes]:
        """Return what becomes of the positions start..stop of the source: blocks, or its bytes."""
        start = max(start, HEADER_BYTES)
        plain = self._source.pread(stop - start, start)
        if len(plain) < stop - start:
            raise CorruptRecord(self._source.path, None, start + len(plain), "the store ends before it")
        return [plain] if self._codec is None else list(self._blocks(self._codec, plain, start))

    def _blocks(self, codec: Codec, plain: bytes, start: int) -> Iterator[bytes]:
        begin, number = start, start >> SIZE_LOG
        while begin < start + len(plain):
            end = min(plain_start(number, SIZE_LOG) + plain_limit(number, SIZE_LOG), self._end)
            part = plain[begin - start : end - start]
            yield encode_block(part, number, last=end == self._end, codec=codec, salt=self._salt, size_log=SIZE_LOG)
            begin, number = end, number + 1
