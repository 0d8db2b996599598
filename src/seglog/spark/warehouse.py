"""Read a table and the log after it as one frame. The driver plans both on one snapshot of the table."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass

from pyiceberg.table import Table
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name that Spark's own documentation uses

from seglog.errors import InvalidArgument
from seglog.log.opening import open_log, storage_at
from seglog.replication.lineage import Lineage
from seglog.spark import register
from seglog.spark.read.options import TABLE_CATALOG
from seglog.spark.typed_columns import schema_of, with_typed_columns
from seglog.storage import Storage
from seglog.table.latest import LATEST
from seglog.table.place import Logs, logs_of, sources_at
from seglog.table.ranges import Range, from_the_start, next_range
from seglog.table.schema import ARROW
from seglog.table.values.decoded import Decode
from seglog.table.warehouse import (
    TableFile,
    directly_readable,
    has_newest_only,
    held_by,
    name_of,
    opened,
    source_of,
)


@dataclass(frozen=True, slots=True)
class TablePlan:
    """A read of a table and its log. files: of one snapshot; steps: partition -> the offsets that they lack."""

    files: list[TableFile]
    logs: Logs
    steps: dict[int, Range]


def read(
    spark: SparkSession,
    location: str | os.PathLike[str],
    log: str | os.PathLike[str] | None,
    catalog: dict[str, str] | None,
    values: Decode | None,
) -> DataFrame:
    """Return the frame; see `seglog.spark.table`."""
    register(spark)
    with opened(location, catalog) as table:
        plan = planned(table, log)
        schema = schema_of(table)
    files = [file.location for file in plan.files]
    stored = spark.read.schema(schema).parquet(*files) if files else spark.createDataFrame([], schema)
    for number, step in plan.steps.items():
        if step.cut is not None:
            stored = stored.where((F.col("partition") != number) | (F.col("offset") < step.cut))
    if all(step.start >= step.stop for step in plan.steps.values()):
        return stored
    after = _after(spark, plan, below(table, location, catalog))
    if has_newest_only(table):
        stored, after = _newest(stored, after)
    return stored.unionByName(with_typed_columns(after, table, values))


def below(table: Table, location: str | os.PathLike[str], catalog: dict[str, str] | None) -> dict[str, str]:
    """Return the options of format "seglog" with which what a log deletes before it is read is read in a table.

    table, location: one of its tables. The table of all its records is read.
    """
    place = os.fspath(location).rstrip("/")
    place = place.removesuffix(LATEST) if has_newest_only(table) else place
    return {"table": place, **({} if catalog is None else {TABLE_CATALOG: json.dumps(catalog)})}


def planned(table: Table, log: str | os.PathLike[str] | None) -> TablePlan:
    """Return the files of the table's present snapshot, and what its log holds since. log: where the log is now."""
    held = held_by(table)
    logs = _one(sources_at(storage_at(source_of(table) if log is None else log)))
    steps = {number: _step(place, held.get(number), table) for number, place in logs.places.items()}
    return TablePlan(directly_readable(table), logs, steps)


def _one(found: list[Storage]) -> Logs:
    if len(found) != 1:
        raise InvalidArgument(f"log is a directory of {len(found)} topics; name the topic of the table")
    return logs_of(found[0])


def _step(place: Storage, held: Lineage | None, table: Table) -> Range:
    """Return which offsets of a partition the table lacks, up to the end of its log now."""
    with open_log(place, mode="r") as log:
        source = Lineage.of(log.view())
        step = next_range(held, source, source.end, (name_of(table), log.path))
        return from_the_start(step, source.start) if has_newest_only(table) else step


def _after(spark: SparkSession, plan: TablePlan, options: dict[str, str]) -> DataFrame:
    """Return the records after the table. options: as `below` returns them."""
    steps, name = plan.steps, plan.logs.name
    starts = {name: {str(number): step.start for number, step in steps.items()}}
    ends = {name: {str(number): max(step.start, step.stop) for number, step in steps.items()}}
    frame = (
        spark.read.format("seglog")
        .options(**options)
        .option("includeHeaders", "true")
        .option("startingOffsets", json.dumps(starts))
        .option("endingOffsets", json.dumps(ends))
        .load(plan.logs.path)
    )
    return frame.select(*ARROW.names)


def _newest(stored: DataFrame, after: DataFrame) -> tuple[DataFrame, DataFrame]:
    """Return both without the rows that a later record of their key replaces or deletes.

    Keys count for each partition, as in the table.
    """
    key = ["partition", "key"]
    last = after.where("key IS NOT NULL").groupBy(*key).agg(F.max("offset").alias("offset"))
    newest = after.join(last, [*key, "offset"], "left_semi").where("value IS NOT NULL")
    return stored.join(last, key, "left_anti"), newest
