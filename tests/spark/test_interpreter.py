"""Spark from any Python: a job whose virtual environment is not activated, as cron or a notebook kernel runs it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from seglog.errors import MissingExtra
from seglog.spark import interpreter, register
from seglog.spark.java import use_java
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JOB = """
import sys
way, path = sys.argv[1:]
if way == "import":
    import seglog.spark
from pyspark.sql import SparkSession
builder = SparkSession.builder.config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
spark = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1").getOrCreate()
if way == "register":
    import seglog.spark
    seglog.spark.register(spark)
spark.sql("SELECT 'v' AS value").write.format("seglog").mode("append").option("createTopic", "true").save(path)
frame = spark.read.format("seglog").load(path)
print([bytes(row.value) for row in frame.collect()], frame.mapInPandas(lambda rows: rows, frame.schema).count())
spark.stop()
"""


def run(tmp_path: Path, *command: str, **environment: str) -> str:
    """Run a program with an environment in which only Java is named; return what it prints."""
    (tmp_path / "job.py").write_text(JOB)
    done = subprocess.run(
        [*command],
        env={"JAVA_HOME": str(use_java()), "SPARK_SUBMIT_OPTS": os.environ["SPARK_SUBMIT_OPTS"], **environment},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.mark.proof
@pytest.mark.needs("java")
def test_a_job_in_a_virtual_environment_that_is_not_activated_imports_seglog_and_no_more(tmp_path: Path) -> None:
    assert "[b'v'] 1" in run(tmp_path, sys.executable, "job.py", "import", str(tmp_path / "t"))


@pytest.mark.needs("java")
@pytest.mark.deep
def test_a_session_that_runs_already_is_given_this_python_by_register(tmp_path: Path) -> None:
    assert "[b'v'] 1" in run(tmp_path, sys.executable, "job.py", "register", str(tmp_path / "t"))


@pytest.mark.needs("java")
@pytest.mark.parametrize(
    "way", [pytest.param("neither", marks=pytest.mark.deep), pytest.param("import", marks=pytest.mark.proof)]
)
def test_spark_submit_by_its_absolute_path_takes_the_python_of_the_environment(tmp_path: Path, way: str) -> None:
    submit = Path(sys.executable).parent / "spark-submit"
    told = run(tmp_path, str(submit), "job.py", way, str(tmp_path / "t"), PYSPARK_PYTHON=sys.executable)
    assert "[b'v'] 1" in told


@pytest.mark.needs("java")
@pytest.mark.proof
def test_spark_submit_takes_the_python_of_a_setting_after_register(tmp_path: Path) -> None:
    import pyspark  # noqa: PLC0415 - only its place is asked for

    submit = Path(pyspark.__file__).parent / "bin" / "spark-submit"
    setting = f"spark.pyspark.python={sys.executable}"
    assert "[b'v'] 1" in run(tmp_path, str(submit), "--conf", setting, "job.py", "register", str(tmp_path / "t"))


# --- what is set, and when


def test_importing_sets_the_python_unless_the_user_or_spark_submit_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    interpreter.use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"
    monkeypatch.delenv("PYSPARK_PYTHON")
    monkeypatch.setenv("PYSPARK_GATEWAY_PORT", "1")
    interpreter.use_this_python()
    assert "PYSPARK_PYTHON" not in os.environ
    monkeypatch.delenv("PYSPARK_GATEWAY_PORT")
    interpreter.use_this_python()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.spark
def test_registering_sets_the_python_of_a_local_session(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "python3")
    register(spark)
    assert spark.sparkContext.pythonExec == sys.executable
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/no/python")
    with pytest.raises(MissingExtra, match="Spark's workers run /no/python, which cannot load seglog"):
        register(spark)
    monkeypatch.undo()
    register(spark)


def test_a_worker_python_without_seglog_is_explained_in_one_sentence(tmp_path: Path) -> None:
    bare = tmp_path / "bin" / "python"
    bare.parent.mkdir()
    bare.write_text(f'#!/bin/sh\nexec "{sys.executable}" -I -S "$@"\n')
    bare.chmod(0o755)
    with pytest.raises(MissingExtra) as caught:
        interpreter.check_loads_seglog(str(bare))
    told = str(caught.value)
    assert f"Spark's workers run {bare}, which cannot load seglog (ModuleNotFoundError: No module named" in told
    assert f"set PYSPARK_PYTHON to {sys.executable} before the session starts, or for that Python install " in told
    assert "\n" not in told


def test_another_python_that_can_load_seglog_is_kept(tmp_path: Path) -> None:
    other = tmp_path / "python"
    other.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    other.chmod(0o755)
    interpreter.check_loads_seglog(str(other))
