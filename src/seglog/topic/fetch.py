"""Reading a log piece by piece: at most so many records and bytes at a time, and where to go on. For whoever polls.

Both calls read start <= offset < stop of one consistent view; stop defaults to the log's end, and ends there if it lies
behind. max_records, max_bytes (of keys, values and headers): at least 1; the first record comes whatever its size.
OffsetOutOfRange for a start that the log does not hold, below as well: what retention took is never passed over in
silence. CorruptRecord at a damaged record, once everything before it was given out.

Knows no topics and no consumers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, NamedTuple

from seglog.errors import CorruptRecord, InvalidArgument, OffsetOutOfRange
from seglog.record import HEADER_COST, Record, checked_offset, value_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from seglog.log.log import Log
    from seglog.log.view import View
    from seglog.segment.reader import SegmentReader

LARGE = 1024 * 1024
"""Bytes of a record that is not read only to find that it does not fit behind others."""


class FetchedRecords(NamedTuple):
    """Records in order. next_offset: where to go on, behind the last one and behind gaps that compaction left."""

    records: list[Record]
    next_offset: int


class FetchedBatches(NamedTuple):
    """The same in Arrow record batches, none of them empty, with the columns of `Log.batches`."""

    batches: list[pa.RecordBatch]
    next_offset: int


def fetch_records(
    log: Log, start: int, stop: int | None = None, *, max_records: int, max_bytes: int, keep: int | None = None
) -> FetchedRecords:
    """Read one piece as records. keep: bytes to give of a long value, as a `Cut`, which counts whole; None: all."""
    view, stop = _range(log, start, stop, max_records, max_bytes)
    found: list[Record] = []
    left = max_bytes
    try:
        for record in view.scan(start, stop, keep=keep):
            left -= _size(record)
            if found and left < 0:
                return FetchedRecords(found, record.offset)
            found.append(record)
            if len(found) == max_records:
                return FetchedRecords(found, record.offset + 1)
    except CorruptRecord:
        if not found:
            raise
        return FetchedRecords(found, found[-1].offset + 1)
    return FetchedRecords(found, stop)


def fetch_batches(
    log: Log,
    start: int,
    stop: int | None = None,
    *,
    max_records: int,
    max_bytes: int,
    values: Literal["view", "binary"] = "view",
) -> FetchedBatches:
    """Read one piece in Arrow. values: as `Log.batches`."""
    from seglog.topic.measure import rows_within  # noqa: PLC0415 - pyarrow and numba load when first used

    view, stop = _range(log, start, stop, max_records, max_bytes)
    found: list[pa.RecordBatch] = []
    try:
        for position, end in _small_ranges(view, start, stop, max_records, max_bytes):
            if found and end == position + 1 and view.span_bytes(position, end) > max(max_bytes, LARGE):
                return FetchedBatches(found, position)
            for batch in view.batches(position, end, max_records=max_records, values=values):
                rows, size = rows_within(batch.slice(0, max_records), max_bytes, least=0 if found else 1)
                if rows:
                    found.append(batch.slice(0, rows))
                    start = batch.column(0)[rows - 1].as_py() + 1
                max_records, max_bytes = max_records - rows, max_bytes - size
                if rows < batch.num_rows or max_records == 0:
                    return FetchedBatches(found, start)
    except CorruptRecord:
        if not found:
            raise
        return FetchedBatches(found, start)
    return FetchedBatches(found, stop)


def _range(log: Log, start: int, stop: int | None, max_records: int, max_bytes: int) -> tuple[View, int]:
    """Return the view to read by and the stop within it; what this module promises to refuse."""
    for name, limit in (("max_records", max_records), ("max_bytes", max_bytes)):
        if checked_offset(limit, name) < 1:
            raise InvalidArgument(f"{name} is {limit}; it must be at least 1")
    view, start = log.view(), checked_offset(start, "start")
    end = view.next_offset
    if not view.lowest_offset <= start <= end:
        raise OffsetOutOfRange(start, view.lowest_offset, end)
    return view, end if stop is None else max(min(checked_offset(stop, "stop"), end), start)


def _size(record: Record) -> int:
    size = len(record.key or b"") + value_size(record.value) + HEADER_COST * len(record.headers)
    return size + sum(len(name.encode()) + len(value or b"") for name, value in record.headers)


def _small_ranges(view: View, start: int, stop: int, max_records: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield a range piece by piece, so that not much more is decoded than the limits let through."""
    for reader in view.readers(start, stop):
        position, end = max(start, reader.base_offset), min(stop, reader.next_offset)
        step = _offsets_in(reader, max_bytes)
        if reader.rules.dense:
            step = min(step, max_records)
        while position < end:
            after = min(position + step, end)
            while after > position + 1 and reader.span_bytes(position, after) > 2 * max_bytes + LARGE:
                after -= (after - position) // 2  # longer ones than on average
            yield position, after
            position = after


def _offsets_in(reader: SegmentReader, size: int) -> int:
    """Return how many offsets of a segment take about so many bytes of its store, and a half more."""
    average = reader.size / max(reader.next_offset - reader.base_offset, 1)
    return max(int(1.5 * size / max(average, 1.0)), 1)
