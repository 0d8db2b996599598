"""Encoding a batch ahead of its writing: while one piece goes to the store, the next is encoded on another thread.

Both the kernels and write(2) release the GIL, so that two cores share the work (limits.md: a batch append is then
bound by write(2) alone).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from seglog.format.index import MarkBuilder
from seglog.segment.survey import Block

PIECE_BYTES = 2 * 1024 * 1024


class _Encoders:
    """The threads that encode; a forked child, which has none of its parent's threads, starts its own."""

    pool: ThreadPoolExecutor

    @classmethod
    def start(cls) -> None:
        """Start with no thread; they come when first needed."""
        cls.pool = ThreadPoolExecutor(max_workers=2, thread_name_prefix="seglog-encode")


_Encoders.start()
os.register_at_fork(after_in_child=_Encoders.start)


def encode_ahead(
    batch: Any, start: int, stop: int, *, relative: int, position: int, salt: int, marks: MarkBuilder
) -> Iterator[tuple[memoryview, Block]]:
    """Yield (bytes to write, what they are) of rows start..stop, piece by piece; a piece is valid until the next."""
    import numpy as np  # noqa: PLC0415 - whoever has a batch has loaded numpy and the kernels

    from seglog.kernels.layout import MarksState  # noqa: PLC0415 - as above

    bounds = _bounds(batch.ends, start, stop)
    widest = max(int(batch.ends[last] - batch.ends[first]) for first, last in bounds)
    buffers = [np.empty(widest, np.uint8) for _ in bounds[:2]]
    state = MarksState(marks.interval, *marks.state)

    def encode(number: int, state: Any) -> Any:
        first, last = bounds[number]
        done = int(batch.ends[first] - batch.ends[start])
        return batch.encode(
            first,
            last,
            out=buffers[number % 2],
            relative=relative + first - start,
            position=position + done,
            salt=salt,
            marks_state=state,
        )

    encoded = encode(0, state)
    for number, (first, last) in enumerate(bounds):
        ahead = None
        if number + 1 < len(bounds):
            ahead = _Encoders.pool.submit(encode, number + 1, encoded.marks_state)
        try:
            yield buffers[number % 2].data[: encoded.length], _block(encoded, last - first)
        finally:
            following = ahead.result() if ahead is not None else None
        encoded = following


def _bounds(ends: Any, start: int, stop: int) -> list[tuple[int, int]]:
    """Cut rows start..stop into pieces of about PIECE_BYTES, each of at least one row."""
    bounds = []
    while start < stop:
        last = int(ends.searchsorted(ends[start] + PIECE_BYTES, side="right")) - 1
        last = min(max(last, start + 1), stop)
        bounds.append((start, last))
        start = last
    return bounds


def _block(encoded: Any, records: int) -> Block:
    return Block(
        records,
        0,
        0,
        encoded.entries.tobytes(),
        encoded.marks.tobytes(),
        (encoded.marks_state.next_position, encoded.marks_state.max_timestamp),
        encoded.tombstones,
        encoded.min_timestamp,
        encoded.max_timestamp,
        None,
    )
