"""The segments of a manifest, in blocks that successive manifests share: a change copies few entries. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain, islice, takewhile
from operator import is_
from typing import overload

from seglog.format.once import once
from seglog.format.segment_entry import SegmentEntry
from seglog.format.segment_lines import base_of, decode_lines, figures_of

BLOCK_SEGMENTS = 256
BLOCK_BYTES = 64 * 1024


class Block:
    """Up to BLOCK_SEGMENTS entries, or BLOCK_BYTES of lines, and what is needed of all of them.

    Attributes:
        count: Number of entries.
        first: The first base offset.
    """

    def __init__(self, entries: tuple[SegmentEntry, ...]) -> None:
        """entries: at least one."""
        self.count, self.first = len(entries), entries[0].base_offset
        vars(self)["entries"] = entries

    @classmethod
    def read(cls, text: bytes) -> Block:
        """Return a block of lines, at least one; errors as in `SegmentEntry.from_values`.

        They are decoded when an entry is asked for, unless it is uncertain that they can be.
        """
        figures = figures_of(text)
        if figures is None:
            return cls(decode_lines(text))
        block = cls.__new__(cls)
        block.count, block.first = len(figures.bases), figures.bases[0]
        vars(block).update(text=text, **figures._asdict())
        return block

    @once
    def entries(self) -> tuple[SegmentEntry, ...]:
        """Return the entries."""
        return decode_lines(self.text)

    @once
    def text(self) -> bytes:
        """Return their lines."""
        return b"".join([entry.line for entry in self.entries])

    @once
    def bases(self) -> list[int]:
        """Return the base offset of each segment."""
        return [entry.base_offset for entry in self.entries]

    @once
    def files(self) -> list[int]:
        """Return the file number of each segment."""
        return [entry.file for entry in self.entries]

    @once
    def sizes(self) -> list[int]:
        """Return the bytes of each store on the disk, 0 of the active one."""
        return [entry.disk_bytes for entry in self.entries]

    @once
    def records(self) -> list[int]:
        """Return the records of each segment, 0 of the active one."""
        return [entry.records or 0 for entry in self.entries]

    @once
    def total_bytes(self) -> int:
        """Return the bytes of the sealed stores on the disk."""
        return sum(self.sizes)

    @once
    def total_records(self) -> int:
        """Return the records of the sealed segments."""
        return sum(self.records)


class Segments(Sequence[SegmentEntry]):
    """An immutable sequence of entries, equal to a tuple of them. A slice or a sum costs as much as it has blocks."""

    __slots__ = ("_blocks", "_firsts", "_starts")

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        """blocks: none of them empty."""
        self._blocks = blocks
        self._starts = [0, *accumulate([block.count for block in blocks])]
        self._firsts: list[int] | None = None

    @classmethod
    def of(cls, entries: Iterable[SegmentEntry]) -> Segments:
        """Return the entries as such a sequence: the same object if they are one."""
        if isinstance(entries, Segments):
            return entries
        left = iter(entries)
        return cls(tuple(map(Block, iter(lambda: tuple(islice(left, BLOCK_SEGMENTS)), ()))))

    @classmethod
    def read(cls, data: bytes, start: int, stop: int, like: Segments) -> Segments:
        """Return the entries of the lines data[start:stop]; errors as in `SegmentEntry.from_values`.

        like: an earlier state of the same log; as far as it has the first lines, they are not decoded again.
        """
        known, start = like._beginning(data, start, stop)
        return known.followed_by(cls(tuple(map(Block.read, _cut(data, start, stop)))))

    def _beginning(self, data: bytes, start: int, stop: int) -> tuple[Segments, int]:
        """Return the part of this that data[start:stop] begins with, and where its lines end."""
        left = self[self._number_of(data[start : data.find(b"\n", start, stop) + 1]) :]
        blocks, start = _agreeing((block.text for block in left._blocks), data, start, stop)
        entries, start = _agreeing((entry.line for entry in left._entries(blocks)), data, start, stop)
        return left[: left._starts[blocks] + entries], start

    def _number_of(self, line: bytes) -> int:
        """Return which entry has this line; 0 if it is the first one, or none."""
        base = base_of(line)
        if base is None or not self or self._blocks[0].text.startswith(line):
            return 0
        number = self.find(base)
        return number if self[number].line == line else 0

    # --- a sequence ---------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self._starts[-1]

    @overload
    def __getitem__(self, number: int) -> SegmentEntry: ...
    @overload
    def __getitem__(self, number: slice) -> Segments: ...
    def __getitem__(self, number: int | slice) -> SegmentEntry | Segments:
        if isinstance(number, slice):
            start, stop, step = number.indices(len(self))
            return self._part(start, stop) if step == 1 else Segments.of(tuple(self)[number])
        if number < 0:
            number += len(self)
        if not 0 <= number < len(self):
            raise IndexError(number)
        at = bisect_right(self._starts, number) - 1
        return self._blocks[at].entries[number - self._starts[at]]

    def _part(self, start: int, stop: int) -> Segments:
        if start >= stop:
            return Segments()
        if stop - start == len(self):
            return self
        first, last = bisect_right(self._starts, start) - 1, bisect_right(self._starts, stop - 1) - 1
        blocks = list(self._blocks[first : last + 1])
        if stop < self._starts[last + 1]:
            blocks[-1] = Block(blocks[-1].entries[: stop - self._starts[last]])
        if start > self._starts[first]:
            blocks[0] = Block(blocks[0].entries[start - self._starts[first] :])
        return Segments(tuple(blocks))

    def __iter__(self) -> Iterator[SegmentEntry]:
        return chain.from_iterable(block.entries for block in self._blocks)

    def __reversed__(self) -> Iterator[SegmentEntry]:
        return _backwards(self._blocks)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, (Segments, tuple)) and tuple(self) == tuple(other))

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))

    # --- figures ------------------------------------------------------------------------------------------------

    def texts(self) -> list[bytes]:
        """Return the lines, a block at a time."""
        return [block.text for block in self._blocks]

    def files(self) -> Iterator[int]:
        """Yield the file number of each segment."""
        return chain.from_iterable(block.files for block in self._blocks)

    def stores(self) -> Iterator[tuple[int, int, int]]:
        """Yield base offset, file number and bytes on the disk of each store; 0 bytes for the active one."""
        return chain.from_iterable(zip(block.bases, block.files, block.sizes, strict=True) for block in self._blocks)

    @property
    def total_bytes(self) -> int:
        """Bytes of the sealed stores on the disk."""
        return sum([block.total_bytes for block in self._blocks])

    @property
    def total_records(self) -> int:
        """Records of the sealed segments."""
        return sum([block.total_records for block in self._blocks])

    def find(self, offset: int) -> int:
        """Return the number of the last segment that begins at or before the offset; 0 if none does."""
        if self._firsts is None:
            self._firsts = [block.first for block in self._blocks]
        at = max(bisect_right(self._firsts, offset) - 1, 0)
        return self._starts[at] + max(bisect_right(self._blocks[at].bases, offset) - 1, 0)

    # --- changes ------------------------------------------------------------------------------------------------

    def followed_by(self, more: Iterable[SegmentEntry]) -> Segments:
        """Return the sequence with more entries at the end."""
        return Segments((*self._blocks[:-1], *_joined(self._blocks[-1:], Segments.of(more)._blocks)))

    def spliced(self, at: int, gone: int, entries: Iterable[SegmentEntry]) -> Segments:
        """Return the sequence with `entries` in place of the `gone` ones from number `at` on."""
        return self[:at].followed_by(entries).followed_by(self[at + gone :])

    def splice_to(self, later: Segments) -> tuple[int, int, Segments]:
        """Return the arguments of `spliced` that make `later` of this: at least all that is not the same object."""
        most = min(len(self), len(later))
        at = self._same(later, most)
        tail = self._same_at_end(later, most - at)
        return at, len(self) - at - tail, later[at : len(later) - tail]

    def _same(self, other: Segments, most: int) -> int:
        """Return how many entries at the beginning are the same objects, up to `most`."""
        blocks = _same(self._blocks, other._blocks)
        return min(self._starts[blocks] + _same(self._entries(blocks), other._entries(blocks)), most)

    def _same_at_end(self, other: Segments, most: int) -> int:
        blocks = _same(reversed(self._blocks), reversed(other._blocks))
        mine, theirs = (one._blocks[: len(one._blocks) - blocks] for one in (self, other))
        known = len(self) - self._starts[len(mine)]
        return min(known + _same(_backwards(mine), _backwards(theirs)), most)

    def _entries(self, block: int) -> Iterator[SegmentEntry]:
        return chain.from_iterable(one.entries for one in self._blocks[block:])


def _same(first: Iterable[object], second: Iterable[object]) -> int:
    """Return how many objects both begin with."""
    return sum(1 for _ in takewhile(bool, map(is_, first, second)))


def _cut(data: bytes, start: int, stop: int) -> Iterator[bytes]:
    """Yield the lines data[start:stop] in pieces of up to BLOCK_BYTES; a longer line alone."""
    while start < stop:
        most = min(start + BLOCK_BYTES, stop)
        end = data.rfind(b"\n", start, most) + 1 or data.find(b"\n", most, stop) + 1
        yield data[start:end]
        start = end


def _agreeing(pieces: Iterable[bytes], data: bytes, start: int, stop: int) -> tuple[int, int]:
    """Return how many of the pieces data[start:stop] begins with, and where they end."""
    count = 0
    for piece in pieces:
        if not data.startswith(piece, start, stop):
            break
        count, start = count + 1, start + len(piece)
    return count, start


def _backwards(blocks: Sequence[Block]) -> Iterator[SegmentEntry]:
    return chain.from_iterable(reversed(block.entries) for block in reversed(blocks))


def _joined(left: tuple[Block, ...], right: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return two runs of blocks as one; where they meet, two short blocks become one."""
    if left and right and left[-1].count + right[0].count <= BLOCK_SEGMENTS:
        return (*left[:-1], Block(left[-1].entries + right[0].entries), *right[1:])
    return left + right
