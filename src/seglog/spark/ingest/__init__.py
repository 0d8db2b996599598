"""Ingest files or a table into a topic: expressions compute key, value, timestamp and headers; each run is stored once.

    flights = read_source(spark, ["flights.csv"], "csv")
    report = ingest(spark, flights, "orders", run="2024-05-01", key="tailnum", timestamp="to_timestamp(time_hour)")

A run is one transaction: tasks stage whole segments and the driver publishes them, so a run that fails stores nothing
and a run repeated under its name is recognised and not stored again. A nightly job keeps one name and increases
`batch`: it needs one line in the log's manifest forever.

Rows of one input file stay in order within a partition only as far as Spark keeps them together; if the order of a
key's records matters, order_by sorts all rows first.

Rows that `read_source` could not read are counted, and stored as far as they could be read, with their text and the
reason. With `reject` they are written there instead.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.log.staging import checked_name
from seglog.spark import register
from seglog.spark.ingest.malformed import MALFORMED, marks, reraise, set_apart, shortened
from seglog.spark.ingest.source import FORMATS, read_source
from seglog.spark.jobs.pins import refuse_overlap
from seglog.spark.option_values import local_path
from seglog.spark.write.destination import find
from seglog.storage import LocalStorage
from seglog.topic.layout import creation, description
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from pyspark.sql import Column, DataFrame, SparkSession

    from seglog.config import LogConfig

__all__ = ["EVERYTHING", "FORMATS", "IngestReport", "create_topic", "created_topic", "ingest", "read_source"]

EVERYTHING = (  # times to the microsecond: Spark's default cuts them to milliseconds
    "to_json(struct(*), map('timestampFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX\", "
    "'timestampNTZFormat', \"yyyy-MM-dd'T'HH:mm:ss.SSSSSS\"))"
)


@dataclass(frozen=True, kw_only=True)
class IngestReport:
    """The result of a run. stored: False if an earlier run of the same name stored it; then the numbers are 0.

    malformed: how many of the records are of rows that could be read in part only, or not at all. rejected: how many
    rows are not stored, because `reject` has them.

    If two drivers ingest one run at the same moment, one stores it, but both report that they did.
    """

    topic: str
    run: str | None
    batch: int
    stored: bool
    records: int
    malformed: int = 0
    rejected: int = 0


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
    reject: str | Path | None = None,
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
        reject: A directory for malformed rows, which are not stored then: JSON lines with file, row (its text) and
            reason. If the run fails later, the directory stays.

    Raises:
        LogNotFound, NotALog: there is no log or topic to write to.
        InvalidArgument: a name or a column is invalid; a row is malformed, with mode FAILFAST; `reject` exists, or the
            rows do not show which of them are malformed.
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
    rejected = 0
    if reject is not None:
        refuse_overlap(path, str(reject))
        rows, rejected = set_apart(rows, str(reject))
    marked = marks(rows) is not None
    try:
        columns = _columns(shortened(rows), value, key, timestamp, headers, order_by, marked=marked)
        records, malformed = _write(columns, str(destination.root), names, marked=marked)
    except Exception as error:  # noqa: BLE001 - raised again, or what it has inside
        left = f"{reject} has the {rejected} malformed rows; delete it before you run this again"
        reraise(error, None if reject is None else left)
    return IngestReport(
        topic=destination.name,
        run=run,
        batch=batch,
        stored=True,
        records=records,
        malformed=malformed,
        rejected=rejected,
    )


def create_topic(path: str | Path, partitions: int, config: LogConfig | None = None) -> bool:
    """Create a topic if there is none; return whether it was created. Raises as `Topic.create`."""
    root = Path(local_path({"path": str(path)}))
    if description.is_topic(root):
        return False
    Topic.create(root, partitions=partitions, config=config).close()
    return True


@contextmanager
def created_topic(path: str | Path, partitions: int, config: LogConfig | None = None) -> Iterator[bool]:
    """Create a topic for a block if there is none, and yield whether it was created. Raises as `Topic.create`.

    If the block fails, the topic is removed with the directories that were made for it, unless it was there before, has
    records by then, or another process has it open.
    """
    root = Path(local_path({"path": str(path)})).absolute()
    made = [one for one in (root, *root.parents) if not one.exists()]
    with ExitStack() as undoing:
        for directory in reversed(made[1:]):
            undoing.callback(_remove_if_empty, directory)
        is_new = create_topic(path, partitions, config)
        if is_new:
            undoing.callback(creation.undo, LocalStorage(root), is_made=bool(made))
        yield is_new
        undoing.pop_all()


def _remove_if_empty(directory: Path) -> None:
    with suppress(OSError):
        directory.rmdir()


def _columns(
    rows: DataFrame,
    value: str,
    key: str | None,
    timestamp: str | None,
    headers: str | None,
    order_by: str | None,
    *,
    marked: bool,
) -> DataFrame:
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency

    given = {"value": value, "key": key, "timestamp": timestamp, "headers": headers}
    if order_by is not None:
        rows = rows.orderBy(functions.expr(order_by))
    made = {name: functions.expr(text) for name, text in given.items() if text is not None}
    if headers is not None:
        made["headers"] = _headers(rows, headers)
    if marked:
        made[MALFORMED] = functions.col(MALFORMED)
    return rows.select([column.alias(name) for name, column in made.items()])


def _headers(rows: DataFrame, text: str) -> Column:
    """Return the expression; a map becomes the array of pairs that the sink expects."""
    from pyspark.sql import functions  # noqa: PLC0415 - an optional dependency
    from pyspark.sql.types import MapType  # noqa: PLC0415 - as above

    if isinstance(rows.selectExpr(text).schema[0].dataType, MapType):
        pair = "named_struct('key', cast(pair.key AS string), 'value', cast(pair.value AS binary))"
        return functions.expr(f"transform(map_entries({text}), pair -> {pair})")
    return functions.expr(text)


def _write(frame: DataFrame, path: str, names: Mapping[str, str], *, marked: bool) -> tuple[int, int]:
    """Write in one transaction; return the number of rows, and how many of them are malformed."""
    from pyspark.sql import Observation, functions  # noqa: PLC0415 - an optional dependency

    seen = Observation()
    malformed = functions.col(MALFORMED) if marked else functions.lit(None)
    counted = frame.observe(
        seen, functions.count(functions.lit(1)).alias("records"), functions.count(malformed).alias("malformed")
    ).drop(MALFORMED)
    counted.write.format("seglog").mode("append").options(**names).save(path)
    return seen.get["records"], seen.get["malformed"]
