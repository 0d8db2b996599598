"""Records -> what recovery and verify need: dense entries, marks, totals, and where and why the records end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from seglog.kernels.layout import (
    ENTRY,
    HEAD_BYTES,
    MARK,
    NO_HIGH,
    NO_LOW,
    NULL,
    OK,
    REASONS,
    MarksState,
    Summary,
)
from seglog.kernels.memory import address_of, kernel, load_i64, load_u32, load_u64
from seglog.kernels.parameters import Input, Int64Rows, Uint64Rows
from seglog.kernels.validate import Cursor, check, frame, local_hashes, local_spans

CHUNK_RECORDS = 65536
CHUNK_BYTES = 16 * 1024 * 1024


@kernel
def scan(source: Input, cursor: Cursor, marks: MarksState, room: int, entries: Uint64Rows, found: Int64Rows) -> Any:
    """Validate up to `room` records from the cursor on.

    Returns (records, marks found, position, expected, reason, fields of MarksState, of Summary); fills entries
    (uint64[room, 2]) and found (int64[room, 2]). Stops early, with reason OK, before a record that passes CHUNK_BYTES.
    """
    base = address_of(source)
    position, expected, reason = cursor.position, cursor.expected, OK
    next_position, newest = marks.next_position, marks.max_timestamp
    spans, hashes = local_spans(), local_hashes()
    records, count, tombstones = 0, 0, 0
    low, high = NO_LOW, NO_HIGH
    soft_end = cursor.position + CHUNK_BYTES
    while records < room and position < cursor.end and reason == OK:
        framed, after = frame(base, position, cursor.end, soft_end, records, spans, hashes)
        for one in range(min(framed, room - records)):
            record = base + position
            reason = check(record, spans[one, 0], hashes[one], expected, cursor)[0]
            if reason != OK:
                break
            offset, timestamp, length = load_u32(record + 16), load_i64(record + 24), spans[one, 1]
            if position >= next_position:
                found[count, 0], found[count, 1] = newest, offset | (position << 32)
                next_position = (position // marks.interval + 1) * marks.interval
                count += 1
            low, high, newest = min(low, timestamp), max(high, timestamp), max(newest, timestamp)
            tombstones += load_u32(record + 12) == NULL
            entries[records, 0], entries[records, 1] = load_u64(record), np.uint64(length | (position << 32))
            records += 1
            position, expected = position + length, offset + 1
        else:
            reason = after if records < room else OK
            if framed == 0:
                break  # the next record exceeds CHUNK_BYTES, or is not valid
    state, summary = (marks.interval, next_position, newest), (tombstones, low, high)
    return records, count, position, expected, reason, state, summary


@dataclass(frozen=True, slots=True)
class StoreScan:
    """The result of a scan of a store.

    records: number of valid ones; position: where they end; next_relative: one after the last relative offset; entries:
    structured array ENTRY, marks: MARK; marks_state: to continue from; tombstones: their number; min_timestamp,
    max_timestamp: None without records; reason: None at the end of the range, else why there is no valid record.
    """

    records: int
    position: int
    next_relative: int
    entries: np.ndarray[Any, Any]
    marks: np.ndarray[Any, Any]
    marks_state: MarksState
    tombstones: int
    min_timestamp: int | None
    max_timestamp: int | None
    reason: str | None


def as_bytes(buffer: Any) -> np.ndarray[Any, Any]:
    """Return a buffer (bytes, memoryview, mmap, array) as a read-only uint8 array, without a copy."""
    array = np.frombuffer(buffer, np.uint8)
    array.flags.writeable = False  # one type for all kernels: a writable array would be compiled separately
    return array


def scan_chunks(
    buffer: Any,
    *,
    salt: int,
    relative: int,
    position: int,
    end: int,
    dense: bool,
    marks_state: MarksState,
    max_records: int | None = None,
) -> Iterator[StoreScan]:
    """Validate a store in chunks: a StoreScan for every 64 Ki records or 16 MiB, at least one.

    buffer: the store from position 0. relative: relative offset of the record at `position`, in a sparse segment the
    lowest that it may have. end: of the range, limited to the buffer. max_records: stop after that many.
    """
    source = as_bytes(buffer)
    end = min(end, source.size)
    left = max_records
    while True:
        room = CHUNK_RECORDS if left is None else min(left, CHUNK_RECORDS)
        room = min(room, max((end - position) // HEAD_BYTES, 1))  # no record is shorter than its head
        entries, found = np.empty((room, 2), np.uint64), np.empty((room, 2), np.int64)
        cursor = Cursor(position, end, relative, dense, np.uint64(salt))
        records, count, position, relative, reason, marks_state, summary = scan(
            source, cursor, marks_state, room, entries, found
        )
        marks_state, summary = MarksState(*marks_state), Summary(*summary)
        yield StoreScan(
            records,
            position,
            relative,
            entries[:records].view(ENTRY).reshape(-1),
            found[:count].view(MARK).reshape(-1),
            marks_state,
            summary.tombstones,
            summary.min_timestamp if records else None,
            summary.max_timestamp if records else None,
            REASONS[reason] or None,
        )
        left = None if left is None else left - records
        if reason != OK or position >= end or left == 0:
            return


def scan_store(
    buffer: Any,
    *,
    salt: int,
    relative: int,
    position: int,
    end: int,
    dense: bool,
    interval: int,
    marks_state: MarksState | None = None,
    max_records: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> StoreScan:
    """Validate a store and collect all its entries and marks (16 bytes per record); arguments as in scan_chunks.

    marks_state: to continue the marks from; default: the start of a segment, with `interval`. progress: called with the
    bytes scanned so far. To avoid holding all entries in memory use scan_chunks.
    """
    state = marks_state or MarksState.start(interval)
    span = {"salt": salt, "relative": relative, "position": position, "end": end, "dense": dense}
    chunks = []
    for chunk in scan_chunks(buffer, **span, marks_state=state, max_records=max_records):  # type: ignore[arg-type] # int, bool
        chunks.append(chunk)
        if progress is not None:
            progress(chunk.position - position)
    last = chunks[-1]
    lows = [chunk.min_timestamp for chunk in chunks if chunk.min_timestamp is not None]
    highs = [chunk.max_timestamp for chunk in chunks if chunk.max_timestamp is not None]
    return StoreScan(
        sum(chunk.records for chunk in chunks),
        last.position,
        last.next_relative,
        np.concatenate([chunk.entries for chunk in chunks]),
        np.concatenate([chunk.marks for chunk in chunks]),
        last.marks_state,
        sum(chunk.tombstones for chunk in chunks),
        min(lows, default=None),
        max(highs, default=None),
        last.reason,
    )
