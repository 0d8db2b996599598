"""Tasks, executors and drivers that die while the sink writes, each a process of its own that is really killed.

The programs beside this file start and end all of it; what they check is an assertion there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import seglog
from tests.waiting import HANG_SECONDS

PROGRAMS = Path(__file__).parent / "programs"
SOURCES = Path(seglog.__file__).parent.parent


def told_by(program: str, directory: Path, *arguments: str, seconds: float = HANG_SECONDS) -> list[dict[str, Any]]:
    """Run a program to its end, and what it started with it; return the lines of JSON that it prints."""
    paths = os.pathsep.join(filter(None, [str(SOURCES), os.environ.get("PYTHONPATH", "")]))
    command = [sys.executable, str(PROGRAMS / program), str(directory), *arguments]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": paths}
    ) as process:
        try:
            output, _ = process.communicate(timeout=seconds)
        finally:
            process.terminate()
    print(output)
    assert process.returncode == 0, f"{program} ended with {process.returncode}"
    return [json.loads(line) for line in output.splitlines() if line.startswith("{")]


@pytest.mark.needs("java")
@pytest.mark.proof
@pytest.mark.timeout(900)
def test_tasks_and_executors_that_die_in_every_way_change_nothing(tmp_path: Path) -> None:
    told = told_by("failing_tasks.py", tmp_path, seconds=850)
    assert [story["story"] for story in told if story["stored"]] == ["exit", "kill", "executor", "slow"]
    assert [story["story"] for story in told if not story["stored"]] == ["every"]


@pytest.mark.needs("java")
@pytest.mark.proof
@pytest.mark.timeout(900)
def test_a_driver_killed_at_any_place_of_the_publication_loses_and_repeats_nothing(tmp_path: Path) -> None:
    counts = told_by("kill_points.py", tmp_path, seconds=850)[-1]
    assert counts == {"kills": 4, "records": 2000, "lost": 0, "repeated": 0, "left_over": 0}


@pytest.mark.needs("java")
@pytest.mark.deep
@pytest.mark.timeout(900)
def test_state_survives_two_kills(tmp_path: Path) -> None:
    counts = told_by("kill_loop.py", tmp_path, "--kills", "2", "--kinds", "worker,session", seconds=850)[-1]
    assert (counts["kills"], counts["lost"], counts["repeated"]) == (2, 0, 0)


@pytest.mark.needs("java")
@pytest.mark.deep
@pytest.mark.parametrize("seed", [1, 2])
def test_state_survives_24_kills_of_anything_at_any_moment(tmp_path: Path, seed: int) -> None:
    counts = told_by("kill_loop.py", tmp_path, "--kills", "24", "--seed", str(seed), seconds=3600)[-1]
    assert (counts["kills"], counts["lost"], counts["repeated"]) == (24, 0, 0)
    assert counts["kills_that_left"]["stages"] > 0
