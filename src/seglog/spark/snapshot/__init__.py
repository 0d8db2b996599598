"""The latest value of every key, as of now or as of any offset or time, and where to go on streaming behind it.

    states = snapshot(spark, "orders")                     # DataFrame, columns of the source
    first = bootstrap(spark, "orders")                     # first.state, then a stream from exactly behind it:
    spark.readStream.format("seglog").option("startingOffsets", first.starting_offsets).load("orders")

Records without a key belong to no state and are left out. A tombstone takes its key away, unless asked for.

A key never leaves its partition, so the latest record of each is found log by log, one task each, without a shuffle:
a first pass keeps the greatest offset of every key, a second one reads only the stretches that hold one. The task
remembers keys and offsets, never values; where one partition has more keys than a worker's memory, or is so large
that one task takes too long, plan="shuffle" spreads it over many (5 M records of 100 B, 100,000 keys, 4 partitions,
2 cores: 1.0 s against 7.1).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

from seglog.errors import InvalidArgument
from seglog.spark.jobs.pins import pin, positions
from seglog.spark.jobs.tasks import read, spread, with_marks
from seglog.spark.read.options import all_columns
from seglog.topic.positions import to_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

    from seglog.spark.jobs.pins import Moment, Pin

GONE = "compaction took a record of the state since it was planned; run the job again"

Plan = Literal["partition", "shuffle"]


@dataclass(frozen=True)
class Bootstrap:
    """A snapshot and what comes behind it.

    state: the latest record of every key, with the source's columns; next_offsets: topic -> partition -> the first
    offset that `state` does not tell of.
    """

    state: DataFrame
    next_offsets: dict[str, dict[int, int]]

    @property
    def starting_offsets(self) -> str:
        """The value of startingOffsets with which a stream starts exactly behind the state."""
        return to_json(self.next_offsets)


def snapshot(
    spark: SparkSession,
    path: str | Path,
    *,
    as_of: Moment = None,
    tombstones: bool = False,
    include_headers: bool = False,
    plan: Plan = "partition",
    incomplete: bool = False,
) -> DataFrame:
    """Return the latest record of every key of a log, a topic or a broker's topics: `bootstrap` without the offsets."""
    return bootstrap(
        spark,
        path,
        as_of=as_of,
        tombstones=tombstones,
        include_headers=include_headers,
        plan=plan,
        incomplete=incomplete,
    ).state


def bootstrap(
    spark: SparkSession,
    path: str | Path,
    *,
    as_of: Moment = None,
    tombstones: bool = False,
    include_headers: bool = False,
    plan: Plan = "partition",
    incomplete: bool = False,
) -> Bootstrap:
    """Return the latest record of every key, and the offsets behind it; lazy, but the offsets are fixed now.

    as_of: the state before this offset (one log), these offsets (topic -> partition -> offset) or the first record of
    this time or later; default: all that is there now. tombstones: keep a key whose latest record is one, with a null
    value. incomplete: accept an `as_of` inside a compacted log, where older values of keys updated since are gone; else
    the DataFrame ends with OffsetCompacted where a compaction took some before it was evaluated: take it again.
    Raises InvalidArgument, OffsetOutOfRange, and what opening a log raises.
    """
    if plan not in ("partition", "shuffle"):
        raise InvalidArgument(f'plan is {plan!r}; it must be "partition" or "shuffle"')
    pins = pin(path, stop=as_of)
    if not incomplete:
        _check_complete(pins)
    columns, wanted = all_columns(include_headers=include_headers), "true" if tombstones else "value IS NOT NULL"
    if plan == "partition":
        state = _by_partition(spark, pins, columns, complete=not incomplete).where(wanted)
    else:
        state = _by_shuffle(spark, path, pins, columns, wanted, complete=not incomplete)
    return Bootstrap(state, positions(pins))


def _check_complete(pins: Sequence[Pin]) -> None:
    """Refuse what would be wrong in silence: a key's value as of then may have been compacted away since."""
    for one in pins:
        if not one.as_of_then:
            raise InvalidArgument(
                f"the state of {one} as of offset {one.range.stop} can no longer be told: compaction has removed "
                "records before it for newer ones behind it; take the state as of now, or accept it incomplete"
            )


def _by_partition(spark: SparkSession, pins: Sequence[Pin], columns: Sequence[str], *, complete: bool) -> DataFrame:
    from seglog.spark.schema import spark_schema  # noqa: PLC0415 - pyspark is an optional dependency
    from seglog.spark.snapshot.latest import latest_records  # noqa: PLC0415 - pyarrow loads when a job runs

    return spread(spark, pins, partial(latest_records, columns=columns, complete=complete), spark_schema(columns))


def _by_shuffle(
    spark: SparkSession, path: str | Path, pins: Sequence[Pin], columns: Sequence[str], wanted: str, *, complete: bool
) -> DataFrame:
    """Find the offsets first and then their records, by a join that notices one that compaction took in between."""
    from seglog.spark.snapshot.latest import without_marks  # noqa: PLC0415 - pyarrow loads when a job runs

    places = ["topic", "partition", "offset"]
    keys = with_marks(read(spark, path, pins, ["key", *places]).where("key IS NOT NULL"), pins)
    found = keys.groupBy("topic", "partition", "key").max("offset").withColumnRenamed("max(offset)", "offset")
    checked = partial(without_marks, pins=pins, complete=complete)
    last = found.select(*places).mapInArrow(checked, "topic string, partition int, offset bigint")
    records = read(spark, path, pins, columns)
    joined = records.join(last, places, "right")
    there = f"CASE WHEN timestampType IS NULL THEN raise_error('{GONE}') ELSE {wanted} END"
    return joined.where(there).select(*columns)
