"""Survey a long stretch of a store on several threads, cut at positions that an index gives as the start of records.

The index may be old, damaged or of another store. So a cut is used only if the records before it ended exactly there;
from the first one that is wrong, one thread continues alone. The result therefore never depends on the index.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import NamedTuple

from seglog.format.codec import Rules
from seglog.format.index import NO_TIMESTAMP, MarkBuilder
from seglog.kernels.layout import MarksState
from seglog.kernels.scan import StoreScan, scan_chunks
from seglog.parallel.calls import THREADS, Ahead
from seglog.segment.index_rebuild import OldIndex
from seglog.segment.stats import Block, block_of, survey
from seglog.storage import File

STRETCH_BYTES = 16 * 1024 * 1024


class Stretch(NamedTuple):
    """Records from relative offset `relative`, at `position`. next_mark: as `MarksState.next_position`; records: how
    many, None up to the end.
    """

    relative: int
    position: int
    next_mark: int
    records: int | None


def survey_spread(
    store: File, rules: Rules, index: OldIndex, *, position: int, end: int, expected: int, marks: MarkBuilder
) -> Iterator[Block]:
    """Survey a dense segment as `survey` does. index: its index file, in any state."""
    begin = Stretch(expected - rules.base_offset, position, marks.next_position, None)
    rest = MarkBuilder(marks.interval)
    rest.extend(b"", marks.state)
    for block in _by_stretches(store, rules, _stretches(index, begin, end, marks.interval), end, rest):
        position, expected = block.position, block.next_offset
        rest.extend(b"", block.marks_state)
        yield block
    yield from survey(store, rules, position=position, end=end, expected=expected, marks=rest)


def _by_stretches(
    store: File, rules: Rules, stretches: Iterator[Stretch], end: int, marks: MarkBuilder
) -> Iterator[Block]:
    """Yield the blocks of adjacent stretches, as long as their records are valid."""
    mapped, newest, ahead = store.map(), marks.max_timestamp, Ahead()
    waiting: deque[Stretch] = deque()

    def launch(count: int) -> None:
        for stretch in islice(stretches, count):
            waiting.append(stretch)
            ahead.launch(partial(_scan, mapped, rules, stretch, end, marks.interval), here=len(waiting) == 1)

    try:
        launch(THREADS + 2)
        begin: tuple[int, ...] = waiting[0][:3] if waiting else ()
        while waiting and begin == waiting.popleft()[:3]:
            chunks = ahead.take()
            launch(1)
            for chunk in chunks:
                times = chunk.marks["max_timestamp"]
                times.clip(min=newest, out=times)  # the marks only cover the times of their own stretch
                newest = max(newest, chunk.marks_state.max_timestamp)
                begin = (chunk.next_relative, chunk.position, chunk.marks_state.next_position)
                yield block_of(chunk, rules)._replace(marks_state=(begin[2], newest), reason=None)
            if chunks[-1].reason is not None:  # the caller continues there, and reports it
                return
    finally:
        ahead.finish()


def _scan(mapped: memoryview, rules: Rules, stretch: Stretch, end: int, interval: int) -> list[StoreScan]:
    chunks = scan_chunks(
        mapped,
        salt=rules.salt,
        relative=stretch.relative,
        position=stretch.position,
        end=end,
        dense=True,
        marks_state=MarksState(interval, stretch.next_mark, NO_TIMESTAMP),
        max_records=stretch.records,
    )
    return list(chunks)


def _stretches(index: OldIndex, begin: Stretch, end: int, interval: int) -> Iterator[Stretch]:
    """Yield stretches of about STRETCH_BYTES, as long as the index has entries that may belong to this store."""
    average = max((end - begin.position) // max(index.records - begin.relative, 1), 1)
    step = max(STRETCH_BYTES // average, 1)
    while begin.relative + step < index.records:
        relative = begin.relative + step
        _, length, last = index.entry(relative - 1) or (0, 0, 0)
        if not begin.position <= last < last + length <= end:
            return
        yield begin._replace(records=step)
        begin = Stretch(relative, last + length, (last // interval + 1) * interval, None)
