"""Find the position of an offset in a store. Dense lookups know every record, sparse ones a record every few KiB.

A lookup is derived from its store and may be wrong: callers verify the record at the position that it returns.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import count
from typing import Any, Protocol

from seglog.format.index import DENSE_ENTRY, ENTRY_BYTES, entry_position
from seglog.storage import File

Place = tuple[int, int, int]
"""A record's checksum, its length in bytes and its position."""


class Lookup(Protocol):
    """Finds records of one segment by offsets relative to its base."""

    def exact(self, relative: int) -> Place | None:
        """Return the place of exactly this record; None if this lookup does not know it."""
        ...

    def held(self, relative: int) -> bytes:
        """Return the block of packed entries that includes this record's, as far as it is in memory."""
        ...

    def floor(self, relative: int) -> tuple[int, int] | None:
        """Return (relative offset, position) of the nearest known record at or before `relative`; None if there is
        none.
        """
        ...

    def after(self, relative: int, position: int) -> tuple[int, int] | None:
        """Return (relative offset, position) of the nearest known record after both, to resume there; None if none.

        The result may be a record of a later offset at `position` itself.
        """
        ...


BLOCK_ENTRIES = 256  # a relative offset is a block number and 8 bits within the block
BLOCKS_HELD = 8192  # of 4 KiB each: 32 MiB per process
BYTES_DATA = bytes.__basicsize__ - 1  # where a bytes object's data begins; basicsize includes its final zero
TABLES_HELD = 64  # of up to 1 MiB each


class _HeldBlocks:
    """Blocks read from index files, of all lookups in this process; when the limit is reached, all are dropped."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytes] = {}
        self._tables: dict[int, Any] = {}  # BlockTables, which need numpy
        self._places = count()
        self.get = self._blocks.get

    def place(self) -> int:
        """Return the first block number of another lookup."""
        return next(self._places) << 32

    def hold(self, number: int, block: bytes) -> None:
        """Keep a block."""
        if len(self._blocks) >= BLOCKS_HELD:
            self._blocks.clear()
            self._tables.clear()
        self._blocks[number] = block

    def table(self, place: int) -> Any:
        """Return the table of a lookup's blocks, for kernels; None if there is none, or it was dropped."""
        return self._tables.get(place)

    def hold_table(self, place: int, table: Any) -> None:
        """Keep the table of a lookup."""
        if len(self._tables) >= TABLES_HELD:
            self._tables.clear()
        self._tables[place] = table


_HELD = _HeldBlocks()
_held = _HELD.get


