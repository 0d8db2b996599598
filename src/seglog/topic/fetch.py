"""Bounded reads of a log, for pollers: up to a number of records and bytes at a time, and the next offset.

Both functions read start <= offset < stop of one consistent view, the present one of a log, or a given one; stop
defaults to its end, and is capped by it.
max_records, max_bytes (of keys, values and headers): at least 1; the first record is returned whatever its size. Raises
OffsetOutOfRange for a start that the log does not hold, also below its lowest offset: what retention deleted is never
skipped silently. Raises CorruptRecord at a damaged record, after everything before it was returned.

What a view without a lease no longer has ends an answer, and the next one is read from the log's present view. Of a
given view that raises SnapshotExpired.

Knows no topics and no consumers.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from seglog.errors import CorruptRecord, InvalidArgument, SnapshotExpired
from seglog.log.view import View, at_one_moment
from seglog.record import HEADER_COST, Record, checked_offset, value_size

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.log.log import Log
    from seglog.segment.reader import SegmentReader

LARGE = 1024 * 1024
"""Size from which a record is not read only to find that it does not fit after others."""


class FetchedRecords(NamedTuple):
    """Records in order. next_offset: where to continue, after the last one and any gap left by compaction."""

    records: list[Record]
    next_offset: int


class FetchedBatches(NamedTuple):
    """The records as Arrow record batches, none of them empty, with the columns of `Log.batches`."""

    batches: list[pa.RecordBatch]
    next_offset: int


@at_one_moment
def fetch_records(
    log: Log | View, start: int, stop: int | None = None, *, max_records: int, max_bytes: int, keep: int | None = None
) -> FetchedRecords:
    """Read records. keep: bytes to return of a long value, as a `Cut`, which counts completely; None: all."""
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
    except (CorruptRecord, SnapshotExpired):
        if not found:
            raise
        return FetchedRecords(found, found[-1].offset + 1)
    return FetchedRecords(found, stop)


@at_one_moment
def fetch_batches(
    log: Log | View,
    start: int,
    stop: int | None = None,
    *,
    max_records: int,
    max_bytes: int,
    values: Literal["view", "binary"] = "view",
) -> FetchedBatches:
    """Read Arrow batches. values: as in `Log.batches`."""
    from seglog.topic.row_sizes import rows_within  # noqa: PLC0415 - imports pyarrow and numba when first used

    view, stop = _range(log, start, stop, max_records, max_bytes)
    found: list[pa.RecordBatch] = []
    try:
        for position, end in small_ranges(view, start, stop, max_records, max_bytes):
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
    except (CorruptRecord, SnapshotExpired):
        if not found:
            raise
        return FetchedBatches(found, start)
    return FetchedBatches(found, stop)


def view_for(log: Log | View, start: int, stop: int | None = None) -> tuple[View, int]:
    """Return the view to read from and the stop within it. Raises OffsetOutOfRange."""
    view = log if isinstance(log, View) else log._view_from(checked_offset(start, "start"))
    end = view.next_offset
    return view, end if stop is None else max(min(checked_offset(stop, "stop"), end), start)


def _range(log: Log | View, start: int, stop: int | None, max_records: int, max_bytes: int) -> tuple[View, int]:
    """Return the view to read from and the stop within it. Raises what this module promises."""
    for name, limit in (("max_records", max_records), ("max_bytes", max_bytes)):
        if checked_offset(limit, name) < 1:
            raise InvalidArgument(f"{name} is {limit}; it must be at least 1")
    return view_for(log, start, stop)


def _size(record: Record) -> int:
    size = len(record.key or b"") + value_size(record.value) + HEADER_COST * len(record.headers)
    return size + sum(len(name.encode()) + len(value or b"") for name, value in record.headers)


def small_ranges(view: View, start: int, stop: int, max_records: int, max_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield a range in pieces, so that little more is decoded than the limits allow."""
    for reader in view.readers(start, stop):
        position, end = max(start, reader.base_offset), min(stop, reader.next_offset)
        step = _offsets_in(reader, max_bytes)
        if reader.rules.dense:
            step = min(step, max_records)
        while position < end:
            after = min(position + step, end)
            while after > position + 1 and reader.span_bytes(position, after) > 2 * max_bytes + LARGE:
                after -= (after - position) // 2  # records longer than the average
            yield position, after
            position = after


def _offsets_in(reader: SegmentReader, size: int) -> int:
    """Return about how many offsets of a segment take `size` bytes of its store, plus half."""
    average = reader.size / max(reader.next_offset - reader.base_offset, 1)
    return max(int(1.5 * size / max(average, 1.0)), 1)
