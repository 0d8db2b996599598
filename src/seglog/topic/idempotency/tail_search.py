"""Find the records with idempotency keys at a log's end. Needs pyarrow and numba: callers import it late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seglog.errors import CorruptRecord, InvalidArgument
from seglog.log.log import Log
from seglog.log.view import View
from seglog.segment.reader import SegmentReader
from seglog.topic.idempotency.marks import HEADER

Mark = tuple[int, bytes | None]
"""A record's offset, and the value of its header."""


def marks_at_end(log: Log, size: int, most: int) -> Iterable[Mark]:
    """Return the marks in the last `size` bytes of a log's stores, in order; only the latest `most`.

    Skips the marks of damaged records without raising: the caller wants to append, not to read them.
    """
    view = log._own_view()
    return _marks_from(view, _start(view, size), most)


def marks_since(log: Log, start: int) -> Iterable[Mark]:
    """Return all marks from an offset on, as `marks_at_end`."""
    return _marks_from(log._own_view(), start, None)


def _marks_from(view: View, position: int, most: int | None) -> Iterable[Mark]:
    end = view.next_offset
    found: deque[Mark] = deque(maxlen=most)
    try:
        for batch in view.batches(position, end):
            found.extend(_marks(batch, most or batch.num_rows))
            position = batch.column("offset")[-1].as_py() + 1
    except (CorruptRecord, InvalidArgument):  # damaged, or too long for Arrow: the slow path handles both
        for record in view.scan(position, end, on_corrupt=lambda _: None):
            found.extend((record.offset, value) for name, value in record.headers if name == HEADER)
    return found


def _marks(batch: pa.RecordBatch, most: int) -> Iterator[Mark]:
    headers = batch.column("headers")
    pairs, offsets = headers.values, headers.offsets.to_numpy()
    if not len(pairs):
        return iter(())
    hits = np.flatnonzero(pc.equal(pairs.field("key"), HEADER).to_numpy(zero_copy_only=False))[-most:]
    rows = np.searchsorted(offsets, hits, side="right") - 1
    values = pairs.field("value").take(pa.array(hits)).to_pylist()
    return zip(batch.column("offset").to_numpy()[rows].tolist(), values, strict=True)


def _start(view: View, size: int) -> int:
    """Return the offset after which the stores hold about `size` bytes."""
    for entry in reversed(view.manifest.segments):
        reader = view.active if entry.bytes is None else view.cache.get(entry)
        if reader.size > size:
            return max(_offset_at(reader, reader.size - size), view.lowest_offset)
        size -= reader.size
    return view.lowest_offset


def _offset_at(reader: SegmentReader, position: int) -> int:
    """Return the first offset whose record is at or after `position`."""
    low, high = reader.base_offset, reader.next_offset
    while low < high:
        middle = (low + high) // 2
        if reader.seek(middle)[0] < position:
            low = middle + 1
        else:
            high = middle
    return low
