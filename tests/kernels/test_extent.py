"""The bytes that rows take, and the position of each, equal sums over all rows."""

from __future__ import annotations

from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.arrow.convert import ArrowBatch
from seglog.format.codec import HEAD_BYTES
from seglog.kernels import extent

STEP = extent.STEP
LAYOUTS = (pa.binary(), pa.large_binary(), pa.binary_view())
LENGTHS = st.integers(0, 3 * STEP + 1).flatmap(
    lambda rows: st.lists(st.integers(0, 40), min_size=min(rows, 50), max_size=50).map(
        lambda some: (some * rows)[:rows]
    )
)


def batch_of(lengths: list[int], layout: Any) -> ArrowBatch:
    values = pa.array([bytes(length) for length in lengths], layout)
    keys = pa.array([None if length % 7 == 0 else bytes(length % 5) for length in lengths], layout)
    return ArrowBatch.prepare(pa.table({"key": keys, "value": values}), now=0)


def ends_of(lengths: list[int]) -> list[int]:
    """Return the bytes before each row, and after the last."""
    return [0, *accumulate(HEAD_BYTES + length + (length % 5 if length % 7 else 0) for length in lengths)]


@given(LENGTHS, st.sampled_from(LAYOUTS), st.data())
def test_sampled_ends_answer_as_all_of_them_would(lengths: list[int], layout: Any, data: st.DataObject) -> None:
    batch, ends = batch_of(lengths, layout), ends_of(lengths)
    assert batch.bytes == ends[-1]
    assert [batch.bytes_before(row) for row in range(0, len(ends), 97)] == ends[::97]
    assert batch.bytes_before(len(lengths)) == ends[-1]
    limit = data.draw(st.integers(0, ends[-1]))
    row = next(row for row, end in enumerate(ends) if end >= limit)
    some, every, more = batch.rows_taking(np.array([limit, ends[-1], ends[-1] + 1])).tolist()
    assert some == [row, ends[row], ends[row - 1] if row else 0]
    assert every == [len(lengths), ends[-1], ends[-2] if lengths else 0]
    assert more[0] == len(lengths) + 1
    start, room = data.draw(st.integers(0, len(lengths))), data.draw(st.integers(0, ends[-1] + 9))
    assert batch.rows_within(start, room) == max(row for row, end in enumerate(ends) if end <= ends[start] + room)


@pytest.mark.parametrize("rows", [0, 1, STEP - 1, STEP, STEP + 1, 2 * STEP, 5 * STEP + 3])
@pytest.mark.parametrize("widest", [0, 0.5, 1])
def test_the_first_row_that_takes_most_is_found_in_every_step(rows: int, widest: float) -> None:
    at = int((rows - 1) * widest)
    lengths = [9 if row == at else 3 for row in range(rows)]
    assert batch_of(lengths, pa.binary()).widest == ((at, HEAD_BYTES + 9 + 4) if rows else (0, 0))
