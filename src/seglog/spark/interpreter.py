"""Which Python Spark's workers run: this program's, unless the user names another one.

If PYSPARK_PYTHON is not set, Spark 4.3 starts `python3` from PATH, even from a virtual environment that is not
activated, a notebook kernel or cron. Three settings apply, each at its own time:

- the JVM looks for modules `pyspark_*` with the Python that the environment names when the JVM starts
  (PYSPARK_DRIVER_PYTHON, else PYSPARK_PYTHON);
- a session copies PYSPARK_PYTHON to `SparkContext.pythonExec` when its SparkContext is created;
- a data source keeps the `pythonExec` at its registration, for planning and for tasks.

So PYSPARK_PYTHON helps before the JVM starts, and `pythonExec` plus a registration after that. Only spark-submit
respects the setting spark.pyspark.python.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from seglog.errors import MissingExtra
from seglog.extras import how_to_install

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VARIABLE = "PYSPARK_PYTHON"
DEFAULT = "python3"  # what PySpark runs if nothing is set
_SETTING = "spark.pyspark.python"
_CHECK_SECONDS = 60
_KEPT = ("PATH", "HOME", "LD_LIBRARY_PATH", "PYTHONPATH", "PYTHONHOME")


def use_this_python() -> None:
    """Set PYSPARK_PYTHON to this Python, for a later session, unless the user has set it.

    Does nothing under spark-submit: the JVM already runs, and the workers may be on other machines.
    """
    if sys.executable and "PYSPARK_GATEWAY_PORT" not in os.environ:
        os.environ.setdefault(VARIABLE, sys.executable)


def use_for_workers(spark: SparkSession) -> None:
    """Set the Python of a running session's workers: the one that spark.pyspark.python names, else this one.

    Does nothing if the user has set PYSPARK_PYTHON, or on a cluster, whose machines may have no Python at this path.
    Raises MissingExtra if the workers on this machine run a Python that cannot import seglog.
    """
    context = _context_of(spark)
    if context is None:
        return
    local = str(context.master).startswith("local")
    if context.pythonExec == DEFAULT:
        named = context.getConf().get(_SETTING)
        context.pythonExec = named or (sys.executable if local and sys.executable else DEFAULT)
    if local:
        check_loads_seglog(context.pythonExec)


def _context_of(spark: SparkSession) -> Any:
    """Return the SparkContext; None for a session of Spark Connect, whose server owns the workers."""
    return spark.sparkContext if hasattr(spark, "_jsparkSession") else None


def check_loads_seglog(program: str) -> None:
    """Raise MissingExtra unless a Python of this machine can import the data source."""
    found = shutil.which(program)
    if found is not None and Path(found).absolute() == Path(sys.executable).absolute():
        return
    reason = "there is no such program" if found is None else _failure_of(found)
    if reason is not None:
        raise MissingExtra(
            f"Spark's workers run {program}, which cannot load seglog ({reason}); set {VARIABLE} to {sys.executable} "
            f"before the session starts, or for that Python {how_to_install('spark')}"
        )


def _failure_of(program: str) -> str | None:
    """Return why a Python cannot import the data source, None if it can. It gets the path that Spark gives a worker."""
    import pyspark  # noqa: PLC0415 - an optional dependency

    libraries = sorted(str(file) for file in (Path(pyspark.__file__).parent / "python" / "lib").glob("*.zip"))
    environment = {name: os.environ[name] for name in _KEPT if name in os.environ}
    environment["PYTHONPATH"] = os.pathsep.join([*libraries, *filter(None, [environment.get("PYTHONPATH")])])
    try:
        done = subprocess.run(  # noqa: S603 - the program that Spark is about to run as well
            [program, "-c", "import pyspark_seglog, pandas, pyarrow"],
            env=environment,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_CHECK_SECONDS,
            check=False,
        )
    except (OSError, subprocess.SubprocessError) as error:
        return f"{type(error).__name__}: {error}"
    if done.returncode == 0:
        return None
    return (done.stderr.strip().splitlines() or [f"it ended with status {done.returncode}"])[-1]
