"""Each job as a process with a session of its own; in other tests the jobs use the session of the tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.topic import Topic
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.proof, pytest.mark.needs("java"), pytest.mark.no_cover]
KEYED = seglog.LogConfig(segment_bytes=1024, retention=seglog.Retention(compact=True))
CLASSROOM = "seglog.spark.replay.classroom:Classroom"


def run(directory: Path, job: str, *words: str) -> list[str]:
    """Run a job in a directory with a topic `orders` of 200 records of 10 keys; return the lines that it prints."""
    with Topic.create(directory / "orders", partitions=2, config=KEYED) as topic:
        for number in range(200):
            topic.append(b"Add 1", key=b"k%d" % (number % 10))
            topic.sync()
    (directory / "rows.csv").write_text("value\nfirst\nsecond\n")
    ran = subprocess.run(
        [sys.executable, "-m", f"seglog.spark.{job}", *words, "--json", "--master", "local[1]"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.splitlines()


def test_the_audit_counts_all_records(tmp_path: Path) -> None:
    (line,) = run(tmp_path, "audit", "orders")
    report = json.loads(line)
    assert report["ok"]
    assert sum(log["records"] for log in report["logs"]) == 200


def test_the_compaction_removes_superseded_records(tmp_path: Path) -> None:
    (line,) = run(tmp_path, "compact", "orders")
    reports = [log["report"] for log in json.loads(line)]
    assert all(report["records_after"] < report["records_before"] for report in reports)


def test_the_ingest_stores_the_rows_of_a_file(tmp_path: Path) -> None:
    (line,) = run(
        tmp_path, "ingest", "made", "rows.csv", "--partitions", "1", "--run", "may", "--option", "header=true"
    )
    assert json.loads(line)["records"] == 2
    with Topic.open(tmp_path / "made", mode="r") as made:
        assert sum(len(made.partition(number)) for number in range(made.partitions)) == 2


def test_the_load_fills_a_table(tmp_path: Path) -> None:
    (line,) = run(tmp_path, "load", "orders", "warehouse", "--all")
    assert sum(json.loads(line)[0]["held"].values()) == 200


def test_the_replay_shows_the_state_of_each_key(tmp_path: Path) -> None:
    states = [json.loads(line) for line in run(tmp_path, "replay", "orders", "--machine", CLASSROOM)]
    assert [state["state"] for state in states] == ["62"] * 10  # 42 is on the board


def test_the_snapshot_writes_the_latest_value_of_each_key(tmp_path: Path) -> None:
    (line,) = run(tmp_path, "snapshot", "orders", "--output", "state")
    assert json.loads(line)["rows"] == 10
