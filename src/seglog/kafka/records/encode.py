"""The records of a store -> Kafka's record batches, uncompressed: each is verified and written in one pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from crc32c import crc32c

from seglog.arrow.store_decoder import Ended, StoreDecoder
from seglog.errors import RecordTooLarge
from seglog.format.cuts import Cuts
from seglog.kafka.records.layout import (
    CHECKED_FROM,
    HEAD,
    HEAD_BYTES,
    LENGTH_FROM,
    LOG_APPEND_TIME,
    MAGIC,
    NO_PRODUCER,
)
from seglog.kernels.translate import FULL, STOPPED, Part, Translated, translate
from seglog.kernels.validate import Cursor
from seglog.log.view import View
from seglog.topic.idempotency.marks import HEADER

MOST_RECORDS = 65536  # of one batch
BATCH_BYTES = 2**20  # of one batch, unless a record is longer
MOST_BYTES = 2**31 - 1024  # of one record: a response's length has 31 bits
HOLDS = 4  # times its size: more memory than that is not held by a batch, which is copied then
HIDDEN = np.frombuffer(HEADER.encode(), np.uint8)  # the header in which idempotency keys are stored
Array = np.ndarray[Any, Any]


@dataclass(slots=True)
class Room:
    """What fits into a response for a partition: bytes, and batches; at least one record if it `is_empty`.

    is_full: whether what follows does not fit.
    """

    bytes: int
    batches: int
    is_empty: bool = True
    is_full: bool = False

    def take(self, size: int, following: int) -> None:
        """Count a batch of `size` bytes; the next record has at least `following`."""
        self.bytes, self.batches, self.is_empty = self.bytes - size, self.batches - 1, False
        self.is_full = self.batches == 0 or self.bytes <= HEAD_BYTES + following


@dataclass(slots=True)
class Encoded:
    """A record batch. next_offset: after its last record."""

    data: memoryview
    records: int
    next_offset: int

    def __len__(self) -> int:
        return self.records


def encode(view: View, start: int, stop: int, cuts: Cuts, room: Room, *, stamped: bool = False) -> Iterator[Encoded]:
    """Yield record batches with the records start <= offset < stop, in order, as far as there is room for them.

    Args:
        view: Of the log.
        start: The first offset.
        stop: After the last offset.
        cuts: Where epochs begin, with their numbers as clients see them. Each epoch begins a batch.
        room: Is taken.
        stamped: Whether timestamps are those of the server. Such a batch has one for all of its records, so that
            another batch begins where it changes.

    Raises:
        CorruptRecord: At a damaged record, after everything before it.
        RecordTooLarge: The first record exceeds a batch.
    """
    for batch in view.decoded(start, stop, partial(_StoreEncoder, cuts=cuts, room=room, stamped=stamped)):
        if batch.records:
            yield batch
        if room.is_full:
            return


class _StoreEncoder(StoreDecoder[Encoded]):
    """Iterate over the record batches of a range of a store. One without records is the last: the next does not fit."""

    def __init__(self, buffer: Any, *, cuts: Cuts, room: Room, stamped: bool, **span: Any) -> None:
        super().__init__(buffer, **span)
        self._cuts, self._room, self._stamped = cuts, room, stamped
        begins = [offset - self._base_offset for _, offset in reversed(cuts.entries)]
        self._stops = [self._stop, *(one for one in begins if self.next_relative < one < self._stop)]

    def _decode(self, cursor: Cursor) -> tuple[Encoded | None, Ended]:
        stop, room = self._stops[-1], self._room
        left = room.bytes - HEAD_BYTES
        size = max(min(left, BATCH_BYTES, 2 * (cursor.end - cursor.position)), 0)
        part = Part(stop, MOST_RECORDS, self._stamped, room.is_empty or size < left)
        out, found = self._translate(cursor, part, size)
        if found.needed and not found.rows and (room.is_empty or found.needed <= left):
            if found.needed > MOST_BYTES:
                raise RecordTooLarge(found.needed, MOST_BYTES)
            out, found = self._translate(cursor, part, found.needed)
        if found.ending == STOPPED and len(self._stops) > 1:
            self._stops.pop()
        ended = Ended(found.position, found.expected, found.reason, found.ending == STOPPED and stop == self._stop)
        if found.rows:
            return self._batch(out, found), ended
        room.is_full = found.ending == FULL
        return Encoded(memoryview(b""), 0, 0) if room.is_full else None, ended

    def _translate(self, cursor: Cursor, part: Part, size: int) -> tuple[Array, Translated]:
        """Write the records of a batch into new memory of Arrow's pool, which reuses pages that were touched before."""
        out = np.frombuffer(pa.allocate_buffer(HEAD_BYTES + size), np.uint8)
        return out, Translated(*translate(self._source, cursor, part, HIDDEN, out[HEAD_BYTES:]))

    def _batch(self, out: Array, found: Translated) -> Encoded:
        """Complete a batch with its head."""
        first, last = self._base_offset + found.first, self._base_offset + found.last
        attributes, epoch = LOG_APPEND_TIME if self._stamped else 0, self._cuts.epoch_at(first + 1)
        data = memoryview(out)[: HEAD_BYTES + found.size]  # type: ignore[arg-type] # numpy's arrays have buffers
        times = found.first_ms, found.most_ms
        head = [first, len(data) - LENGTH_FROM, epoch, MAGIC, 0, attributes, last - first, *times]
        head += [NO_PRODUCER, NO_PRODUCER, NO_PRODUCER, found.rows]
        HEAD.pack_into(data, 0, *head)
        head[4] = crc32c(data[CHECKED_FROM:])
        HEAD.pack_into(data, 0, *head)
        self._room.take(len(data), found.needed)
        if len(data) < out.size // HOLDS:
            data = memoryview(bytes(data))
        return Encoded(data, found.rows, last + 1)
