"""What the README shows works, in the order it is shown."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tools.readme import ADDRESS, CLIENT, COMMANDS, PYTHON, TEXT

pytestmark = pytest.mark.no_cover


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_python_examples_run_as_they_stand(number, tmp_path):
    script = "\n".join(PYTHON[: number + 1])
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_client_runs_against_a_server(serve, tmp_path):
    script = "import seglog\n" + "\n".join(CLIENT).replace(ADDRESS, serve().url) + "print(len(records))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr


@pytest.mark.needs("bash")
def test_the_commands_run_as_they_stand(tmp_path):
    assert len(COMMANDS) >= 5
    program = f'seglog() {{ "{sys.executable}" -m seglog "$@"; }}'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = "\n".join([program, "set -e", *COMMANDS])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert '"value":"Hello"' in done.stdout.replace(" ", "")
    assert (tmp_path / "orders.parquet").stat().st_size > 0


def test_the_first_screen_says_the_two_commands():
    first_screen = "\n".join(TEXT.splitlines()[:16])
    assert "make demo" in first_screen
    assert "make test" in first_screen
