"""Split an Arrow table by partition: the compiled partitioner, then one stable sort per chunk.

Needs pyarrow and numba, so `topic` imports it with the first batch. Knows no log.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seglog.arrow.convert import partitions_of
from seglog.arrow.stream import whole
from seglog.arrow.to_rows import IGNORED
from seglog.errors import InvalidArgument, InvalidType

PARTITION = "partition"


def as_table(data: Any) -> pa.Table:
    """Return Arrow data of any library as a table. Raises InvalidType."""
    return whole(data)


def split_by_partition(data: pa.Table | pa.RecordBatch, partitions: int, turn: int) -> tuple[dict[int, pa.Table], int]:
    """Return each partition's rows in order (partitions without rows are omitted), and the next turn.

    A column `partition` (integers), which the parts omit, gives the partition of the rows where it is not null.
    turn: the partition of the first row without a key; the next such row goes to the next partition.
    Raises InvalidType if `data` is not a table or its keys or partitions have a wrong type, InvalidArgument for an
    unknown partition.
    """
    shares: dict[int, list[pa.RecordBatch]] = {}
    for batch in as_table(data).to_batches():  # by chunk: joined string columns could exceed Arrow's 2 GiB
        numbers, turn = _partition_numbers(batch, partitions, turn)
        if PARTITION in batch.schema.names:
            numbers = _named_partitions(batch, numbers, partitions)
        batch = batch.drop_columns(
            [name for name in batch.schema.names if name == PARTITION or IGNORED.fullmatch(name)]
        )
        for number, rows in _shares(batch, numbers, partitions):
            shares.setdefault(number, []).append(rows)
    return {number: pa.Table.from_batches(shares[number]) for number in sorted(shares)}, turn


def _partition_numbers(
    batch: pa.RecordBatch, partitions: int, turn: int
) -> tuple[np.ndarray[Any, np.dtype[np.int32]], int]:
    position = batch.schema.get_field_index("key")
    if position < 0:
        numbers = np.full(batch.num_rows, -1, np.int32)
    else:
        numbers = partitions_of(batch.column(position), partitions)
    keyless = np.flatnonzero(numbers < 0)
    numbers[keyless] = (turn + np.arange(keyless.size)) % partitions
    return numbers, (turn + keyless.size) % partitions


def _named_partitions(
    batch: pa.RecordBatch, numbers: np.ndarray[Any, np.dtype[np.int32]], partitions: int
) -> np.ndarray[Any, np.dtype[np.int32]]:
    """Return `numbers`, replaced where the batch names a partition."""
    if batch.schema.names.count(PARTITION) > 1:
        raise InvalidArgument(f"there is more than one column {PARTITION}; remove one")
    column = batch.column(PARTITION)
    if not pa.types.is_integer(column.type):
        raise InvalidType(f"column {PARTITION} must hold integers, not {column.type}")
    signed = column.cast(pa.int64(), safe=False)  # a value that does not fit becomes negative and is rejected below
    named = pc.fill_null(signed, pa.scalar(-1, pa.int64())).to_numpy()
    wrong = (named >= partitions) | (named < 0) & column.is_valid().to_numpy(zero_copy_only=False)
    if wrong.any():
        first = column[int(wrong.argmax())]
        raise InvalidArgument(f"column {PARTITION} names {first}; there are 0 to {partitions - 1}")
    return np.where(named < 0, numbers, named).astype(np.int32)


def _shares(
    batch: pa.RecordBatch, numbers: np.ndarray[Any, np.dtype[np.int32]], partitions: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    order = np.argsort(numbers, kind="stable")  # stable, so that rows of a partition keep their order
    ordered = pa.RecordBatch.from_arrays(
        [
            _in_order(column, pa.array(order), name)
            for column, name in zip(batch.columns, batch.schema.names, strict=True)
        ],
        batch.schema.names,
    )
    ends = np.cumsum(np.bincount(numbers, minlength=partitions)).tolist()
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            yield number, ordered.slice(start, end - start)


def _in_order(column: pa.Array, order: pa.Array, name: str) -> pa.Array:
    """Return the rows of a column in another order. Raises InvalidType for a type that Arrow cannot reorder."""
    if pa.types.is_binary_view(column.type):  # Arrow cannot reorder views
        column = column.cast(pa.large_binary())
    elif pa.types.is_string_view(column.type):
        column = column.cast(pa.large_string())
    try:
        return column.take(order)
    except pa.ArrowNotImplementedError as error:
        raise InvalidType(
            f"column {name!r} has the type {column.type}, which cannot be split by partition; convert it first"
        ) from error
