"""The figures of a batch read's plan, without running it: what it would read, and what it can skip.

Python data sources cannot show metrics on Spark's pages; these figures are also logged at level INFO (logger
"seglog.spark") whenever a read is planned.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from seglog.spark import require_pyspark
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.plan import ReadPlan


def explain_read(path: str | Path | None = None, **options: Any) -> ReadPlan:
    """Return the plan of `spark.read.format("seglog").options(**options).load(path)`: its ranges and `figures`.

    Args:
        path: What to read; None with option url.
        options: The options of the read.

    Raises:
        InvalidArgument: an option is invalid.
        MissingExtra: pyspark is not installed.
        LogNotFound, NotALog: there is no log to read.
    """
    require_pyspark()
    from seglog.spark.read.reader import SeglogReader  # noqa: PLC0415 - needs pyspark, an optional dependency

    texts = {name: str(value) for name, value in options.items()}
    if path is not None:
        texts["path"] = str(path)
    return SeglogReader(ReadOptions.parse(texts, environment=os.environ)).plan()
