"""The segments of a manifest, in blocks that successive manifests share: a change copies few entries. No I/O."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate, chain, islice, takewhile
from operator import is_
from typing import overload

from seglog.format.segment_entry import SegmentEntry

BLOCK_SEGMENTS = 256


class Block:
    """Up to BLOCK_SEGMENTS entries, and their totals once they were asked for."""

    def __init__(self, entries: tuple[SegmentEntry, ...]) -> None:
        """entries: at least one."""
        self.entries = entries

    @cached_property
    def bases(self) -> list[int]:
        """The base offset of each segment."""
        return [entry.base_offset for entry in self.entries]

    @cached_property
    def total_bytes(self) -> int:
        """Bytes of the sealed segments."""
        return sum(entry.bytes or 0 for entry in self.entries)

    @cached_property
    def total_records(self) -> int:
        """Records of the sealed segments."""
        return sum(entry.records or 0 for entry in self.entries)


class Segments(Sequence[SegmentEntry]):
    """An immutable sequence of entries, equal to a tuple of them. A slice or a sum costs as much as it has blocks."""

    __slots__ = ("_blocks", "_firsts", "_starts")

    def __init__(self, blocks: tuple[Block, ...] = ()) -> None:
        """blocks: none of them empty."""
        self._blocks = blocks
        self._starts = [0, *accumulate([len(block.entries) for block in blocks])]
        self._firsts: list[int] | None = None

    @classmethod
    def of(cls, entries: Iterable[SegmentEntry]) -> Segments:
        """Return the entries as such a sequence: the same object if they are one."""
        if isinstance(entries, Segments):
            return entries
        left = iter(entries)
        return cls(tuple(map(Block, iter(lambda: tuple(islice(left, BLOCK_SEGMENTS)), ()))))

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

    @property
    def total_bytes(self) -> int:
        """Bytes of the sealed segments."""
        return sum([block.total_bytes for block in self._blocks])

    @property
    def total_records(self) -> int:
        """Records of the sealed segments."""
        return sum([block.total_records for block in self._blocks])

    def find(self, offset: int) -> int:
        """Return the number of the last segment that begins at or before the offset; 0 if none does."""
        if self._firsts is None:
            self._firsts = [block.entries[0].base_offset for block in self._blocks]
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


def _backwards(blocks: Sequence[Block]) -> Iterator[SegmentEntry]:
    return chain.from_iterable(reversed(block.entries) for block in reversed(blocks))


def _joined(left: tuple[Block, ...], right: tuple[Block, ...]) -> tuple[Block, ...]:
    """Return two runs of blocks as one; where they meet, two short blocks become one."""
    if left and right and len(left[-1].entries) + len(right[0].entries) <= BLOCK_SEGMENTS:
        return (*left[:-1], Block(left[-1].entries + right[0].entries), *right[1:])
    return left + right
