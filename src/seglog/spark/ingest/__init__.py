"""Ingest files or a table into a topic: expressions compute key, value, timestamp and headers; each run is stored once.

    flights = read_source(spark, ["flights.csv"], "csv")
    report = ingest(spark, flights, "orders", run="2024-05-01", key="tailnum", timestamp="to_timestamp(time_hour)")

A run is one transaction: tasks stage whole segments and the driver publishes them, so a run that fails stores nothing
and a run repeated under its name is recognised and not stored again. A nightly job keeps one name and increases
`batch`: it needs one line in the log's manifest forever.

Rows of one input file stay in order within a partition only as far as Spark keeps them together; if the order of a
key's records matters, order_by sorts all rows first.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.log.staging import checked_name
from seglog.spark import register
from seglog.spark.option_values import local_path
from seglog.spark.write.destination import find
from seglog.topic.layout import description
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import Column, DataFrame, SparkSession

    from seglog.config import LogConfig

FORMATS = ("csv", "json", "parquet", "orc", "text", "table")
EVERYTHING = (  # times to the microsecond: Spark's default cuts them to milliseconds
    "to_json(struct(*), map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"))"
)


@dataclass(frozen=True, kw_only=True)
class IngestReport:
    """The result of a run. stored: False if an earlier run of the same name stored it; then records is 0.

    If two drivers ingest one run at the same moment, one stores it, but both report that they did.
    """

    topic: str
    run: str | None
    batch: int
    stored: bool
    records: int


def read_source(
    spark: SparkSession, sources: Sequence[str], kind: str, options: Mapping[str, str] | None = None
) -> DataFrame:
    """Return the rows of files (csv, json, parquet, orc, text) or of one table of the catalog (table).

    Args:
        spark: The session.
        sources: Files, directories, or one table's name.
        kind: The format.
        options: Those of Spark's reader; for csv header is true by default.

    Raises:
        InvalidArgument: the format is unknown, or several tables are named.
    """
    if kind not in FORMATS:
        raise InvalidArgument(f"format is {kind!r}; it must be one of {', '.join(FORMATS)}")
    if kind == "table":
        if len(sources) != 1:
            raise InvalidArgument(f"{len(sources)} tables are named; ingest them one by one")
        return spark.read.options(**(options or {})).table(sources[0])
    defaults = {"header": "true"} if kind == "csv" else {}
    return spark.read.format(kind).options(**{**defaults, **(options or {})}).load(list(sources))


def ingest(
    spark: SparkSession,
    rows: DataFrame,
    path: str | Path,
    *,
    run: str | None = None,
    batch: int = 0,
    value: str = EVERYTHING,
    key: str | None = None,
    timestamp: str | None = None,
    headers: str | None = None,
    order_by: str | None = None,
    topic: str | None = None,
) -> IngestReport:
    """Append rows to a log or a topic, or to topic `topic` in a broker's directory, atomically.

    Args:
        spark: The session.
        rows: The rows.
        path: A log, a topic or a broker's directory.
        run: The name of this run; None: every call stores.
        batch: Batches of a run count upwards; one that is not after the last is not stored again.
        value, key: SQL expressions of type text or binary; default: the row as JSON, and no key.
        timestamp: An SQL expression; default: now.
        headers: An SQL expression of type map<string, string or binary> or array<struct<key string, value binary>>.
        order_by: An SQL expression to sort all rows by.
        topic: The topic's name in a broker's directory.

    Raises:
        LogNotFound, NotALog: there is no log or topic to write to.
        InvalidArgument: a name or a column is invalid.
        LogLocked: another process writes.
        SeglogError: Spark rejects an expression.
    """
    if batch < 0 or (batch and run is None):
        raise InvalidArgument(f"batch is {batch}; it must be 0 or more, and needs a run with a name")
    register(spark)
    destination = find(local_path({"path": str(path)}), topic)
    names: dict[str, str] = {}
    if run is not None:
        names = {"queryId": f"ingest-{checked_name(run, 'run')}", "batchId": str(batch)}
        if destination.is_committed(names["queryId"], batch):
            return IngestReport(topic=destination.name, run=run, batch=batch, stored=False, records=0)
    frame = _columns(rows, value, key, timestamp, headers, order_by)
    records = _write(frame, str(destination.root), names)
    return IngestReport(topic=destination.name, run=run, batch=batch, stored=True, records=records)


def create_topic(path: str | Path, partitions: int, config: LogConfig | None = None) -> bool:
    """Create a topic if there is none; return whether it was created. Raises as `Topic.create`."""
    root = Path(local_path({"path": str(path)}))
    if description.is_topic(root):
        return False
    Topic.create(root, partitions=partitions, config=config).close()
    return True


def _columns(
    rows: DataFrame, value: str, key: str | None, timestamp: str | None, headers: str | None, order_by: str | None
) -> DataFrame:
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    given = {"value": value, "key": key, "timestamp": timestamp, "headers": headers}
    if order_by is not None:
        rows = rows.orderBy(functions.expr(order_by))
    made = {name: functions.expr(text) for name, text in given.items() if text is not None}
    if headers is not None:
        made["headers"] = _headers(rows, headers)
    return rows.select([column.alias(name) for name, column in made.items()])


def _headers(rows: DataFrame, text: str) -> Column:
    """Return the expression; a map becomes the array of pairs that the sink expects."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency
    from pyspark.sql.types import MapType  # noqa: PLC0415 - as above

    if isinstance(rows.selectExpr(text).schema[0].dataType, MapType):
        pair = "named_struct('key', cast(pair.key AS string), 'value', cast(pair.value AS binary))"
        return functions.expr(f"transform(map_entries({text}), pair -> {pair})")
    return functions.expr(text)


def _write(frame: DataFrame, path: str, names: Mapping[str, str]) -> int:
    """Write in one transaction and return the number of rows."""
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - an optional dependency

    seen = Observation()
    counted = frame.observe(seen, functions.count(functions.lit(1)).alias("records"))
    counted.write.format("seglog").mode("append").options(**names).save(path)
    records: int = seen.get["records"]
    return records
