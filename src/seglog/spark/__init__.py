"""Spark reads and writes logs and topics: `spark.read.format("seglog").load(path)`.

    source    the data source Spark calls; loaded in every session, so light
    schema    what Spark sees: names and types of columns
    read/     batch and streaming reads           write/    the sink
    ingest/ snapshot/ export/ replay/ audit/ compact/       the jobs; jobs/: what they share
    session   a local session with sane defaults  java      which Java Spark runs on
    option_values   option strings -> values, for read and write

Importing this package loads neither pyspark nor pyarrow.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from seglog.errors import MissingExtra

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "require_pyspark"]


def require_pyspark() -> None:
    """Raise MissingExtra, which says what to install, unless pyspark and pandas are there."""
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"Spark support needs {' and '.join(missing)}: pip install 'seglog[spark]'")


def register(spark: SparkSession) -> None:
    """Make format "seglog" known to `spark`.

    Spark finds it by itself where `pyspark_seglog` is importable; then this changes nothing. Raises
    MissingExtra.
    """
    require_pyspark()
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - an optional dependency

    from seglog.spark.source import SeglogDataSource  # noqa: PLC0415 - needs the same one

    try:
        spark.dataSource.register(SeglogDataSource)
    except AnalysisException as error:
        if error.getCondition() != "DATA_SOURCE_ALREADY_EXISTS":
            raise
