"""The demo on real data: a year of flights into a topic, through Spark, checked against the CSV, compacted by key, with
a report.

    flights    CSV -> events                  expected   the results from the CSV alone (no seglog)
    ingest     events -> topic                compare    two results row by row
    stream     topic -> table, with Spark     queries    table -> results, with Spark
    tables     topic -> Iceberg table -> results, with Spark, DuckDB and Polars
    compaction the topic by key, at the end
    report, charts, report.html               the report
    output     which files are replaced       progress   what is shown meanwhile

`run` runs all of it; `story` contains the steps. Importing this package imports none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.spark import require_pyspark
from seglog.spark.java import use_java
from seglog.table import require_pyiceberg

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["run"]


def run(output: Path, *, limit: int | None = None) -> int:
    """Run the demo into the directory `output` and return the exit code: 0, or 1 if a result is wrong.

    limit: only this many flights of the file. Replaces what an earlier run left in `output` and nothing else. Raises
    InvalidArgument if the directory was not created by the demo, and MissingExtra.
    """
    require_pyspark()
    require_pyiceberg()
    use_java()  # fail before a minute's work, not after it
    from seglog.demo.story import tell  # noqa: PLC0415 - imports Spark, Arrow and numba

    return tell(output, limit=limit)
