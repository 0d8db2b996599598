"""Arrow tables from a log: bounded batches of the selected records, written as an IPC stream or a Parquet file.

Only this module and `ingest` import pyarrow in the command line; commands import them when they need tables.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seglog.cli.selection import Selection, ranges
from seglog.cli.source import Source
from seglog.record import Record

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


def schema(*, partitioned: bool) -> pa.Schema:
    """Return SCHEMA; for a topic with the partition in front."""
    return SCHEMA.insert(0, pa.field("partition", pa.int32())) if partitioned else SCHEMA


def batches(source: Source, chosen: Selection) -> Iterator[pa.RecordBatch]:
    """Yield the selected records as batches of the source's schema, about BATCH_BYTES each, merged by time."""
    left = chosen.limit
    if left == 0:
        return
    spans = {number: span for number, span in ranges(source, chosen).items() if span[0] < span[1]}
    for batch in _merged({number: source.batches(number, *span) for number, span in spans.items()}):
        taken = _taken(batch, chosen).slice(0, left)
        if taken.num_rows:
            yield taken if source.partitioned else taken.drop_columns(["partition"])
        left = None if left is None else left - taken.num_rows
        if left == 0:
            return


def _merged(parts: dict[int, Iterator[pa.RecordBatch]]) -> Iterator[pa.RecordBatch]:
    """Merge the batches of several partitions by time; each partition keeps its order. Holds one batch of each.

    Rows are sorted by the running maximum of a partition's timestamps, so that its order never changes. Each round
    emits all rows up to the least of the partitions' last times, which uses up at least one batch.
    """
    held: dict[int, tuple[pa.RecordBatch, np.ndarray[Any, Any]]] = {}
    latest = dict.fromkeys(parts, np.iinfo(np.int64).min)
    while True:
        for number in [number for number in parts if number not in held]:
            batch = next((batch for batch in parts[number] if batch.num_rows), None)
            if batch is None:
                del parts[number]
                continue
            times = np.maximum.accumulate(batch.column("timestamp").cast(pa.int64()).to_numpy())
            times = np.maximum(times, latest[number])
            latest[number] = times[-1]
            held[number] = _with_partition(batch, number), times
        if not held:
            return
        horizon = min(times[-1] for _, times in held.values())
        rows = {number: int(np.searchsorted(times, horizon, side="right")) for number, (_, times) in held.items()}
        yield _in_order([(held[number][0].slice(0, count), held[number][1][:count]) for number, count in rows.items()])
        rest = {number: (held[number][0].slice(count), held[number][1][count:]) for number, count in rows.items()}
        held = {number: one for number, one in rest.items() if one[0].num_rows}


def _with_partition(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    column = pa.array(np.full(batch.num_rows, number, np.int32))
    return pa.record_batch([column, *batch.cast(SCHEMA).columns], schema=schema(partitioned=True))


def _in_order(parts: list[tuple[pa.RecordBatch, np.ndarray[Any, Any]]]) -> pa.RecordBatch:
    if len(parts) == 1:
        return parts[0][0]
    table = pa.Table.from_batches([batch for batch, _ in parts])
    order = np.argsort(np.concatenate([times for _, times in parts]), kind="stable")
    return table.take(pa.array(order)).combine_chunks().to_batches()[0]


def _taken(batch: pa.RecordBatch, chosen: Selection) -> pa.RecordBatch:
    """Return the rows in the time range that pass the filters."""
    timestamps = batch.column("timestamp").cast(pa.int64()) if chosen.by_time else None
    if chosen.from_time is not None:
        batch = batch.filter(pc.greater_equal(timestamps, chosen.from_time))
        timestamps = batch.column("timestamp").cast(pa.int64())
    if chosen.to_time is not None:
        batch = batch.filter(pc.less(timestamps, chosen.to_time))
    if chosen.test is not None:
        rows = zip(batch.column("key").to_pylist(), batch.column("value").to_pylist(), strict=True)
        batch = batch.filter(pa.array([chosen.test(Record(0, 0, key, value)) for key, value in rows], pa.bool_()))
    return batch


class _Counted(io.RawIOBase):
    """A file that counts its position, which Parquet asks for and a pipe does not know."""

    def __init__(self, sink: BinaryIO) -> None:
        self._sink = sink
        self._position = 0

    def writable(self) -> bool:
        """Return True."""
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
def writer(kind: str, sink: BinaryIO, *, partitioned: bool) -> Iterator[Callable[[pa.RecordBatch], None]]:
    """Yield a function that writes batches to `sink`: "arrow" as an IPC stream, "parquet" compressed with zstd."""
    fields = schema(partitioned=partitioned)
    if kind == "arrow":
        with pa.ipc.new_stream(_Counted(sink), fields) as stream:
            yield stream.write_batch
        return
    import pyarrow.parquet as pq  # takes 100 ms: only Parquet pays for it

    # A dictionary and statistics of values would hold a long value several times.
    figures = [name for name in fields.names if name in ("partition", "offset", "timestamp")]
    options: dict[str, Any] = {"use_dictionary": ["key"], "write_statistics": figures}
    with pq.ParquetWriter(_Counted(sink), fields, compression="zstd", **options) as parquet:
        yield parquet.write_batch
