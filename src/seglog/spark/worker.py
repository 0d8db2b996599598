"""Spark's Python workers: processes that take one task after another. Knows no log."""

from __future__ import annotations

import gc

from pyspark import TaskContext

_kept = False


def keep_loaded() -> None:
    """Have the collector pass over all that a worker has loaded by now; called where a task has done its work.

    Spark collects the garbage of a worker behind every task. With the kernels loaded that is a look at 160,000 objects,
    which all stay: 60 ms, as much as reading 100 MB. Done once in a process, and only where Spark's worker runs: what
    is garbage at that moment is never collected.
    """
    global _kept  # noqa: PLW0603 - a process is told once
    if not _kept and TaskContext.get() is not None:
        _kept = True
        gc.freeze()
