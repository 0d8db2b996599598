"""Many records of one view in one call: by offset, or the newest of each key."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from seglog.errors import OffsetCompacted
from seglog.log.view import View
from seglog.record import Record

if TYPE_CHECKING:
    import pyarrow as pa

FEW = 8  # from this number on, one call of a kernel is faster than single reads
NEAR = 64  # offsets for each one that is wanted: in ascending order, many of these are read together
WINDOW_RECORDS = 256 * 1024  # of a segment that are searched for keys at once, from its end backwards


def records_at(view: View, offsets: Sequence[int], *, skip_compacted: bool) -> list[Record]:
    """Return the records at offsets of a view, in this order; see Log.read_many."""
    found = list(_by_kernel(view, offsets) if len(offsets) >= FEW else (_one(view, offset) for offset in offsets))
    if skip_compacted:
        return [record for record in found if record is not None]
    if not all(found):  # a record is never false; faster than to look for None
        offset = offsets[found.index(None)]
        raise OffsetCompacted(offset, view.next_record(offset))
    return found  # type: ignore[return-value] # mypy does not see that no None is among them


def _one(view: View, offset: int) -> Record | None:
    reader = view.reader_of(offset)
    if offset >= reader.next_offset:  # a gap between two segments
        return None
    try:
        return reader.read(offset)
    except OffsetCompacted:
        return None


def _by_kernel(view: View, offsets: Sequence[int]) -> Iterable[Record | None]:
    """Return the records, each segment with one call of a kernel; one by one without the means for it."""
    try:
        import numpy as np  # noqa: PLC0415 - loads when first used

        from seglog.segment.read_many import read_many  # noqa: PLC0415 - as above
    except ImportError:
        return [_one(view, offset) for offset in offsets]
    wanted = np.array(offsets, np.int64)
    lowest, highest = int(wanted.min()), int(wanted.max())
    reader = view.reader_of(lowest)
    is_near = highest - lowest < NEAR * len(offsets) and bool((wanted[1:] < wanted[:-1]).any())
    if reader is view.reader_of(highest) and highest < reader.next_offset and not is_near:
        return read_many(reader, wanted)
    order = np.argsort(wanted, kind="stable")
    found: list[Record | None] = [None] * len(offsets)
    for place, record in zip(order.tolist(), _segment_by_segment(view, wanted[order], read_many), strict=True):
        found[place] = record
    return found


def _segment_by_segment(view: View, ascending: Any, read_many: Any) -> Iterator[Record | None]:
    first = 0
    while first < len(ascending):
        reader = view.reader_of(int(ascending[first]))
        behind = first + int(ascending[first:].searchsorted(reader.next_offset))
        if behind == first:  # a gap between two segments
            yield None
            first += 1
            continue
        yield from read_many(reader, ascending[first:behind])
        first = behind


def newest_of(view: View, keys: Iterable[bytes]) -> dict[bytes, Record]:
    """Return the newest record of each key in a view; see Log.read_keys."""
    import pyarrow as pa  # noqa: PLC0415 - loads when first used

    wanted = dict.fromkeys(keys)
    left, found = list(wanted), dict[bytes, int]()
    for start, stop in _windows_backwards(view):
        if not left:
            break
        found |= _last_offsets(view, pa.array(left, pa.binary()), start, stop)
        left = [key for key in left if key not in found]
    records = records_at(view, list(found.values()), skip_compacted=False)
    by_key = dict(zip(found, records, strict=True))
    return {key: by_key[key] for key in wanted if key in by_key}


def _windows_backwards(view: View) -> Iterator[tuple[int, int]]:
    """Yield ranges of offsets that cover the view, the newest first, none of them across two segments."""
    stop, lowest = view.next_offset, view.lowest_offset
    for entry in reversed(view.manifest.segments):
        while stop > max(entry.base_offset, lowest):
            start = max(entry.base_offset, lowest, stop - WINDOW_RECORDS)
            yield start, stop
            stop = start


def _last_offsets(view: View, keys: pa.Array, start: int, stop: int) -> dict[bytes, int]:
    """Return the offset of the last record of each key in a range, of the keys that have one. Verifies all records."""
    import pyarrow as pa  # noqa: PLC0415 - loaded already
    import pyarrow.compute as pc  # noqa: PLC0415 - as above

    last: dict[bytes, int] = {}
    for batch in view.batches(start, stop):
        column = batch.column("key").cast(pa.binary())
        hits = pc.is_in(column, value_set=keys)
        if hits.true_count:
            offsets = batch.column("offset").filter(hits).to_pylist()
            last |= zip(column.filter(hits).to_pylist(), offsets, strict=True)
    return last
