"""Survey a stretch of a store: how many valid records it has, what the lookups store of them, where and why it ends.

Several implementations with the same result: short stretches are walked in plain Python, so that opening a small log
loads no compiler; long ones use the kernels, over a map of the file, or over windows of a compressed one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh64

from seglog.format.codec import InvalidRecord, Rules
from seglog.format.index import DENSE_ENTRY, MarkBuilder
from seglog.segment.blocks import BlockFile, PositionedMemory
from seglog.segment.walk import StoreWalk
from seglog.storage import File
from seglog.storage.base import Buffer

if TYPE_CHECKING:
    from seglog.kernels.scan import StoreScan

KERNEL_FROM_BYTES = 4 * 1024 * 1024
WALK_RECORDS = 4096
WINDOW_BYTES = 16 * 1024 * 1024
TIMES = (-(2**63), 2**63 - 1)
"""Lowest and highest possible timestamp of a record."""


class Place(NamedTuple):
    """Place of the first row: relative offset and position in the store, and the store's salt."""

    relative: int
    position: int
    salt: int


class Block(NamedTuple):
    """A run of valid records.

    entries, marks: as packed in the lookup files (entries are valid until the next block); position, next_offset: after
    the last record; reason: why the next bytes are no record, None if there may be more or the stretch ended.
    """

    records: int
    position: int
    next_offset: int
    entries: bytes | memoryview
    marks: bytes
    marks_state: tuple[int, int]
    tombstones: int
    min_timestamp: int | None
    max_timestamp: int | None
    reason: str | None


class Tally:
    """Figures of a segment's records, collected in their order."""

    def __init__(self, interval: int) -> None:
        self.records = 0
        self.tombstones = 0
        self.min_timestamp: int | None = None
        self.max_timestamp: int | None = None
        self.marks = MarkBuilder(interval)
        self.digest = xxh64()

    @classmethod
    def going_on(cls, marks: MarkBuilder) -> Tally:
        """Return an empty tally whose marks continue from others."""
        tally = cls(marks.interval)
        tally.marks.extend(b"", marks.state)
        return tally

    def add(self, timestamp: int, relative: int, position: int, tombstone: bool) -> bool:
        """Add one record, except for its entry in `digest`. Return whether it got a mark."""
        self.records += 1
        if tombstone:
            self.tombstones += 1
        if self.min_timestamp is None or self.max_timestamp is None:
            self.min_timestamp = self.max_timestamp = timestamp
        elif timestamp > self.max_timestamp:
            self.max_timestamp = timestamp
        elif timestamp < self.min_timestamp:
            self.min_timestamp = timestamp
        return self.marks.add(timestamp, relative, position)

    def digest_with(self, entries: Iterable[Buffer]) -> xxh64:
        """Return what `digest` will be after these entries."""
        digest = self.digest.copy()
        for part in entries:
            digest.update(part)
        return digest

    def pass_damage(self) -> None:
        """Add a record that cannot be read. Its timestamp is unknown, so from now on the limits are the widest
        possible.
        """
        self.min_timestamp, self.max_timestamp = TIMES
        self.marks.max_timestamp = TIMES[1]

    def absorb(self, block: Block) -> None:
        """Add a run of records, except for their entries in `digest`."""
        if not block.records or block.min_timestamp is None or block.max_timestamp is None:
            return
        self.records += block.records
        self.tombstones += block.tombstones
        low, high = self.min_timestamp, self.max_timestamp
        self.min_timestamp = block.min_timestamp if low is None else min(low, block.min_timestamp)
        self.max_timestamp = block.max_timestamp if high is None else max(high, block.max_timestamp)
        self.marks.extend(block.marks, block.marks_state)

    def as_block(self, entries: bytearray, position: int, next_offset: int, reason: str | None = None) -> Block:
        """Return the records that were added one by one as a Block."""
        return Block(
            self.records,
            position,
            next_offset,
            bytes(entries),
            bytes(self.marks.marks),
            self.marks.state,
            self.tombstones,
            self.min_timestamp,
            self.max_timestamp,
            reason,
        )


