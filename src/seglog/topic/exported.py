"""A topic as one Arrow stream: partition by partition, with a column `partition`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.log.arrow import record_schema
from seglog.log.arrow_stream import stream_of
from seglog.log.log import Log
from seglog.topic.split import PARTITION

FIELD = pa.field(PARTITION, pa.int32(), nullable=False)


def stream(logs: Sequence[Log], requested: Any) -> Any:
    """Return the capsule of an Arrow stream of all records, in the order of partitions and offsets."""
    return stream_of(record_schema("binary").insert(0, FIELD), _batches(logs), requested)


def _batches(logs: Sequence[Log]) -> Iterator[pa.RecordBatch]:
    schema = record_schema("binary").insert(0, FIELD)
    for number, log in enumerate(logs):
        for batch in log.batches(values="binary"):
            numbers = pa.array(np.full(batch.num_rows, number, np.int32))
            yield pa.RecordBatch.from_arrays([numbers, *batch.columns], schema=schema)
