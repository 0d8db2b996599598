"""What a batch read would read, and what it need not: the figures of its plan, without running it.

Data sources in Python cannot put metrics on Spark's pages; these figures are also told at level INFO (logger
"seglog.spark") whenever a read is planned.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from seglog.errors import InvalidArgument
from seglog.spark import require_pyspark
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.plan import ReadPlan
from seglog.spark.read.pushdown import push

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyspark.sql.datasource import Filter


def explain_read(path: str | Path | None = None, filters: Sequence[Filter] = (), **options: Any) -> ReadPlan:
    """Return the plan of `spark.read.format("seglog").options(**options).load(path)`: its ranges and `figures`.

    path None: what to read says option url.
    filters: of pyspark.sql.datasource, such as GreaterThan(("offset",), 1000); InvalidArgument for one that is not
    pushed down. Raises what the read would raise when it is planned, and MissingExtra.
    """
    require_pyspark()
    from seglog.spark.read.reader import SeglogReader  # noqa: PLC0415 - needs pyspark, an optional dependency

    restriction, left = push(filters)
    if left:
        raise InvalidArgument(f"filter {left[0]} is not pushed down; Spark checks it row by row")
    texts = {name: str(value) for name, value in options.items()}
    if path is not None:
        texts["path"] = str(path)
    reader = SeglogReader(ReadOptions.parse(texts, environment=os.environ))
    reader.restriction = restriction
    return reader.plan()
