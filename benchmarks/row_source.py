"""The counterpart of the Arrow data source: the same log and the same stages, but a Python tuple per record.

Everything else is the same (planning, batches from the engine, staging and publishing), so the difference is the cost
of rows between Python and the JVM.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceWriter, InputPartition, WriterCommitMessage
from pyspark.sql.types import StructType

from seglog.spark.source import SeglogDataSource
from seglog.spark.write.options import WriteOptions
from seglog.spark.write.sink import BatchSink

ROWS = 10_000  # as many as Spark passes in one Arrow batch
COLUMNS = ("key", "value")


class RowSource(DataSource):
    """Format "seglog-rows"."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "seglog-rows"

    def schema(self) -> StructType:
        """Return the columns of format seglog."""
        return SeglogDataSource(self.options).schema()

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of format seglog with its batches split into rows."""
        return RowReader(SeglogDataSource(self.options).reader(schema))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: ARG002 - Spark's signature
        """Return the sink of format seglog, fed with rows."""
        return RowWriter(BatchSink(WriteOptions.parse(self.options)))


class RowReader(DataSourceReader):
    """Yields tuples."""

    def __init__(self, arrow: DataSourceReader) -> None:
        self.arrow = arrow

    def partitions(self) -> list[InputPartition]:
        """Return the same partitions."""
        return list(self.arrow.partitions())

    def read(self, partition: InputPartition) -> Iterator[tuple[Any, ...]]:
        """Yield the same records, one by one."""
        for batch in self.arrow.read(partition):
            yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


class RowWriter(DataSourceWriter):
    """Takes rows."""

    def __init__(self, arrow: BatchSink) -> None:
        self.arrow = arrow

    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        """Stage rows as the Arrow sink does, after converting them to batches."""
        return self.arrow.write(_batches(iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Publish as the Arrow sink does."""
        self.arrow.commit(messages)


def _batches(rows: Iterator[Any]) -> Iterator[pa.RecordBatch]:
    while some := list(islice(rows, ROWS)):
        arrays = [pa.array(column, pa.binary()) for column in zip(*some, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, names=list(COLUMNS))
