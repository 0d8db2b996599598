"""A stream that reads a table first and then the log after it: Spark's file stream, united with format "seglog".

The table's part is a list of the files of one snapshot of the table, in the form that Spark's file sink leaves in its
directories, so that Spark's file stream reads exactly these files, with its own Parquet reader, some in each
micro-batch, and keeps in the checkpoint which it has read. The log's part begins where the snapshot ends and waits
until all files have been read: its offsets in the checkpoint count the micro-batches that are left.

List and positions are written once, below the checkpoint:

    CHECKPOINT/seglog/_spark_metadata/0   the files, in order of time
    CHECKPOINT/seglog/plan.json           where the log's part begins; complete once it is there

so every restart continues with the same files, and a new checkpoint is a new stream. The snapshot is tagged in the
table, which keeps its files for KEPT. The columns are those that the table has at each start.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote

from pyiceberg.io import FileIO
from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation uses
from pyspark.sql.types import StructType
from xxhash import xxh64_hexdigest

from seglog.errors import InvalidArgument, LogLocked, StorageError
from seglog.spark import register
from seglog.spark.read.data_loss import position_at
from seglog.spark.read.local_logs import Logs as OpenLogs
from seglog.spark.read.offsets import Progress, encode
from seglog.spark.read.options import TABLE_CATALOG
from seglog.spark.typed_columns import schema_of, with_typed_columns
from seglog.spark.warehouse import TablePlan, below, planned
from seglog.table.durable_files import DurableFileIO
from seglog.table.faults import as_ours
from seglog.table.schema import ARROW
from seglog.table.values.decoded import Decode
from seglog.table.warehouse import TableFile, hold_snapshot, name_of, opened
from seglog.topic.layout.places import Place

KEPT = timedelta(days=30)
_OWN = ("path", "url", "token", "table", TABLE_CATALOG, "startingPositions", "includeHeaders", "columns")
_LOG = logging.getLogger("seglog.spark")


@dataclass(frozen=True, slots=True)
class Plan:
    """What a stream reads. log: path; cuts: partition -> rows of the table from this offset on are of records that were
    cut off the log; positions: where the log's part begins, as `offsets.encode` returns them.
    """

    log: str
    files: int
    files_per_trigger: int
    cuts: dict[str, int]
    positions: dict[str, Any]


def read(
    spark: SparkSession,
    location: str | os.PathLike[str],
    checkpoint: str | os.PathLike[str],
    log: str | os.PathLike[str] | None,
    catalog: dict[str, str] | None,
    files_per_trigger: int,
    values: Decode | None,
    options: Mapping[str, str],
) -> DataFrame:
    """Return the streaming frame; see `seglog.spark.table_stream`."""
    register(spark)
    for name in options:
        if name.lower().startswith("starting") or name.lower() in (own.lower() for own in _OWN):
            raise InvalidArgument(f"option {name} is set by table_stream; leave it out")
    if files_per_trigger < 1:
        raise InvalidArgument(f"files_per_trigger is {files_per_trigger}; it must be 1 or more")
    directory = f"{_url(checkpoint)}/seglog"
    plan, table = _plan(DurableFileIO(dict(catalog or {})), directory, (location, catalog), log, files_per_trigger)
    place = plan.log if log is None else os.fspath(log)
    records = _log_part(spark, plan, place, {**options, **below(table, location, catalog)})
    after = with_typed_columns(records, table, values)
    return _table_part(spark, plan, directory, schema_of(table)).unionByName(after) if plan.files else after


def _plan(
    files: FileIO,
    directory: str,
    place: tuple[str | os.PathLike[str], dict[str, str] | None],
    log: str | os.PathLike[str] | None,
    files_per_trigger: int,
) -> tuple[Plan, Table]:
    """Return the plan of this checkpoint, and the table as it is now. place: of the table, and its catalog."""
    known = _known(files, directory)
    with opened(*place) as table:
        if known is not None:
            return known, table
        found = planned(table, log)
        _keep_files(table, found, directory)
    return _make(files, directory, found, files_per_trigger), table


def _table_part(spark: SparkSession, plan: Plan, directory: str, schema: StructType) -> DataFrame:
    frame = (
        spark.readStream.schema(schema)
        .option("maxFilesPerTrigger", plan.files_per_trigger)
        .option("recursiveFileLookup", "true")  # the list may then name files anywhere
        .parquet(directory)
    )
    for number, cut in plan.cuts.items():
        frame = frame.where((F.col("partition") != int(number)) | (F.col("offset") < cut))
    return frame


def _log_part(spark: SparkSession, plan: Plan, path: str, options: Mapping[str, str]) -> DataFrame:
    own = {"includeHeaders": "true", "startingPositions": json.dumps(plan.positions)}
    return spark.readStream.format("seglog").options(**options, **own).load(path).select(*ARROW.names)


def _known(files: FileIO, directory: str) -> Plan | None:
    """Return the plan of an earlier start; None if there is none, or if that start was interrupted."""
    try:
        with files.new_input(f"{directory}/plan.json").open() as file:
            return Plan(**json.loads(file.read()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def _keep_files(table: Table, plan: TablePlan, directory: str) -> None:
    """Tag the snapshot of a plan."""
    if plan.files:
        try:
            with as_ours(name_of(table)):
                hold_snapshot(table, f"stream-{xxh64_hexdigest(directory.encode())}", KEPT)
        except (LogLocked, StorageError) as error:  # as with rights to read only
            _LOG.warning("the table's files are kept only as long as it keeps its snapshots: %s", error)


def _make(files: FileIO, directory: str, read_plan: TablePlan, files_per_trigger: int) -> Plan:
    """Store what a new stream reads."""
    batches = -(-len(read_plan.files) // files_per_trigger)
    plan = Plan(
        read_plan.logs.path,
        len(read_plan.files),
        files_per_trigger,
        {str(number): step.cut for number, step in read_plan.steps.items() if step.cut is not None},
        _positions(read_plan, batches),
    )
    if plan.files:
        _write(files, f"{directory}/_spark_metadata/0", _sink_log(_by_time(read_plan.files)))
    _write(files, f"{directory}/plan.json", json.dumps(asdict(plan), indent=1))
    return plan


def _positions(plan: TablePlan, batches: int) -> dict[str, Any]:
    """Return where the log's part begins in every partition. batches: micro-batches that it waits."""
    with OpenLogs() as logs:
        progress = {}
        for number, step in plan.steps.items():
            snapshot = logs.look(Place(plan.logs.name, number, plan.logs.places[number].path))
            position = position_at(snapshot, step.start)
            progress[plan.logs.name, number] = Progress(position, step.start, batches)
    return encode(progress)


