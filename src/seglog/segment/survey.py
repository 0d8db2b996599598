"""Taking stock of a stretch of a store: how many valid records, what the lookups hold of them, where and why it ends.

Two speeds, one answer: short stretches are walked in plain Python, so that opening a small log loads no compiler;
long ones go through the kernels.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh64

from seglog.format.index import DENSE_ENTRY, MarkBuilder
from seglog.segment.scan import Rules, StoreWalk
from seglog.storage import File

if TYPE_CHECKING:
    from seglog.kernels.scan import StoreScan

KERNEL_FROM_BYTES = 4 * 1024 * 1024
WALK_RECORDS = 4096
TIMES = (-(2**63), 2**63 - 1)
"""Least and greatest timestamp that a record can have."""


class Block(NamedTuple):
    """A run of valid records. entries, marks: as packed in the lookup files (entries valid until
    the next block is asked for); position and next_offset: behind the
    last one; reason: why the next bytes are no record, None where there may be more or the stretch ended.
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
    """What is known of a segment's records after they passed by in order."""

    def __init__(self, interval: int) -> None:
        self.records = 0
        self.tombstones = 0
        self.min_timestamp: int | None = None
        self.max_timestamp: int | None = None
        self.marks = MarkBuilder(interval)
        self.digest = xxh64()

    @classmethod
    def going_on(cls, marks: MarkBuilder) -> Tally:
        """Return an empty one whose marks go on from others."""
        tally = cls(marks.interval)
        tally.marks.extend(b"", marks.state)
        return tally

    def add(self, timestamp: int, relative: int, position: int, tombstone: bool) -> bool:
        """Pass one record by; its entry goes to `digest` apart. Return whether it got a mark."""
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

    def pass_damage(self) -> None:
        """Pass a record by that cannot be read: nobody knows its time, so from now on the times may be any."""
        self.min_timestamp, self.max_timestamp = TIMES
        self.marks.max_timestamp = TIMES[1]

    def absorb(self, block: Block) -> None:
        """Pass a run of records by; its entries go to `digest` apart."""
        if not block.records or block.min_timestamp is None or block.max_timestamp is None:
            return
        self.records += block.records
        self.tombstones += block.tombstones
        low, high = self.min_timestamp, self.max_timestamp
        self.min_timestamp = block.min_timestamp if low is None else min(low, block.min_timestamp)
        self.max_timestamp = block.max_timestamp if high is None else max(high, block.max_timestamp)
        self.marks.extend(block.marks, block.marks_state)

    def as_block(self, entries: bytearray, position: int, next_offset: int, reason: str | None = None) -> Block:
        """Return what was passed by one at a time as a run of records; see Block."""
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


def survey(store: File, rules: Rules, *, position: int, end: int, expected: int, marks: MarkBuilder) -> Iterator[Block]:
    """Yield the valid records of a stretch in blocks; at least one, and only the last one has a reason.

    `marks` gives the interval and where marks go on from; it is not changed.
    """
    how = _by_kernel if end - position >= KERNEL_FROM_BYTES else _by_walk
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
    from seglog.kernels.layout import MarksState  # noqa: PLC0415 - short stretches load no compiler
    from seglog.kernels.scan import scan_chunks  # noqa: PLC0415 - as above

    chunks = scan_chunks(
        store.map(),
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
    """Return what a kernel found as a block."""
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
