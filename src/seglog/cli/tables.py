"""Arrow tables out of a log: bounded batches of what was chosen, written as an IPC stream or a Parquet file.

With `ingest` the only module of the command line that loads pyarrow; commands import them for tables only.
"""

from __future__ import annotations

import contextlib
import io
from typing import TYPE_CHECKING, Any, BinaryIO

import pyarrow as pa
import pyarrow.compute as pc

from seglog.cli.selection import Selection, bounds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from seglog.log.log import Log

BATCH_RECORDS = 65_536
BATCH_BYTES = 16 * 1024 * 1024
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
TIMESTAMP = pa.timestamp("us", tz="UTC")
SCHEMA = pa.schema(
    {
        "offset": pa.int64(),
        "timestamp": TIMESTAMP,
        "key": pa.binary(),
        "value": pa.binary(),
        "headers": HEADERS,
    }
)


def batches(log: Log, chosen: Selection) -> Iterator[pa.RecordBatch]:
    """Yield the chosen records as batches of SCHEMA, of about BATCH_BYTES each."""
    start, stop = bounds(log, chosen)
    left = stop - start if chosen.limit is None else chosen.limit
    if start == stop or not left:
        return
    for batch in log.batches(start, stop, max_records=_rows(log), values="binary"):
        taken = _in_time(batch, chosen).slice(0, left)
        left -= taken.num_rows
        if taken.num_rows:
            yield taken.cast(SCHEMA)
        if not left:
            return


def _rows(log: Log) -> int:
    """Return how many records of this log make about BATCH_BYTES."""
    fullest = max((segment.bytes // max(1, segment.records) for segment in log.segments), default=1)
    return max(1, min(BATCH_RECORDS, BATCH_BYTES // max(1, fullest)))


def _in_time(batch: pa.RecordBatch, chosen: Selection) -> pa.RecordBatch:
    timestamps = batch.column("timestamp").cast(pa.int64()) if chosen.by_time else None
    if chosen.from_time is not None:
        batch = batch.filter(pc.greater_equal(timestamps, chosen.from_time))
        timestamps = batch.column("timestamp").cast(pa.int64())
    if chosen.to_time is not None:
        batch = batch.filter(pc.less(timestamps, chosen.to_time))
    return batch


class _Counted(io.RawIOBase):
    """A file that knows its position by counting: what Parquet asks for and a pipe cannot tell."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._position = 0

    def writable(self) -> bool:
        """Answer yes."""
        return True

    def write(self, data: Any) -> int:
        """Write all of `data`."""
        view = memoryview(data).cast("B")
        self._sink.write(view)
        self._position += len(view)
        return len(view)

    def tell(self) -> int:
        """Return the bytes written so far."""
        return self._position


@contextlib.contextmanager
def writer(kind: str, sink: BinaryIO) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Give a function that writes batches of SCHEMA to `sink`, "arrow" as IPC stream or "parquet" (zstd)."""
    if kind == "arrow":
        with pa.ipc.new_stream(_Counted(sink), SCHEMA) as stream:
            yield stream.write_batch
        return
    import pyarrow.parquet as pq  # 100 ms that only Parquet should cost

    with pq.ParquetWriter(_Counted(sink), SCHEMA, compression="zstd") as parquet:
        yield parquet.write_batch
