"""A local Spark session with defaults for one machine. Clusters have their own; this knows nothing of logs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from seglog.spark import register, require_pyspark
from seglog.spark.interpreter import use_this_python
from seglog.spark.java import use_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOGGING = (Path(__file__).parent / "log4j2.properties").as_uri()

DEFAULTS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    # Everything stays on this machine, even if its host name does not resolve.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    # Spark's default of 200 suits a cluster: on one machine it makes 200 tasks of a few records each.
    "spark.sql.shuffle.partitions": "4",
    "spark.sql.session.timeZone": "UTC",
    # Plain microseconds: Spark's own default, INT96, is deprecated and reads as nanoseconds elsewhere.
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
    "spark.driver.defaultJavaOptions": f"-Dlog4j2.configurationFile={_LOGGING}",
}


def local_session(
    name: str = "seglog", *, master: str = "local[*]", config: Mapping[str, str] | None = None
) -> SparkSession:
    """Return a Spark session on this machine with format "seglog", a suitable Java, and this Python for workers.

    Args:
        name: The application's name.
        master: Spark's master.
        config: Spark settings that override DEFAULTS.

    Raises:
        MissingExtra: pyspark or Java is missing.
    """
    builder = _session_class().builder
    use_java()
    use_this_python()
    builder = builder.appName(name).master(master)
    for key, value in {**DEFAULTS, **(config or {})}.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    register(spark)
    return spark


@contextmanager
def borrowed_session(name: str) -> Iterator[SparkSession]:
    """Yield the session running in this process, or a local one that ends with the block."""
    running = _session_class().getActiveSession()
    spark = running or local_session(name)
    register(spark)
    try:
        yield spark
    finally:
        if running is None:
            spark.stop()


def _session_class() -> type[SparkSession]:
    require_pyspark()
    from pyspark.sql import SparkSession  # noqa: PLC0415 - an optional dependency

    found: type[SparkSession] = SparkSession
    return found
