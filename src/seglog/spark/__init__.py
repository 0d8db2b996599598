"""Spark reads and writes logs and topics: `spark.read.format("seglog").load(path)`.

    source    the data source that Spark calls; imported in every session, so light
    schema    what Spark sees: names and types of columns
    read/     batch and streaming reads           write/    the sink
    ingest/ snapshot/ export/ load/ replay/ audit/ compact/ the jobs; jobs/: shared by them
    session   a local session with good defaults  java      which Java Spark runs on
    option_values   option strings -> values      interpreter   which Python its workers run
    catalog_table   CREATE TABLE                  progress  the lag of a stream
    warehouse       a table (seglog.table) and the log after it, read as one; catch_up: as a stream

Importing this package imports neither pyspark nor pyarrow. It sets PYSPARK_PYTHON to this Python unless the user has
set it, so that the workers of a later session find seglog.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.extras import require
from seglog.spark.interpreter import use_for_workers, use_this_python
from seglog.table import require_pyiceberg

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping

    from pyspark.sql import DataFrame, SparkSession

    from seglog.table.values.decoded import Decode

__all__ = ["register", "require_pyspark", "table", "table_stream"]


def require_pyspark() -> None:
    """Raise MissingExtra unless pyspark and pandas are installed."""
    require("Spark support needs", "pyspark", "pandas", extra="spark")


def register(spark: SparkSession) -> None:
    """Register format "seglog" with a running session, and make its workers run this Python.

    Not needed if `import seglog.spark` precedes the session, or the virtual environment is activated. A Python that the
    user has set (PYSPARK_PYTHON, spark.pyspark.python) is kept, and so is that of a cluster.

    Args:
        spark: The session.

    Raises:
        MissingExtra: pyspark is missing, or the workers of a local session run a Python that cannot import seglog.
    """
    require_pyspark()
    use_for_workers(spark)
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - an optional dependency

    from seglog.spark.source import SeglogDataSource  # noqa: PLC0415 - needs the same one

    try:
        spark.dataSource.register(SeglogDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise


use_this_python()


def table(
    spark: SparkSession,
    location: str | os.PathLike[str],
    *,
    log: str | os.PathLike[str] | None = None,
    catalog: dict[str, str] | None = None,
    values: Decode | None = None,
) -> DataFrame:
    """Return the rows of a table of `seglog table sync` and, after them, the records that its log holds since.

    Spark reads the table's Parquet files with its own reader, at the speed of Parquet, and only the rest through format
    "seglog". Both are planned now, on one snapshot: no row is there twice, and none is missing. Records that are
    appended or synchronized later do not change the frame. Of NAME_latest it has the newest record of each key, of the
    table or the log, without tombstones.

    Args:
        spark: The session.
        location: WAREHOUSE/NAME of the table.
        log: Path of the log or topic, if it has moved since the last sync. None: the path that the table names.
        catalog: Properties of a pyiceberg catalog. None: the file catalog.db in the warehouse.
        values: How a table's values are decoded, if `seglog.table.sync` was given a function; for the records after it.

    Returns:
        A frame with the columns of the table: offset, partition, timestamp, key, value, headers, and typed ones if it
        has them, also for the records after it.

    Raises:
        TopicNotFound: There is no such table.
        InvalidArgument: Values of the table are decoded by a function, its log has more records, and `values` is None.
        CopyDiverged, CopyExpired: The log is no longer the one that the table holds; see `seglog.table.sync`.
        MissingExtra: pyspark or pyiceberg is missing.
    """
    require_pyspark()
    require_pyiceberg()
    from seglog.spark.warehouse import read  # noqa: PLC0415 - needs both

    return read(spark, location, log, catalog, values)


def table_stream(
    spark: SparkSession,
    location: str | os.PathLike[str],
    *,
    checkpoint: str | os.PathLike[str],
    log: str | os.PathLike[str] | None = None,
    catalog: dict[str, str] | None = None,
    files_per_trigger: int = 100,
    values: Decode | None = None,
    options: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return a stream of the rows of a table of `seglog table sync` and then of its log, without end.

    Spark reads the table's Parquet files with its own reader, `files_per_trigger` in each micro-batch, in order of
    time, and then the log from where they end. Each row is there once, across restarts, and while the table is
    synchronized or merged and the log is compacted, truncated (as in a stream of the log) or expired. Of NAME_latest it
    has the rows of the table and then every later record, also tombstones.

    Args:
        spark: The session.
        location: WAREHOUSE/NAME of the table.
        checkpoint: The query's checkpointLocation: a path, or a URL of an object store. What the stream reads of the
            table is decided when it is first called with this checkpoint, and stored there.
        log: Path of the log or topic, if it has moved since. None: the path that the table names.
        catalog: Properties of a pyiceberg catalog. None: the file catalog.db in the warehouse.
        files_per_trigger: Files of the table (up to 256 MiB of rows each) per micro-batch; fixed with the checkpoint.
        values: How a table's values are decoded, if `seglog.table.sync` was given a function.
        options: Of format "seglog", for the log's part, such as maxOffsetsPerTrigger, expose, failOnDataLoss.

    Returns:
        A streaming frame with the columns that the table has now: offset, partition, timestamp, key, value, headers,
        and typed ones if it has them, also for the log's part. A query has columns that the table gets later, and
        wider types, once it has been started again with the same checkpoint.

    Raises:
        TopicNotFound: There is no such table.
        CopyDiverged, CopyExpired: The log is no longer the one that the table holds; see `seglog.table.sync`.
        InvalidArgument: An option is not for this use, or the table's values are decoded by a function, and `values` is
            None.
        MissingExtra: pyspark or pyiceberg is missing.
    """
    require_pyspark()
    require_pyiceberg()
    from seglog.spark.catch_up import read  # noqa: PLC0415 - needs both

    return read(spark, location, checkpoint, log, catalog, files_per_trigger, values, options or {})
