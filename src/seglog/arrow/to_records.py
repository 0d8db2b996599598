"""Arrow out: the rows of a record batch as Python values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import Any

import pyarrow as pa

from seglog.record import Headers, Record

Fields = tuple[int, int, bytes | None, bytes | None, "Headers"]

_made: Callable[[Fields], Record] = partial(tuple.__new__, Record)  # half the time of Record(*fields)

PIECE_ROWS = 1024  # their values are Python objects at the same time; more at once are slower, because caches miss
PIECE_BYTES = 4 * 1024 * 1024


def fields_of(batch: pa.RecordBatch) -> Iterator[Fields]:
    """Yield offset, timestamp (us), key, value and headers of every row. A batch without headers has empty ones."""
    return zip(
        batch.column("offset").to_pylist(),
        batch.column("timestamp").cast(pa.int64()).to_pylist(),
        batch.column("key").to_pylist(),
        batch.column("value").to_pylist(),
        _headers(batch),
        strict=False,
    )


def _headers(batch: pa.RecordBatch) -> Iterable[Headers]:
    column = batch.column("headers") if "headers" in batch.schema.names else None
    if column is None or not len(column.flatten()):  # most records have none, and checking each would dominate the cost
        return repeat(())
    return [tuple((one["key"], one["value"]) for one in row or ()) for row in column.to_pylist()]


def plain_rows(table: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Return rows as dicts whose timestamps are ints (us): a datetime has no year after 9999, a record may have."""
    index = table.schema.get_field_index("timestamp")
    rows: list[dict[str, Any]] = table.set_column(index, "timestamp", table.column(index).cast(pa.int64())).to_pylist()
    return rows


def records_of(batch: pa.RecordBatch) -> list[Record]:
    """Return the rows of a batch as records."""
    return list(map(_made, fields_of(batch)))


def pieces_of(batch: pa.RecordBatch) -> Iterator[list[Record]]:
    """Yield the rows of a batch as lists of records, each of about PIECE_BYTES at most or of one record."""
    average = max(1, batch.nbytes // max(1, batch.num_rows))
    rows = min(PIECE_ROWS, max(1, PIECE_BYTES // average))
    for start in range(0, batch.num_rows, rows):
        yield records_of(batch.slice(start, rows))
