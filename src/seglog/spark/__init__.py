"""Spark reads and writes logs and topics: `spark.read.format("seglog").load(path)`.

    source    the data source Spark calls; loaded in every session, so light
    schema    what Spark sees: names and types of columns
    read/     batch and streaming reads           write/    the sink
    ingest/ snapshot/ export/ replay/ audit/ compact/       the jobs; jobs/: what they share
    session   a local session with sane defaults  java      which Java Spark runs on
    option_values   option strings -> values      interpreter   which Python its workers run
    table     tables of a catalog                 progress  how far a stream is behind

Importing this package loads neither pyspark nor pyarrow. It sets PYSPARK_PYTHON to this Python unless the user has set
it, so that the workers of a session that is started later find seglog.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from seglog.errors import MissingExtra
from seglog.spark.interpreter import use_for_workers, use_this_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register", "require_pyspark"]


def require_pyspark() -> None:
    """Raise MissingExtra, which says what to install, unless pyspark and pandas are there."""
    missing = [name for name in ("pyspark", "pandas") if find_spec(name) is None]
    if missing:
        raise MissingExtra(f"Spark support needs {' and '.join(missing)}: pip install 'seglog[spark]'")


def register(spark: SparkSession) -> None:
    """Make format "seglog" known to a running session, and let its workers run this Python.

    Not needed where `import seglog.spark` comes before the session, or the virtual environment is activated. A Python
    that the user has named (PYSPARK_PYTHON, spark.pyspark.python) is kept, and so is that of a cluster. Raises
    MissingExtra if pyspark is missing, or if the workers of a local session run a Python that cannot load seglog.
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
