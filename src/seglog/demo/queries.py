"""Spark's queries on the table of events: the latest state of every aircraft, and delays by carrier and hour.

They know the events' fields, but not the CSV. `stream` creates the table.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import pyarrow.parquet as pq
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from seglog.demo.expected import LATE_MINUTES, AircraftState, DelayStatistics

K = TypeVar("K")
V = TypeVar("V")

_VALUE = (
    "carrier string, flight int, tailnum string, origin string, dest string, scheduled timestamp, hour int, "
    "dep_delay int, arr_delay int, air_time int, distance int"
)


def read_table(spark: SparkSession, table: Path) -> DataFrame:
    """Return what `stream.into_table` wrote: key, partition, offset, timestamp, and the fields of the event."""
    return spark.read.parquet(str(table))


def read_topic(spark: SparkSession, topic: Path) -> DataFrame:
    """Return the same columns of all records in the topic, in its present state."""
    return in_columns(spark.read.format("seglog").load(str(topic)))


def in_columns(records: DataFrame) -> DataFrame:
    """Return key, partition, offset and timestamp of records, and the fields of their events."""
    return records.select("key", "partition", "offset", "timestamp", event()).select(
        "key", "partition", "offset", "timestamp", "event.*"
    )


def event() -> Column:
    """Return the event in a record's value."""
    return sql.from_json(sql.col("value").cast("string"), _VALUE).alias("event")


def latest_states(events: DataFrame) -> DataFrame:
    """Return the last event of every key. A key never leaves its partition, so its greatest offset is its latest.

    Finding the offsets first and the rest by a semi-join moves only keys and offsets through the shuffle.
    """
    keyed = events.where("key IS NOT NULL")
    last = keyed.groupBy("partition", "key").agg(sql.max("offset").alias("offset"))
    states = keyed.join(sql.broadcast(last.select("partition", "offset")), ["partition", "offset"], "left_semi")
    return states.select(
        sql.col("key").cast("string").alias("aircraft"),
        "partition", "offset", sql.col("timestamp").alias("event_time"),
        "carrier", "flight", "origin", "dest", "scheduled", "dep_delay", "arr_delay",
    )  # fmt: skip


def delay_statistics(events: DataFrame) -> DataFrame:
    """Return flights, departures, mean departure delay and share of late ones by carrier and hour."""
    late = sql.when(sql.col("dep_delay").isNotNull(), (sql.col("dep_delay") > LATE_MINUTES).cast("int"))
    return events.groupBy("carrier", "hour").agg(
        sql.count(sql.lit(1)).alias("flights"),
        sql.count("dep_delay").alias("departed"),
        sql.avg("dep_delay").alias("mean_delay"),
        sql.avg(late).alias("late_share"),
    )


def write_parquet(frame: DataFrame, path: Path, order: list[str]) -> None:
    """Write a small result as one sorted Parquet file in the directory `path`."""
    frame.coalesce(1).sortWithinPartitions(*order).write.parquet(str(path))


def read_states(path: Path) -> dict[str, AircraftState]:
    """Return what `latest_states` wrote: tail number -> state. Raises ValueError if an aircraft occurs twice."""
    rows = pq.read_table(path).to_pylist()
    states = {row["aircraft"]: AircraftState(*(_utc(row[name]) for name in AircraftState._fields)) for row in rows}
    return _unique(states, rows)


def read_places(path: Path) -> dict[str, tuple[int, int]]:
    """Return the positions of those records: tail number -> (partition, offset)."""
    rows = pq.read_table(path, columns=["aircraft", "partition", "offset"]).to_pylist()
    return {row["aircraft"]: (row["partition"], row["offset"]) for row in rows}


def read_delays(path: Path) -> dict[tuple[str, int], DelayStatistics]:
    """Return what `delay_statistics` wrote: (carrier, hour) -> statistics. Raises ValueError if a pair occurs twice."""
    rows = pq.read_table(path).to_pylist()
    delays = {
        (row["carrier"], row["hour"]): DelayStatistics(*(row[name] for name in DelayStatistics._fields)) for row in rows
    }
    return _unique(delays, rows)


def _utc(value: Any) -> Any:
    return value.astimezone(UTC) if isinstance(value, datetime) else value


def _unique(by_key: dict[K, V], rows: list[dict[str, Any]]) -> dict[K, V]:
    if len(by_key) != len(rows):
        raise ValueError(f"{len(rows)} rows for {len(by_key)} keys: a key occurs twice")
    return by_key
