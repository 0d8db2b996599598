"""The batch reader: planned on the driver on one snapshot, read on executors as Arrow batches.

Spark pickles these classes by reference and calls them in processes of its own, so they hold options and
nothing else. How a read is divided is in `plan`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from seglog.errors import OffsetOutOfRange
from seglog.log.opening import open_log
from seglog.spark.batches import BATCH_ROWS, arrow_schema, pieces, to_spark
from seglog.spark.place import snapshots
from seglog.spark.plan import plan_read

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from seglog.log.log import Log
    from seglog.spark.options import ReadOptions
    from seglog.spark.plan import OffsetRange


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
                for piece in pieces(batch):
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
