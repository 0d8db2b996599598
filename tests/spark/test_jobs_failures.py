"""What Spark says of an error becomes the seglog error it tells of, with its exit code."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.errors import PySparkRuntimeError, PythonException

from seglog.errors import InvalidArgument, LogTruncated, OffsetCompacted, OffsetOutOfRange, SeglogError
from seglog.extras import how_to_install
from seglog.spark.jobs.failures import behind
from seglog.terminal.exits import exit_of, message_of

TRACE = """An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "worker.py", line 1, in main
ZeroDivisionError: division by zero

The above exception was the direct cause of the following exception:

Traceback (most recent call last):
  File "tasks.py", line 54, in states_of_log
    raise refusal
{line}
 SQLSTATE: 38000

JVM stacktrace:
org.apache.spark.SparkException: Job aborted"""


@pytest.mark.parametrize(
    ("line", "kind", "code", "text"),
    [
        ("seglog.errors.InvalidArgument: Classroom refused it", InvalidArgument, 2, "Classroom refused it"),
        ("seglog.errors.LogTruncated: it was cut\nrun it again", LogTruncated, 5, "it was cut; run it again"),
        ("seglog.errors.OffsetCompacted: gone", OffsetCompacted, 5, "gone"),
        ("seglog.errors.OffsetOutOfRange: offset 3\nnote", OffsetOutOfRange, 5, "offset 3; note"),
        ("OSError: [Errno 5] bad disk", SeglogError, 2, "OSError: [Errno 5] bad disk"),
    ],
)
def test_an_executors_error_comes_back(line: str, kind: type[Exception], code: int, text: str) -> None:
    found = behind(PythonException(TRACE.format(line=line)))
    assert type(found) is kind
    assert exit_of(found) == code
    assert message_of(found) == text


def test_what_spark_itself_says_is_kept_short() -> None:
    found = behind(PySparkRuntimeError("a page\nof text " * 100))
    assert message_of(found).startswith("Spark: a page of text")
    assert len(message_of(found)) < 400


def test_other_errors_stay_as_they_are() -> None:
    for error in (InvalidArgument("no"), KeyError("bug"), KeyboardInterrupt()):
        assert behind(error) is error


def test_a_job_is_imported_and_explained_without_pyspark_or_pyarrow() -> None:
    """So that the error of a missing one can say in one line what to install."""
    code = """if True:
        import sys
        sys.modules["pyspark"] = sys.modules["pyarrow"] = None
        from importlib import import_module
        both, one = ["a", "b"], ["a"]
        words = {"compact": one, "audit": one, "snapshot": one, "export": both, "ingest": both, "load": both}
        for job, given in {**words, "replay": ["a", "--machine", "b:c"]}.items():
            program = import_module(f"seglog.spark.{job}.__main__")
            assert program.main(["--help"]) == 0
            assert program.main(given) == 2
        """
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.count("spark-submit --master") == 7
    assert ran.stderr.splitlines() == [f"seglog: Spark support needs pyspark: {how_to_install('spark')}"] * 7
