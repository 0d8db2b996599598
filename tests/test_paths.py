"""`python -m tools.paths`: the modules that an operation enters."""

import subprocess
import sys

import pytest

from tools.paths import Operation, measure, trace


def test_the_tool_names_the_modules_that_an_append_enters() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tools.paths", "single_append", "--modules"], capture_output=True, text=True, check=True
    )
    name, modules, changes = done.stdout.splitlines()[1].split()
    listed = [line.strip() for line in done.stdout.splitlines()[2:]]
    assert name == "single_append"
    assert listed[0] == "seglog.log.writer"
    assert 1 < len(listed) == int(modules) <= int(changes)


def test_an_operation_that_calls_nothing_of_seglog_enters_no_module() -> None:
    assert trace(Operation(lambda: sum(range(3)))) == ([], 0)


@pytest.mark.parametrize("name", ["batch_append", "point_read", "compaction"])
def test_each_operation_can_be_traced(name: str) -> None:

    assert measure(name).changes > 1
