"""Where in a store does an offset stand? Dense lookups know every record, sparse ones a record every few KiB.

A lookup is derived from its store and may be wrong: whoever uses a position it gives checks the record found there.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import count
from typing import Protocol

from seglog.format.index import DENSE_ENTRY, ENTRY_BYTES, entry_position
from seglog.storage import File

Place = tuple[int, int, int]
"""A record's checksum, its length in bytes, its position."""


class Lookup(Protocol):
    """Finds records of one segment by offsets relative to its base."""

    def exact(self, relative: int) -> Place | None:
        """Return the place of exactly this record, None where this lookup cannot tell."""
        ...

    def held(self, relative: int) -> bytes:
        """Return the block of packed entries to which this record's belongs, as far as it is held in memory."""
        ...

    def floor(self, relative: int) -> tuple[int, int] | None:
        """Return (relative offset, position) of the nearest known record at or before `relative`, if any."""
        ...

    def after(self, relative: int, position: int) -> tuple[int, int] | None:
        """Return (relative offset, position) of the nearest known record behind both, if any: where to resume.

        A record of a later offset may be given at `position` itself.
        """
        ...


BLOCK_ENTRIES = 256  # a relative offset is a number of a block, and 8 bits within it
BLOCKS_HELD = 8192  # of 4 KiB each: 32 MiB in a process


class _HeldBlocks:
    """Blocks of index files that were read, of all lookups in this process; when there is no room, all go."""

    def __init__(self) -> None:
        self._blocks: dict[int, bytes] = {}
        self._places = count()
        self.get = self._blocks.get

    def place(self) -> int:
        """Return where the blocks of another lookup begin."""
        return next(self._places) << 32

    def hold(self, number: int, block: bytes) -> None:
        """Keep one."""
        if len(self._blocks) >= BLOCKS_HELD:
            self._blocks.clear()
        self._blocks[number] = block


_HELD = _HeldBlocks()
_held = _HELD.get


class DenseLookup:
    """One 16-byte entry a record: the first `flushed` in the index file, the rest in memory. O(1).

    hold: whether what was read of the file may be kept, since no other process writes to it.
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
        """How many entries stand in the index file."""
        return self._tail[0]

    @property
    def pending(self) -> bytearray:
        """The entries behind them; whoever appends records appends here."""
        return self._tail[1]

    def __len__(self) -> int:
        first, pending = self._tail
        return first + len(pending) // ENTRY_BYTES

    def move_pending(self, index: File | None = None) -> None:
        """Note that what was pending now stands in the index file. One assignment, so that readers see either."""
        self._index = index or self._index
        self._tail = (len(self), bytearray())

    def add_flushed(self, records: int, index: File) -> None:
        """Note that as many entries more were written to the index file, behind the others; none may be pending."""
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
        """Return a block that was read of the index file; empty where none was, or what is read is not kept."""
        return b"" if self._held is None else _held(self._held + relative // BLOCK_ENTRIES, b"")

    def _read_block(self, number: int) -> bytes:
        """Read a block of entries, as far as they are flushed (the last one grows), and hold it."""
        first = number * BLOCK_ENTRIES
        block = self.entries(first, min(first + BLOCK_ENTRIES, self.flushed))
        _HELD.hold((self._held or 0) + number, block)
        return block

    def floor(self, relative: int) -> tuple[int, int] | None:
        """Return the record itself."""
        place = self.exact(relative)
        return None if place is None else (relative, place[2])

    def after(self, relative: int, position: int) -> tuple[int, int] | None:
        """Return the next record whose entry does not point back; what is damaged may have moved up over its place."""
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
    """A record every few KiB, in memory, ordered: O(log n) to the nearest one before."""

    __slots__ = ("_positions", "_relatives")

    def __init__(self, pairs: list[tuple[int, int]]) -> None:
        self._relatives = [relative for relative, _ in pairs]
        self._positions = [position for _, position in pairs]

    def extend(self, pairs: list[tuple[int, int]]) -> None:
        """Add records behind the last."""
        for relative, position in pairs:
            self._positions.append(position)
            self._relatives.append(relative)

    def exact(self, relative: int) -> Place | None:  # noqa: ARG002 - the protocol's name
        """Never tell: a sparse lookup leads near."""
        return None

    def held(self, relative: int) -> bytes:  # noqa: ARG002 - the protocol's name
        """Return nothing: there are no entries of single records."""
        return b""

    def floor(self, relative: int) -> tuple[int, int] | None:
        """Return the greatest entry at or before."""
        number = bisect_right(self._relatives, relative) - 1
        return None if number < 0 else (self._relatives[number], self._positions[number])

    def after(self, relative: int, position: int) -> tuple[int, int] | None:
        """Return the next entry behind both."""
        for number in range(bisect_right(self._relatives, relative), len(self._relatives)):
            if self._positions[number] > position:
                return self._relatives[number], self._positions[number]
        return None