def _by_time(files: Iterable[TableFile]) -> list[TableFile]:
    """Return files in order of time; those of a partition in order of their offsets."""
    latest: dict[int, int] = {}
    order = []
    for file in sorted(files, key=lambda file: file.start):
        latest[file.partition] = max(latest.get(file.partition, file.min_timestamp), file.min_timestamp)
        order.append((latest[file.partition], file.partition, file.start, file))
    return [file for *_, file in sorted(order, key=lambda entry: entry[:3])]


def _sink_log(files: Iterable[TableFile]) -> str:
    """Return the list as Spark's file sink writes it. Spark reads files in order of the times in it."""
    lines = ["v1"]
    for number, file in enumerate(files, start=1):
        entry = {
            "path": quote(file.location, safe=":/"),
            "size": file.bytes,
            "isDir": False,
            "modificationTime": number,
            "blockReplication": 1,
            "blockSize": 1 << 27,
            "action": "add",
        }
        lines.append(json.dumps(entry, separators=(",", ":")))
    return "\n".join(lines)


def _write(files: FileIO, location: str, text: str) -> None:
    with files.new_output(location).create(overwrite=True) as file:
        file.write(text.encode())


def _url(checkpoint: str | os.PathLike[str]) -> str:
    place = os.fspath(checkpoint).rstrip("/")
    return place if ":/" in place else f"file://{Path(place).absolute()}"
