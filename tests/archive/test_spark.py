"""Spark reads an archive on a real S3 server, where executors have no shared path."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Archiver
from tests.archive.conftest import BUCKET, SMALL

if TYPE_CHECKING:
    from tests.proofs import Tell

PROGRAM = Path(__file__).parent / "programs" / "spark_reader.py"


@pytest.mark.proof
@pytest.mark.needs("java")
@pytest.mark.xdist_group("s3")
def test_spark_reads_an_archive_in_batch_and_as_a_stream(s3: str, tmp_path: Path, tell: Tell) -> None:
    url = f"s3://{BUCKET}/spark"
    with seglog.Broker(tmp_path / "shop") as broker, Archiver(tmp_path / "shop", url) as archiver:
        broker.create_topic("orders", partitions=2, config=SMALL)
        for number in range(200):
            broker.topic("orders").append(b"value %d" % number, partition=number % 2)
        archiver.step()
    found = run(PROGRAM, url, "orders")
    assert found["values"] == sorted(f"value {number}" for number in range(200))
    assert found["late"] == sorted([*range(10, 100), *range(12, 100)])
    assert found["streamed"] == 200
    tell("archive", spark_records=200)


@pytest.mark.proof
@pytest.mark.needs("java")
@pytest.mark.xdist_group("s3")
def test_spark_jobs_find_in_an_archive_what_they_find_in_the_directory(s3: str, tmp_path: Path, tell: Tell) -> None:
    url = f"s3://{BUCKET}/jobs"
    with seglog.Broker(tmp_path / "shop") as broker, Archiver(tmp_path / "shop", url) as archiver:
        broker.create_topic("orders", partitions=2, config=SMALL)
        for number in range(400):
            key = b"student %d" % (number % 9)
            broker.topic("orders").append(b"Add %d" % number, key=key, partition=number % 2)
        archiver.step()
    archived, here = run(PROGRAM.with_name("spark_jobs.py"), url, str(tmp_path / "shop"), str(tmp_path / "exported"))
    assert archived == here
    tell("archive", spark_jobs=len(here))


def run(program: Path, *words: str) -> Any:
    """Run a program in a process of its own, with its own session; return what it prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, str(program), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