class DenseLookup:
    """One 16-byte entry per record: the first `flushed` in the index file, the rest in memory. O(1).

    hold: whether entries read from the file may be kept in memory.
    """

    __slots__ = ("_held", "_index", "_tail")

    def __init__(
        self, index: File | None, flushed: int, pending: bytes | bytearray = b"", *, hold: bool = False
    ) -> None:
        self._index = index
        self._tail = (flushed, bytearray(pending))
        self._held = _HELD.place() if hold else None

    @property
    def flushed(self) -> int:
        """Number of entries in the index file."""
        return self._tail[0]

    @property
    def pending(self) -> bytearray:
        """The entries after them; a thread that appends records appends entries here."""
        return self._tail[1]

    def __len__(self) -> int:
        first, pending = self._tail
        return first + len(pending) // ENTRY_BYTES

    def move_pending(self, index: File | None = None) -> None:
        """Note that the pending entries are in the index file now. One assignment: readers see the old or new state."""
        self._index = index or self._index
        self._tail = (len(self), bytearray())

    def add_flushed(self, records: int, index: File) -> None:
        """Note that `records` more entries were written to the index file; none may be pending."""
        self._index = index
        self._tail = (self._tail[0] + records, bytearray())

    def exact(self, relative: int) -> Place | None:
        """Return the entry of a record."""
        first, pending = self._tail
        if relative >= first:
            start = (relative - first) * ENTRY_BYTES
            if start + ENTRY_BYTES > len(pending):
                return None
            return DENSE_ENTRY.unpack_from(pending, start)
        if relative < 0 or self._index is None:
            return None
        if self._held is None:
            data, start = self._index.pread(ENTRY_BYTES, entry_position(relative)), 0
        else:
            data, start = _held(self._held + (relative >> 8), b""), (relative & 255) << 4
            if len(data) < start + ENTRY_BYTES:
                data = self._read_block(relative >> 8)
        return DENSE_ENTRY.unpack_from(data, start) if len(data) >= start + ENTRY_BYTES else None

    def held(self, relative: int) -> bytes:
        """Return a block that was read from the index file; empty if it was not read, or is not kept."""
        return b"" if self._held is None else _held(self._held + relative // BLOCK_ENTRIES, b"")

    @property
    def table(self) -> Any:
        """The BlockTable of the blocks in memory, for kernels; None if there is none."""
        return None if self._held is None else _HELD.table(self._held)

    def hold_table(self, table: Any) -> None:
        """Keep a table of blocks, unless this lookup may not."""
        if self._held is not None:
            _HELD.hold_table(self._held, table)

    def block(self, number: int, entries: int) -> bytes:
        """Return a block with at least this number of entries, read if necessary; shorter if the file has fewer."""
        block = self.held(number * BLOCK_ENTRIES)
        if len(block) >= entries * ENTRY_BYTES or self._held is None or self._index is None:
            return block
        return self._read_block(number)

    def _read_block(self, number: int) -> bytes:
        """Read and keep a block of entries, as far as they are flushed (the last block grows)."""
        first = number * BLOCK_ENTRIES
        block = self.entries(first, min(first + BLOCK_ENTRIES, self.flushed))
        _HELD.hold((self._held or 0) + number, block)
        return block

    def floor(self, relative: int) -> tuple[int, int] | None:
        """Return the record itself."""
        place = self.exact(relative)
        return None if place is None else (relative, place[2])

    def after(self, relative: int, position: int) -> tuple[int, int] | None:
        """Return the next record whose entry does not point back; a damaged entry may point before it."""
        for following in range(relative + 1, len(self)):
            place = self.exact(following)
            if place is not None and place[2] >= position and place[1]:
                return following, place[2]
        return None

    def entries(self, start: int, stop: int) -> bytes:
        """Return the packed entries start..stop."""
        first, pending = self._tail
        flushed = b""
        if start < first and self._index is not None:
            flushed = self._index.pread((min(stop, first) - start) * ENTRY_BYTES, entry_position(start))
        return flushed + bytes(pending[max(start - first, 0) * ENTRY_BYTES : max(stop - first, 0) * ENTRY_BYTES])


class SparseLookup:
    """A record every few KiB, in memory, sorted: O(log n) to the nearest one before."""

    __slots__ = ("_positions", "_relatives")

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self._relatives = [relative for relative, _ in pairs]
        self._positions = [position for _, position in pairs]

    def extend(self, pairs: list[tuple[int, int]]) -> None:
        """Add records after the last one."""
        for relative, position in pairs:
            self._positions.append(position)
            self._relatives.append(relative)

    def exact(self, relative: int) -> Place | None:  # noqa: ARG002 - the protocol's name
        """Return None: a sparse lookup only leads near a record."""
        return None

    def held(self, relative: int) -> bytes:  # noqa: ARG002 - the protocol's name
        """Return nothing: there are no entries of single records."""
        return b""

    def floor(self, relative: int) -> tuple[int, int] | None:
        """Return the greatest entry at or before `relative`."""
        number = bisect_right(self._relatives, relative) - 1
        return None if number < 0 else (self._relatives[number], self._positions[number])

    def after(self, relative: int, position: int) -> tuple[int, int] | None:
        """Return the next entry after both."""
        for number in range(bisect_right(self._relatives, relative), len(self._relatives)):
            if self._positions[number] > position:
                return self._relatives[number], self._positions[number]
        return None
