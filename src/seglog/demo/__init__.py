"""The main job on real data: a year of flights into a topic, through Spark, checked against the CSV, compacted by
key, and a report.

    flights    CSV -> events                  expected   the results from the CSV alone (no seglog)
    ingest     events -> topic                compare    two results row by row
    stream     topic -> table, with Spark     queries    table -> results, with Spark
    compaction the topic by key, at the end
    report, charts, report.html               what people look at
    output     which files are replaced       progress   what is seen meanwhile

`run` is the whole of it, told step by step in `story`. Importing this package loads none of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.spark import require_pyspark
from seglog.spark.java import use_java

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["run"]


def run(output: Path, *, limit: int | None = None) -> int:
    """Run the demo into the directory `output` and return the exit code: 0, or 1 if a result is not as it
    must be.

    limit: only so many flights of the file. What an earlier run left in `output` is replaced; anything else
    there is left alone. Raises InvalidArgument (the directory is somebody else's) and MissingExtra.
    """
    require_pyspark()
    use_java()  # here already: better before a minute's work than after it
    from seglog.demo.story import tell  # noqa: PLC0415 - loads Spark, Arrow and numba

    return tell(output, limit=limit)