def survey(
    store: File,
    rules: Rules,
    *,
    position: int,
    end: int,
    expected: int,
    marks: MarkBuilder,
    is_written: bool = False,
) -> Iterator[Block]:
    """Yield the valid records of a stretch in blocks: at least one, and only the last one has a reason.

    `marks` provides the interval and the state to continue from; it is not changed. is_written: another process may
    write to the store and cut what follows its records, so that it must not be mapped.
    """
    how = _by_walk
    if end - position >= KERNEL_FROM_BYTES:
        how = _by_windows if is_written or isinstance(store, BlockFile) else _by_kernel
    yield from how(store, rules, position, end, expected, marks)


def _by_walk(store: File, rules: Rules, position: int, end: int, expected: int, marks: MarkBuilder) -> Iterator[Block]:
    walk = StoreWalk(store, rules, position=position, end=end, expected=expected)
    tally, entries = Tally.going_on(marks), bytearray()
    for record, checksum, length in walk:
        start = walk.position - length
        entries += DENSE_ENTRY.pack(checksum, length, start)
        tally.add(record.timestamp, record.offset - rules.base_offset, start, record.value is None)
        if tally.records == WALK_RECORDS:
            yield tally.as_block(entries, walk.position, walk.expected)
            tally, entries = Tally.going_on(tally.marks), bytearray()
    yield tally.as_block(entries, walk.position, walk.expected, walk.reason)


def _by_kernel(
    store: File, rules: Rules, position: int, end: int, expected: int, marks: MarkBuilder
) -> Iterator[Block]:
    yield from _scanned(store.map(), rules, position, end, expected, marks)


def _by_windows(
    store: File, rules: Rules, position: int, end: int, expected: int, marks: MarkBuilder
) -> Iterator[Block]:
    """Scan window after window of a store that cannot be mapped; a longer record has a window of its own."""
    try:
        memory = PositionedMemory(store)
    except OSError:  # the system does not reserve that much address space
        yield from _by_walk(store, rules, position, end, expected, marks)
        return
    state, size = Tally.going_on(marks).marks, WINDOW_BYTES
    while True:
        stop = min(position + size, end)
        memory.read(position, min(stop, store.size()))
        size = WINDOW_BYTES
        for block in _scanned(memory.bytes, rules, position, stop, expected, state):
            position, expected = block.position, block.next_offset
            state.extend(b"", block.marks_state)
            if block.reason is not None and stop < end:
                length = _length_at(store, rules, position)
                if stop < position + length <= end:  # the record is only cut by the end of the window
                    block, size = block._replace(reason=None), max(WINDOW_BYTES, length)
            yield block
            if block.reason is not None:
                return
        if position >= end:
            return


def _length_at(store: File, rules: Rules, position: int) -> int:
    """Return the length of the record at a position, by its head; 0 if no record has such a head."""
    try:
        return rules.codec.length_at(store.pread(rules.codec.head_bytes, position), 0)
    except InvalidRecord:
        return 0


def _scanned(memory: Any, rules: Rules, position: int, end: int, expected: int, marks: MarkBuilder) -> Iterator[Block]:
    """Scan a store in memory. It may be shorter than `end`."""
    from seglog.kernels.layout import MarksState  # noqa: PLC0415 - short stretches load no compiler
    from seglog.kernels.scan import scan_chunks  # noqa: PLC0415 - as above

    chunks = scan_chunks(
        memory,
        salt=rules.salt,
        relative=expected - rules.base_offset,
        position=position,
        end=end,
        dense=rules.dense,
        marks_state=MarksState(marks.interval, *marks.state),
    )
    for chunk in chunks:
        yield block_of(chunk, rules)
        reason, position = chunk.reason, chunk.position
    if reason is None and position < end:
        yield Block(
            0,
            position,
            rules.base_offset + chunk.next_relative,
            b"",
            b"",
            marks.state,
            0,
            None,
            None,
            "the store ends before it",
        )


def block_of(chunk: StoreScan, rules: Rules) -> Block:
    """Return the result of a kernel as a block."""
    return Block(
        chunk.records,
        chunk.position,
        rules.base_offset + chunk.next_relative,
        chunk.entries.view("u1").data,
        chunk.marks.tobytes(),
        (chunk.marks_state.next_position, chunk.marks_state.max_timestamp),
        chunk.tombstones,
        chunk.min_timestamp,
        chunk.max_timestamp,
        chunk.reason,
    )
