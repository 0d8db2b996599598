"""The data source Spark calls for format "seglog": a batch read, planned on one snapshot and read as Arrow
batches.

Spark pickles these classes by reference and calls them in processes of its own, so they hold options and
nothing else. What the options mean is in `options`, how a read is divided in `plan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from seglog.errors import InvalidArgument, OffsetOutOfRange
from seglog.log.opening import open_log
from seglog.spark.options import ReadOptions
from seglog.spark.place import snapshots
from seglog.spark.plan import plan_read
from seglog.spark.schema import arrow_schema, spark_schema, to_spark

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyspark.sql.types import StructType

    from seglog.log.log import Log
    from seglog.spark.plan import OffsetRange

BATCH_ROWS = 10_000
BATCH_BYTES = 8 * 1024 * 1024  # the JVM copies a batch whole: larger ones only cost memory


class SeglogDataSource(DataSource):
    """Format "seglog": `spark.read.format("seglog").load(path)`; options in `seglog.spark.options`."""

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "seglog"

    def schema(self) -> StructType:
        """Return the columns; every option is checked here, when `load` is called."""
        return spark_schema(include_headers=ReadOptions.parse(self.options).include_headers)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader; InvalidArgument for a schema that is not the source's own."""
        options = ReadOptions.parse(self.options)
        own = spark_schema(include_headers=options.include_headers)
        if schema != own:
            raise InvalidArgument(f"format seglog has its own schema, leave .schema() out: {own.simpleString()}")
        return SeglogReader(options)


class RangePartition(InputPartition):
    """One task's share: `value` is an OffsetRange."""

    value: OffsetRange


class SeglogReader(DataSourceReader):
    """Plans on the driver, reads on executors. The log's path must mean the same on both."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of one snapshot, taken now; what is appended later is not read."""
        return [RangePartition(part) for part in plan_read(snapshots(self.options.path), self.options)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range in offset order."""
        part: OffsetRange | None = partition.value
        if part is None:  # Spark's stand-in where a plan has no range at all
            return
        schema = arrow_schema(include_headers=self.options.include_headers)
        with open_log(part.path, mode="r") as log:
            _check_still_there(log, part)
            for batch in log.batches(part.start, part.stop, max_records=BATCH_ROWS, values="binary"):
                for piece in _pieces(batch):
                    yield to_spark(piece, part.topic, part.partition, schema)


def _check_still_there(log: Log, part: OffsetRange) -> None:
    """Refuse a range that the log let go of since it was planned: reading on would hide the loss."""
    lowest, after = log.lowest_offset, log.next_offset
    if lowest <= part.start and part.stop <= after:
        return
    error = OffsetOutOfRange(part.start if part.start < lowest else part.stop - 1, lowest, after)
    error.add_note(
        f"{part.path} held offsets {part.start} up to {part.stop} when the read was planned; since then retention "
        "or a truncate removed some. Run the query again"
    )
    raise error


def _pieces(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield slices of a batch, each about BATCH_BYTES at most or a single row."""
    rows = max(1, batch.num_rows * BATCH_BYTES // max(batch.nbytes, 1))
    for start in range(0, batch.num_rows, rows):
        yield batch.slice(start, rows)
