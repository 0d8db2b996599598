"""What docs/spark.md shows works, in the order it is shown: one program in an empty directory."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import with_prompt_workers
from tests.pages import Examples
from tests.waiting import HANG_SECONDS

JOBS = {"ingest", "snapshot", "export", "replay", "audit", "compact", "load"}
FLIGHTS = "tailnum,carrier\nN1,UA\nN2,AA\nN1,DL\n"
# A command runs in the program's own session: starting Spark for each would take a minute.
RUN = """
import importlib, shlex
def run_command(line):
    _, _, module, *arguments = shlex.split(line)
    assert importlib.import_module(module + ".__main__").main(arguments) == 0, line
    print("ran", module.rpartition(".")[2])
"""


def program(examples: Examples) -> str:
    """Return all examples of the page as one program."""
    parts = [RUN]
    for language, text in examples.take("python", "sh"):
        lines = [line for line in text.splitlines() if line]
        parts.append(text if language == "python" else "\n".join(f"run_command({line!r})" for line in lines))
    return "\n".join([*parts, "spark.stop()"])


@pytest.mark.needs("java")
@pytest.mark.spark
@pytest.mark.no_cover
@pytest.mark.examples("spark.md")
@pytest.mark.proof  # README's and tables' examples use Spark in each run
def test_every_example_of_the_page_runs_as_it_stands(examples: Examples, tmp_path: Path) -> None:
    (tmp_path / "flights.csv").write_text(FLIGHTS)
    done = subprocess.run(
        [sys.executable, "-c", program(examples)],
        cwd=tmp_path,
        env=with_prompt_workers(os.environ),
        capture_output=True,
        text=True,
        timeout=HANG_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert set(re.findall(r"^ran (\w+)$", done.stdout, flags=re.MULTILINE)) == JOBS
    assert "stored=False" in done.stdout
    assert "\n7\n100\n" in done.stdout  # the classroom: ((42 + 8) * 2 - 58) / 6, and before the last two
