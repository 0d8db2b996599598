"""What the README shows works, in the order it is shown."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

README = (Path(__file__).parents[1] / "README.md").read_text()
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", README, flags=re.DOTALL)
PYTHON = [text for language, text in BLOCKS if language == "python" and "spark." not in text and "Client(" not in text]
CLIENT = [text for language, text in BLOCKS if language == "python" and "Client(" in text]
COMMANDS = [line for language, text in BLOCKS if language == "sh" for line in text.splitlines()]


@pytest.mark.parametrize("number", range(len(PYTHON)))
def test_the_python_examples_run_as_they_stand(number, tmp_path):
    script = "\n".join(PYTHON[: number + 1])
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_of_the_client_runs_against_a_server(serve, tmp_path):
    script = "import seglog\n" + "\n".join(CLIENT).replace("http://127.0.0.1:3000", serve().url) + "print(len(records))"
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.stdout == "1\n", done.stderr


def test_the_commands_run_as_they_stand(tmp_path):
    shown = [line.split("#")[0].strip() for line in COMMANDS if line.startswith("seglog ")]
    commands = [line for line in shown if not line.endswith("-f") and "serve" not in line]  # those go on for ever
    assert len(commands) >= 5
    program = f'seglog() {{ "{sys.executable}" -m seglog "$@"; }}'
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    script = "\n".join([program, "set -e", *commands])
    done = subprocess.run(
        ["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert '"value":"Hello"' in done.stdout.replace(" ", "")
    assert (tmp_path / "orders.parquet").stat().st_size > 0


def test_the_first_screen_says_the_two_commands():
    first_screen = "\n".join(README.splitlines()[:16])
    assert "make demo" in first_screen
    assert "make test" in first_screen
