"""The times of Arrow data that a caller gives: whether int64 timestamps are microseconds, as they must be.

A column of Arrow's type timestamp has a unit, and is not checked. Knows no log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.stream import pieces_of
from seglog.errors import InvalidArgument
from seglog.record import OTHER_UNITS, SURE_TIMESTAMP, unit_hint

TIMESTAMP = "timestamp"
LEAST = min(unit.least for unit in OTHER_UNITS)


def checked_pieces(data: Any, *, force_timestamp: bool) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield the pieces of `pieces_of`, each after `check_times` unless it is forced; rows count over all of them."""
    before = 0
    for piece in pieces_of(data):
        if not force_timestamp:
            check_times(piece, before=before)
        yield piece
        before += piece.num_rows


def check_times(data: Any, *, before: int = 0) -> None:
    """Refuse int64 timestamps of which one looks like another unit than microseconds.

    Args:
        data: A pyarrow Table or RecordBatch; anything else is left to the append, as are columns that it refuses.
        before: The number of rows that came before these, for the error.

    Raises:
        InvalidArgument: A row looks like seconds or milliseconds; the first one is named.
    """
    if not isinstance(data, (pa.Table, pa.RecordBatch)):
        return
    for position in data.schema.get_all_field_indices(TIMESTAMP):
        if not pa.types.is_int64(data.schema.field(position).type):
            continue
        column = data.column(position)
        first = before
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else (column,):
            _check(chunk, first)
            first += len(chunk)


def _check(chunk: pa.Array, first: int) -> None:
    """Check a chunk of int64. first: the number of its first row."""
    times = (chunk.fill_null(0) if chunk.null_count else chunk).to_numpy()
    if not ((times >= LEAST) & (times < SURE_TIMESTAMP)).any():  # as good as always
        return
    wrong = np.zeros(len(times), bool)
    for unit in OTHER_UNITS:
        wrong |= (times >= unit.least) & (times < unit.most)
    if wrong.any():
        row = int(wrong.argmax())
        raise InvalidArgument(f"row {first + row} of the batch: the timestamp {unit_hint(int(times[row]))}")


def with_unit(data: pa.Table) -> pa.Table:
    """Return rows whose int64 timestamps are of Arrow's type for microseconds, so that nothing checks them again."""
    position = data.schema.get_field_index(TIMESTAMP)
    if position < 0 or not pa.types.is_int64(data.schema.field(position).type):
        return data
    return data.set_column(position, TIMESTAMP, data.column(position).cast(pa.timestamp("us")))
