"""A forked program is a process as any other: output, environment, directory, status, signals."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests import forked

if TYPE_CHECKING:
    from pathlib import Path


def test_a_program_has_the_arguments_environment_directory_and_output_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    text = "import os, sys; print(sys.argv, os.environ['WORD'], os.getcwd()); print('error', file=sys.stderr)"
    program = forked.start([sys.executable, "-c", text, "one"], {**os.environ, "WORD": "here"})
    assert isinstance(program, forked.Process)
    said, _ = program.communicate()
    assert sorted(said.splitlines()) == [f"['-c', 'one'] here {tmp_path}", "error"]
    assert program.returncode == 0


@pytest.mark.parametrize(("text", "status"), [("raise SystemExit(7)", 7), ("no_such_name", 1), ("pass", 0)])
def test_the_status_is_that_of_the_program(text: str, status: int) -> None:
    program = forked.start([sys.executable, "-c", text])
    said, _ = program.communicate()
    assert program.poll() == program.returncode == status
    assert ("NameError" in said) == (status == 1)


def test_a_module_runs_as_with_m() -> None:
    said, _ = forked.start([sys.executable, "-m", "seglog", "--version"]).communicate()
    assert said.startswith("seglog ")


def test_signals_reach_it_and_its_end_is_seen_without_waiting() -> None:
    program = forked.start([sys.executable, "-c", "import time; print('up', flush=True); time.sleep(10_000)"])
    assert program.stdout is not None
    assert program.stdout.readline() == "up\n"
    assert program.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        program.wait(0)
    program.kill()
    program.communicate()
    assert program.wait() == -signal.SIGKILL
    program.terminate()  # it has ended: nothing happens


def test_a_program_that_needs_what_an_import_reads_is_a_new_process() -> None:
    program = forked.start([sys.executable, "-c", "pass"], {**os.environ, "SEGLOG_KERNELS": "jit"})
    assert isinstance(program, subprocess.Popen)
    program.communicate()
