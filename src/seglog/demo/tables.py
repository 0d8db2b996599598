"""The topic as an Iceberg table with typed columns, and the delays by carrier and hour from it, by several engines.

No engine knows of the log: each reads the Parquet files of the table's present snapshot. Knows the events' fields.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
from pyspark.sql import SparkSession

from seglog.demo.expected import LATE_MINUTES, DelayStatistics
from seglog.table import TableReport, sync
from seglog.table.warehouse import directly_readable, local_path, opened
from seglog.topic import Topic

Delays = dict[tuple[str, int], DelayStatistics]
Ask = Callable[[Sequence[str]], Iterable[Sequence[Any]]]

_SCHEMA = pa.schema(
    [("carrier", pa.string()), ("tailnum", pa.string()), ("hour", pa.int32()), ("dep_delay", pa.int32())]
)
_QUERY = """
    SELECT carrier, hour, count(*), count(dep_delay), avg(dep_delay),
           avg(CASE WHEN dep_delay > {late} THEN 1 WHEN dep_delay IS NOT NULL THEN 0 END)
    FROM {source} GROUP BY carrier, hour"""


class Answer(NamedTuple):
    """What an engine has computed from the table. seconds: of its second run, which reads the files again."""

    engine: str
    seconds: float
    delays: Delays


def make(topic: Topic, warehouse: Path) -> TableReport:
    """Make the table of the topic, as `seglog table sync --all --schema` does."""
    (report,) = sync(topic.path, warehouse, active=True, schema=_SCHEMA)
    return report


def answers(spark: SparkSession, warehouse: Path, name: str) -> Iterator[Answer]:
    """Yield the delays that each engine computes; engines that are not installed are left out."""
    files = _files(warehouse, name)
    engines: dict[str, Ask] = {"Spark": lambda paths: _spark(spark, paths)}
    engines |= {title: ask for title, (package, ask) in _OTHERS.items() if find_spec(package) is not None}
    for title, ask in engines.items():
        ask(files)
        started = time.perf_counter()
        rows = [tuple(row) for row in ask(files)]
        seconds = time.perf_counter() - started
        yield Answer(title, seconds, {(row[0], row[1]): DelayStatistics(*row[2:]) for row in rows})


def _files(warehouse: Path, name: str) -> list[str]:
    """Return the paths of the files of the table's present snapshot."""
    with opened(warehouse / name) as table:
        return [str(local_path(file.location)) for file in directly_readable(table)]


def _spark(spark: SparkSession, paths: Sequence[str]) -> Iterable[Sequence[Any]]:
    frame = spark.read.schema("carrier STRING, hour INT, dep_delay INT").parquet(*paths)
    return list(spark.sql(_QUERY.format(late=LATE_MINUTES, source="{events}"), events=frame).collect())


def _duckdb(paths: Sequence[str]) -> Iterable[Sequence[Any]]:
    import duckdb  # noqa: PLC0415 - an optional dependency

    rows: list[tuple[Any, ...]] = duckdb.execute(
        _QUERY.format(late=LATE_MINUTES, source="read_parquet(?)"), [list(paths)]
    ).fetchall()
    return rows


def _polars(paths: Sequence[str]) -> Iterable[Sequence[Any]]:
    import polars as pl  # noqa: PLC0415 - an optional dependency

    delay = pl.col("dep_delay")
    figures = [
        pl.len().alias("flights"),
        delay.count().alias("departed"),
        delay.mean().alias("mean_delay"),
        (delay > LATE_MINUTES).cast(pl.Int32).mean().alias("late_share"),
    ]
    frame = pl.scan_parquet(list(paths)).group_by("carrier", "hour").agg(figures).collect()
    rows: list[tuple[Any, ...]] = frame.rows()
    return rows


_OTHERS: dict[str, tuple[str, Ask]] = {"DuckDB": ("duckdb", _duckdb), "Polars": ("polars", _polars)}
