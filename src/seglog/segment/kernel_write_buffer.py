"""Encode buffered rows with the kernels: their cells become columns, like those of a batch."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from seglog.format.index import MarkBuilder
from seglog.kernels import encode as kernel
from seglog.kernels.extent import STEP, measure
from seglog.kernels.layout import MarksState
from seglog.kernels.rows import Cells, Column, Rows
from seglog.segment.stats import Block, Place

Array = np.ndarray[Any, Any]
NULL, EMPTY = np.array([-1], np.int64), np.array([0], np.int64)  # lengths


def encode_by_kernels(columns: list[list[Any]], place: Place, marks: MarkBuilder) -> tuple[bytes | memoryview, Block]:
    """Encode rows together; see `encode_rows`."""
    timestamps, keys, values, headers = columns
    count, owners = len(timestamps), list[Array]()
    times = np.fromiter(timestamps, np.int64, count)
    rows = Rows(_column(times), _cells(keys, owners), _cells(headers, owners), _cells(values, owners))
    ends = np.empty(-(-count // STEP) + 1, np.int64)
    measure(rows, count, ends)
    out, entries = np.empty(ends[-1], np.uint8), np.empty((count, 2), np.uint64)
    found, target = np.empty((count, 2), np.int64), kernel.Place(place.relative, place.position, np.uint64(place.salt))
    state = MarksState(marks.interval, *marks.state)
    length, marked, state, summary = kernel.encode(rows, ends, 0, count, target, state, out, out.size, entries, found)
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


def _column(words: Array, *, stride: int = 8) -> Column:
    """Describe a column by its address; the caller keeps it alive."""
    return Column(words.ctypes.data, stride)


def _cells(parts: list[bytes | None], owners: list[Array]) -> Cells:
    """Lay byte strings end to end, with None as null; add to `owners` what must be kept alive."""
    first = parts[0]
    if not first and parts.count(first) == len(parts):  # the usual case of headers, often of keys
        return _all_null() if first is None else _all_empty()
    try:
        lengths = sizes = np.fromiter(map(len, parts), np.int64, len(parts))  # type: ignore[arg-type] # None: TypeError
        joined = b"".join(parts)  # type: ignore[arg-type] # as above
    except TypeError:
        lengths = np.fromiter((-1 if part is None else len(part) for part in parts), np.int64, len(parts))
        sizes, joined = np.maximum(lengths, 0), b"".join(filter(None, parts))
    data = np.frombuffer(joined or b"\0", np.uint8)
    addresses = sizes.cumsum() - sizes + data.ctypes.data
    owners += data, addresses, lengths
    return Cells(0, 0, 0, _column(addresses), _column(lengths))


@functools.cache
def _all_null() -> Cells:
    return Cells(0, 0, 0, _column(NULL, stride=0), _column(NULL, stride=0))


@functools.cache
def _all_empty() -> Cells:
    return Cells(0, 0, 0, _column(EMPTY, stride=0), _column(EMPTY, stride=0))
