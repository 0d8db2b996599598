"""Encode rows with one call of a kernel into memory of their own: buffered rows, and short batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.config import MAX_STORE_BYTES
from seglog.errors import InvalidArgument
from seglog.format.index import MarkBuilder
from seglog.kernels import encode as kernel
from seglog.kernels.layout import MarksState
from seglog.kernels.rows import Rows
from seglog.segment.stats import Block, Place

MOST_ROWS = 2**32  # whose offsets a segment can count


def encode_whole(
    rows: Rows, ends: Any, start: int, stop: int, length: int, place: Place, marks: MarkBuilder
) -> tuple[memoryview, Block]:
    """Return rows start..stop as a store holds them, and their description.

    ends: as `measure` filled it; length: how many bytes the rows take; marks: the state to continue from, not changed.
    Raises InvalidArgument if the rows exceed the store or 32 bits of offsets.
    """
    count = stop - start
    if length > MAX_STORE_BYTES - place.position or place.relative + count > MOST_ROWS:
        raise InvalidArgument(f"{count} rows of {length} bytes at position {place.position} exceed 32 bits")
    out, entries, found = np.empty(length, np.uint8), np.empty((count, 2), np.uint64), np.empty((count, 2), np.int64)
    target = kernel.Place(place.relative, place.position, np.uint64(place.salt))
    state: Any = MarksState(marks.interval, *marks.state)
    _, marked, state, summary = kernel.encode(rows, ends, start, stop, target, state, out, length, entries, found)
    tombstones, low, high = summary
    return out.data, Block(
        count,
        place.position + length,
        0,
        entries.data.cast("B"),
        found[:marked].tobytes(),
        state[1:],
        tombstones,
        low,
        high,
        None,
    )
