"""The batch reader: planned on the driver from one snapshot, read on executors as Arrow batches.

Spark pickles these classes by reference and calls them in other processes, so they hold only options. `plan` divides a
read, `scan` is the work of a task.

A plan reads the log's state at planning. A query that names the same path twice (a union, a self-join) plans two reads,
one after the other, each at its own moment: records appended in between are in one of them only. If they must agree,
give both the same endingOffsets.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition

from seglog.spark.read import bounds
from seglog.spark.read.data_loss import position_at
from seglog.spark.read.log_access import Site
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.plan import OffsetRange, ReadPlan, Share, as_planned, plan_read
from seglog.spark.read.sites import site_of

if TYPE_CHECKING:
    import pyarrow as pa

LOOKS = 10  # at logs that change all the time; then what was seen last is planned, and not kept
_LOG = logging.getLogger("seglog.spark")


class RangePartition(InputPartition):
    """One task's input: `value` is an OffsetRange."""

    value: OffsetRange


class SeglogReader(DataSourceReader):
    """Plans on the driver, reads on executors. The log's path, or the server's URL, must mean the same on both."""

    def __init__(self, options: ReadOptions) -> None:
        self.options = options

    def partitions(self) -> list[InputPartition]:
        """Return the ranges of one snapshot, taken now; later appends are not read."""
        return [RangePartition(part) for part in self.plan().ranges]

    def plan(self) -> ReadPlan:
        """Look at the logs and divide what is to be read; log its figures at level INFO.

        Spark keeps the plan: every action on the DataFrame reads the logs as they are now.
        """
        with site_of(self.options) as site:
            for _ in range(LOOKS):
                shares = shares_of(site, self.options)
                snapshots = [share.snapshot for share in shares]
                if site.keep(snapshots):
                    break
        plan = as_planned(plan_read(shares, self.options), snapshots)
        _LOG.info("planned to read %s: %s", self.options.where, plan.figures)
        return plan

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the records of one range in offset order."""
        return read_range(partition, self.options)


def read_range(partition: InputPartition, options: ReadOptions) -> Iterator[pa.RecordBatch]:
    """Return the Arrow batches of one input partition; none for Spark's placeholder if a plan has no ranges."""
    if partition.value is None:
        return iter(())
    from seglog.spark.read.scan import RangeScan  # noqa: PLC0415 - imports Arrow and the kernels, which only tasks need

    fail, site = options.fail_on_data_loss, site_of(options)
    return iter(RangeScan(partition.value, options.columns, fail_on_data_loss=fail, site=site))


def shares_of(site: Site, options: ReadOptions) -> list[Share]:
    """Return what a batch read takes of every log in its present state. Raises InvalidArgument for a bad option."""
    snapshots = site.look_at_all(site.places(options.selection))
    starts = bounds.starts(snapshots, options, site.offset_at)
    stops = bounds.stops(snapshots, options, site.offset_at)
    bounds.check_order(snapshots, starts, stops, options)
    return [
        Share(snapshot, start, stop, position_at(snapshot, stop))
        for snapshot, start, stop in zip(snapshots, starts, stops, strict=True)
    ]
