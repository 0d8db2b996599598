"""An Arrow table dealt out to partitions: the compiled partitioner, then one stable sort a chunk.

Needs pyarrow and numba, so `topic` loads it with the first batch. Knows no log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from seglog.errors import InvalidType
from seglog.log.arrow import partitions_of

if TYPE_CHECKING:
    from collections.abc import Iterator


def split_by_partition(data: pa.Table | pa.RecordBatch, partitions: int, turn: int) -> tuple[dict[int, pa.Table], int]:
    """Return each partition's rows in their order (partitions without rows are absent), and the next turn.

    turn: the partition that takes the first row without a key; the next one takes the second, and so on.
    InvalidType if `data` is no table or its keys are of a type that keys cannot have.
    """
    if isinstance(data, pa.RecordBatch):
        data = pa.Table.from_batches([data])
    if not isinstance(data, pa.Table):
        raise InvalidType(f"a batch must be a pyarrow Table or RecordBatch, not {type(data).__name__}")
    shares: dict[int, list[pa.RecordBatch]] = {}
    for batch in data.to_batches():  # chunk by chunk: joined, string columns could pass Arrow's 2 GiB
        numbers, turn = _partition_numbers(batch, partitions, turn)
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


def _shares(
    batch: pa.RecordBatch, numbers: np.ndarray[Any, np.dtype[np.int32]], partitions: int
) -> Iterator[tuple[int, pa.RecordBatch]]:
    order = np.argsort(numbers, kind="stable")  # stable: rows of one partition keep their order
    ordered = batch.take(pa.array(order))
    ends = np.cumsum(np.bincount(numbers, minlength=partitions)).tolist()
    for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
        if start < end:
            yield number, ordered.slice(start, end - start)
