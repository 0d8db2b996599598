"""A topic as one Arrow stream: partition by partition, with a column `partition`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.arrow.convert import record_schema
from seglog.arrow.stream import stream_of
from seglog.topic.partition_split import PARTITION

FIELD = pa.field(PARTITION, pa.int32(), nullable=False)


def stream(partitions: Iterable[Iterable[pa.RecordBatch]], requested: Any) -> Any:
    """Return the capsule of an Arrow stream of all records, in the order of partitions and offsets.

    partitions: of each in turn its record batches, keys and values as plain binary; read as the stream is taken.
    """
    return stream_of(record_schema("binary").insert(0, FIELD), _batches(partitions), requested)


def _batches(partitions: Iterable[Iterable[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    schema = record_schema("binary").insert(0, FIELD)
    for number, batches in enumerate(partitions):
        for batch in batches:
            numbers = pa.array(np.full(batch.num_rows, number, np.int32))
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns], schema=schema)
