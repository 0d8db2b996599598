"""Encoding ahead: whatever it is cut into, and wherever that begins, the bytes and figures are those of one piece."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seglog.arrow.convert import ArrowBatch
from seglog.config import MAX_STORE_BYTES
from seglog.errors import InvalidArgument
from seglog.format.codec import HEAD_BYTES
from seglog.format.index import MarkBuilder
from seglog.segment import batches
from seglog.segment.stats import Place, Tally

ROWS = st.lists(st.tuples(st.integers(-9, 9), st.none() | st.binary(max_size=200)), min_size=1, max_size=40)


def batch_of(rows: list[tuple[int, bytes | None]]) -> ArrowBatch:
    columns = {"timestamp": pa.array([time for time, _ in rows]), "value": pa.array([v for _, v in rows], pa.binary())}
    return ArrowBatch.prepare(pa.table(columns), now=0)


def encoded(batch: ArrowBatch, start: int, stop: int, position: int) -> tuple[bytes, bytes, Any, int]:
    """Return (bytes, entries, marks and figures, length of what is written first)."""
    marks = MarkBuilder(64)
    marks.extend(b"", ((position // 64 + 1) * 64, 3))
    tally, data, first = Tally(64), b"", None
    encoding = batches.encoding(batch, start, stop, Place(5, position, 77), marks)
    for piece in encoding:
        first = len(piece) if first is None else first
        data += bytes(piece)
    entries = b"".join(encoding.entries)
    tally.absorb(encoding.block())
    figures = tally.records, tally.tombstones, tally.min_timestamp, tally.max_timestamp, tally.marks.state
    return data, entries, (bytes(tally.marks.marks), figures), first or 0


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=ROWS, position=st.integers(64, 1200), piece=st.integers(64, 700), data=st.data())
def test_pieces_of_any_size_add_up(
    monkeypatch: pytest.MonkeyPatch,
    rows: list[tuple[int, bytes | None]],
    position: int,
    piece: int,
    data: st.DataObject,
) -> None:
    batch = batch_of(rows)
    start = data.draw(st.integers(0, len(rows) - 1))
    stop = data.draw(st.integers(start + 1, len(rows)))
    whole = encoded(batch, start, stop, position)
    monkeypatch.setattr(batches, "PIECE_BYTES", piece)
    cut = encoded(batch, start, stop, position)
    monkeypatch.undo()
    assert cut[:3] == whole[:3]
    assert cut[3] >= HEAD_BYTES, "the first head is held back by whoever writes: it must be in the first bytes"


@pytest.mark.parametrize("before", [0, 1, 31, 32, 33, 100])
def test_a_batch_may_begin_anywhere_before_a_block_of_the_usual_size(before: int) -> None:
    batch = batch_of([(0, b"x" * 1000)] * 5000)
    data, entries, _, first = encoded(batch, 0, 5000, 2 * batches.PIECE_BYTES - before)
    reference = encoded(batch, 0, 5000, 64)
    assert data == reference[0], "where a record stands is not in it"
    assert len(entries) == 16 * 5000
    assert first >= HEAD_BYTES


@pytest.mark.parametrize("position", [64, 65, 1000, batches.PIECE_BYTES - 1])
def test_bytes_stand_in_memory_as_they_will_in_the_file(position: int) -> None:
    batch = batch_of([(0, b"x" * 1000)] * 5000)
    pieces = list(batches.encoding(batch, 0, 5000, Place(0, position, 1), MarkBuilder(4096)))
    assert len(pieces) > 1
    for piece in pieces:
        address = np.frombuffer(piece, np.uint8).ctypes.data
        assert (address - position) % batches.ALIGNED == 0
        position += len(piece)


def test_who_stops_early_leaves_nothing_running() -> None:
    batch = batch_of([(0, b"x" * 1000)] * 20_000)
    pieces = iter(batches.encoding(batch, 0, 20_000, Place(0, 64, 1), MarkBuilder(4096)))
    next(pieces)
    pieces.close()  # type: ignore[attr-defined] # a generator
    data, _, _, _ = encoded(batch, 0, 20_000, 64)
    assert len(data) == batch.bytes


@pytest.mark.parametrize(("relative", "position"), [(2**32, 64), (0, MAX_STORE_BYTES - 50)])
def test_a_batch_beyond_32_bits_is_rejected(relative: int, position: int) -> None:
    with pytest.raises(InvalidArgument, match="32 bits"):
        list(batches.encoding(batch_of([(0, b"x" * 100)]), 0, 1, Place(relative, position, 1), MarkBuilder(4096)))
