"""The first load of a large topic into a table: the files are written by Spark's executors, the commit is one.

    reports = load(spark, "shop/orders", "warehouse")

It is a round of `seglog.table.sync`: the same rows, the same snapshot with the same offsets, under the same lock. So
`seglog table sync` continues after it, it continues after `seglog table sync`, and a second load finds nothing to do. A
load that fails or is killed leaves the table as it was; the next round deletes its files.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.spark import register
from seglog.spark.jobs.failures import behind
from seglog.table import require_pyiceberg

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession

    from seglog.spark.read.plan import OffsetRange
    from seglog.table import TableReport, TableSync
    from seglog.table.rounds import Change, OnTruncate, Options, Part, Round

_RESULT = "location string, records bigint"


def load(
    spark: SparkSession,
    source: str | os.PathLike[str],
    place: str | os.PathLike[str],
    *,
    name: str | None = None,
    active: bool = False,
    on_truncate: OnTruncate = "delete",
    skip_expired: bool = False,
    restart: bool = False,
    hold: bool = False,
    catalog: dict[str, str] | None = None,
) -> list[TableReport]:
    """Make a round of `seglog.table.sync`, whose files Spark's executors write, about 128 MiB of a log in each task.

    Logs and warehouse must be at the same place for driver and executors. Values become no typed columns: load the
    table without, and add them by a later `sync`, or let `sync` make the whole table.

    Args:
        spark: The session.
        source: Path of a log, a topic, or a directory of topics (a table for each of them).
        place, name, active, on_truncate, skip_expired, restart, hold, catalog: As in `seglog.table.sync`.

    Returns:
        A report for each table.

    Raises:
        LogLocked: If another process synchronizes the same table now.
        InvalidArgument: If the table has typed columns.
        LogTruncated: If records were cut off a log while its tasks read them. Nothing is changed.
        SeglogError: As `seglog.table.sync`, or if tasks fail otherwise.
    """
    require_pyiceberg()
    register(spark)
    with _sync_of(spark)(
        source,
        place,
        name=name,
        active=active,
        on_truncate=on_truncate,
        skip_expired=skip_expired,
        restart=restart,
        hold=hold,
        catalog=catalog,
    ) as tables:
        return tables.step()


def _sync_of(spark: SparkSession) -> type[TableSync]:
    """Return a TableSync whose rounds write on executors."""
    from seglog.table import TableSync  # noqa: PLC0415 - needs pyiceberg, an optional dependency
    from seglog.table.rounds import Round  # noqa: PLC0415 - as above

    class OnExecutors(Round):
        def copy(self, parts: list[Part], change: Change) -> None:
            if self.typer.is_typed:
                raise InvalidArgument(f"the table {self.name} has typed columns: use `seglog table sync` for it")
            _copy(spark, self, parts, change)

    class SparkSync(TableSync):
        def round_on(self, table: Table, name: str, options: Options) -> Round:
            return OnExecutors(table, name, options)

    return SparkSync


@dataclass(frozen=True, slots=True)
class _Share:
    """What a task writes: a range of one log, to files in a directory. properties: of the table's files."""

    part: OffsetRange
    directory: str
    properties: dict[str, str]


def _copy(spark: SparkSession, one: Round, parts: Sequence[Part], change: Change) -> None:
    """Write on executors what a round lacks."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - an optional dependency

    from seglog.spark.jobs.tasks import spread  # noqa: PLC0415 - as above

    properties = {name: str(value) for name, value in one.table.io.properties.items()}
    shares = [_Share(part, one.data, properties) for part in _ranges(one.name, parts)]
    try:
        for row in spread(spark, shares, _write, _RESULT).collect():
            change.added.append(row.location)
            change.rows += row.records
    except PySparkException as error:
        raise behind(error) from error


def _ranges(name: str, parts: Sequence[Part]) -> list[OffsetRange]:
    """Divide what is missing into tasks."""
    from seglog.spark.read.data_loss import position_at  # noqa: PLC0415 - imports what only planning needs
    from seglog.spark.read.local_logs import snapshot_of  # noqa: PLC0415 - as above
    from seglog.spark.read.options import ReadOptions  # noqa: PLC0415 - as above
    from seglog.spark.read.plan import Share, plan_read  # noqa: PLC0415 - as above
    from seglog.topic.layout.places import Place  # noqa: PLC0415 - as above

    found = []
    for part in parts:
        start, stop = part.step.start, part.step.stop
        if start < stop:
            snapshot = snapshot_of(part.view, Place(name, part.number, part.log.path))
            found.append(Share(snapshot, start, stop, position_at(snapshot, stop)))
    return plan_read(found, ReadOptions.parse({"path": "."})).ranges


def _write(share: _Share) -> Iterator[pa.RecordBatch]:
    """Write a range in a task; yield where its files are."""
    import pyarrow as pa  # noqa: PLC0415 - on an executor
    from pyiceberg.io import load_file_io  # noqa: PLC0415 - as above

    from seglog.log.opening import open_log  # noqa: PLC0415 - as above
    from seglog.spark.read.data_loss import lost_below, report  # noqa: PLC0415 - as above
    from seglog.spark.read.local_logs import snapshot_of  # noqa: PLC0415 - as above
    from seglog.table.files import write_rows  # noqa: PLC0415 - as above
    from seglog.table.rounds import Change, counted, records  # noqa: PLC0415 - as above
    from seglog.topic.layout.places import Place  # noqa: PLC0415 - as above

    part, change = share.part, Change()
    files = load_file_io(share.properties, share.directory)
    with open_log(part.path, mode="r", expose="durable") as log:
        view = log.view()
        snapshot = snapshot_of(view, Place(part.topic, part.partition, part.path))
        loss = lost_below(snapshot, part.position)
        if loss is not None:
            report(snapshot, loss, fail=True)
        rows = counted(records(view, part.partition, part.start, part.stop), change)
        for location in write_rows(files, share.directory, rows):
            yield pa.RecordBatch.from_pydict({"location": [location], "records": pa.array([change.rows], pa.int64())})
            change.rows = 0
