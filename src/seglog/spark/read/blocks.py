"""The records of one segment as Arrow batches, read with pread, one block per batch.

No memory map: if a shared file system fails, that must be an error of one task, not a crash of its process. A block is
about as long as a batch, so that it stays in the processor's cache. Every record is verified; a damaged one raises in
its place. Knows no Spark.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from seglog.arrow.convert import decode_batches
from seglog.arrow.from_store import BatchDecoder
from seglog.errors import CorruptRecord, SnapshotExpired
from seglog.format.codec import HEAD_BYTES, InvalidRecord
from seglog.segment.reader import SegmentReader
from seglog.spark.read.batches import BATCH_BYTES, BATCH_ROWS

LEAST_BYTES = 64 * 1024


class Blocks:
    """Iterates over the batches of start <= offset < stop; keys and values are views into the blocks.

    next_offset: after the last returned record; bytes_read: of the store, so far.
    """

    def __init__(self, reader: SegmentReader, start: int, stop: int) -> None:
        self._reader = reader
        self._start = start
        self._stop = min(stop, reader.next_offset)
        self._position, self.next_offset = reader.seek(max(start, reader.base_offset))
        self._end = self._reach()
        self._length = self._batch_bytes(self._end - self._position, self._stop - self.next_offset)
        self._asked = 0
        self.bytes_read = 0

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches. Raises CorruptRecord in place of an invalid record."""
        reader = self._reader
        while self.next_offset < self._stop and self._position < reader.size:
            data = self._read()
            decoder = self._decoder(data)
            batch = next(decoder, None)
            if decoder.position == 0:
                if decoder.reason is None and data:
                    return  # with gaps in the offsets: a record after `stop`
                self._ask_for_more(data, decoder.reason)
                continue
            self._position += decoder.position
            self.next_offset = reader.base_offset + decoder.next_relative
            if batch is not None:
                self._length = self._batch_bytes(decoder.position, batch.num_rows)
                yield batch
        if reader.rules.dense and self.next_offset < self._stop:
            raise self._damaged(None)

    def _reach(self) -> int:
        """Return where the records before `stop` end, as far as the lookup knows."""
        reader = self._reader
        place = None if self._stop >= reader.next_offset else reader.lookup.exact(self._stop - reader.base_offset)
        return reader.size if place is None else min(place[2], reader.size)

    @staticmethod
    def _batch_bytes(length: int, records: int) -> int:
        """Return the approximate length of a full batch if `records` records take `length` bytes."""
        return min(max(length * BATCH_ROWS // max(records, 1), LEAST_BYTES), BATCH_BYTES)

    def _read(self) -> bytes:
        if self._position >= self._end:  # the records extend further than the lookup
            self._end = self._reader.size
        self._asked = min(self._length, self._end - self._position)
        try:
            data = self._reader.store.pread(self._asked, self._position)
        except SnapshotExpired as error:
            raise error.of(self.next_offset, self._stop) from error.__cause__
        self.bytes_read += len(data)
        return data

    def _decoder(self, data: bytes) -> BatchDecoder:
        rules = self._reader.rules
        return decode_batches(
            data,
            path=self._reader.store.path,
            salt=rules.salt,
            base_offset=rules.base_offset,
            relative=self.next_offset - rules.base_offset,
            position=0,
            end=len(data),
            dense=rules.dense,
            max_records=BATCH_ROWS,
            max_bytes=BATCH_BYTES,
            tail=True,
            first=max(self._start - rules.base_offset, 0),
            stop=self._stop - rules.base_offset,
        )

    def _ask_for_more(self, data: bytes, reason: str | None) -> None:
        """Read as much next time as the first record of a block needs; raise if the block was complete."""
        try:
            wanted = HEAD_BYTES if len(data) < HEAD_BYTES else self._reader.rules.codec.length_at(data, 0)
        except InvalidRecord:
            raise self._damaged(reason) from None
        ended = len(data) < self._asked or self._position + len(data) >= self._reader.size
        if wanted <= len(data) or ended:
            raise self._damaged(reason)
        self._end, self._length = self._reader.size, wanted

    def _damaged(self, reason: str | None) -> CorruptRecord:
        offset = self.next_offset if self._reader.rules.dense else None
        return CorruptRecord(self._reader.store.path, offset, self._position, reason or "the store ends before it")
