"""Read many records of one segment with one call of a kernel, in a fraction of the time of single reads.

The kernel finds their entries in the blocks of a dense lookup that this process holds; blocks that it lacks are read
first. What the kernel does not read, for whatever reason, is read one by one, which also finds out why.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from seglog.errors import OffsetCompacted
from seglog.format.codec import InvalidRecord, decode_headers
from seglog.kernels import point, unchanged
from seglog.record import Record
from seglog.segment.block_table import BlockTable
from seglog.segment.lookup import BLOCK_ENTRIES, DenseLookup
from seglog.storage.local_file import LocalFile

if TYPE_CHECKING:
    from seglog.segment.reader import SegmentReader

AT_ONCE = 512  # records that one call of the kernel reads

point.load()  # from now on single reads use these kernels, too
unchanged.load()
_made = tuple.__new__  # makes a named tuple from its fields in half the time of its class


def read_many(reader: SegmentReader, offsets: Any) -> Iterator[Record | None]:
    """Return the records of a segment at these offsets, an int64 array, in this order.

    None in place of a record that compaction removed. Other errors as `SegmentReader.read`.
    """
    found = _read_by_kernel(reader, offsets)
    if not found.pop():
        return map(_made, repeat(Record), found)
    return (_record(reader, offset, cells) for offset, cells in zip(offsets.tolist(), found, strict=True))


def _read_by_kernel(reader: SegmentReader, offsets: Any) -> list[Any]:
    """Return the fields of each record, or None, and last the number of those that need more work.

    A call holds the bytes of its records, and of gaps between them, until it has made their objects.
    """
    found: list[Any] = []
    more = 0
    for first in range(0, len(offsets), AT_ONCE):
        found += _read_some(reader, offsets[first : first + AT_ONCE])
        more += found.pop()
    return [*found, more]


def _read_some(reader: SegmentReader, offsets: Any) -> list[Any]:
    lookup, store, size = reader.lookup, reader.store, reader.size
    if not isinstance(lookup, DenseLookup) or not isinstance(store, LocalFile):
        return [*repeat(None, len(offsets)), len(offsets)]
    table: BlockTable | None = lookup.table
    if table is not None:
        found = _called(reader, store, size, table, offsets)
        if not found[-1] or None not in found:
            return found
    table = _filled(lookup, table or BlockTable(), offsets - reader.base_offset)
    return _called(reader, store, size, table, offsets)


def _called(reader: SegmentReader, store: LocalFile, size: int, table: BlockTable, offsets: Any) -> list[Any]:
    salt = reader.rules.salt - (reader.rules.salt >> 63 << 64)  # the same 64 bits with a sign, as kernels take them
    found: list[Any] = point.read_points(store.descriptor, table.rows, size, reader.base_offset, salt, offsets)
    if len(found) <= len(offsets):
        raise MemoryError(f"no memory for {len(offsets)} records")
    return found


def _filled(lookup: DenseLookup, table: BlockTable, relatives: Any) -> BlockTable:
    """Return a table with the blocks of these records, as far as the index file has them."""
    relatives = relatives[(relatives >= 0) & (relatives < lookup.flushed)]
    last = np.unique(relatives)  # sorted; the last one of each block decides how long the block must be
    last = last[np.append(np.diff(last // BLOCK_ENTRIES) != 0, [True])[: len(last)]]
    missing = {}
    for number, entries in zip((last // BLOCK_ENTRIES).tolist(), (last % BLOCK_ENTRIES + 1).tolist(), strict=True):
        if table.entries(number) < entries:
            missing[number] = lookup.block(number, entries)
    table = table.extended(missing) if missing else table
    lookup.hold_table(table)
    return table


def _record(reader: SegmentReader, offset: int, cells: Any) -> Record | None:
    if cells is not None:
        try:
            headers = decode_headers(cells[4], 0, len(cells[4])) if cells[4] else ()
            return _made(Record, (*cells[:4], headers))
        except InvalidRecord:
            pass  # below, the reader finds out what it is
    try:
        return reader.read(offset)
    except OffsetCompacted:
        return None
