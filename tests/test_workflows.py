"""The workflows of GitHub Actions cannot run here; what they run exists."""

from __future__ import annotations

import re
import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

from tests.kafka.suites.__main__ import SUITES

ROOT = Path(__file__).parents[1]
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in (ROOT / ".github/workflows").glob("*.yml")}
STEPS = [
    (name, job, step)
    for name, flow in WORKFLOWS.items()
    for job in flow["jobs"].values()
    for step in job["steps"]
    if "run" in step
]


def values(job: dict, command: str) -> list[str]:
    """Return a command with each value of the matrix that it uses."""
    used = re.search(r"\$\{\{ matrix\.(\w+) \}\}", command)
    if used is None:
        return [command]
    return [command.replace(used[0], str(value)) for value in job["strategy"]["matrix"][used[1]]]


COMMANDS = [(name, command) for name, job, step in STEPS for command in values(job, step["run"])]


@pytest.mark.parametrize(("workflow", "command"), COMMANDS, ids=[" ".join(one) for one in COMMANDS])
def test_what_a_workflow_runs_exists(workflow, command):
    programs = {program for _, program in re.findall(r"(^|&& )(\S+)", command)}
    targets = re.findall(r"\bmake (\S+)", command)
    makefile = (ROOT / "Makefile").read_text()
    assert programs <= {"make", "bash", "grep", "docker", "SEGLOG_PURE=1", ".venv/bin/python", "seglog"}
    assert all(re.search(rf"^(.* )?{target}( .*)?:", makefile, re.MULTILINE) for target in targets), targets
    assert all(find_spec(module) for module in re.findall(r"-m (\S+)", command))


def test_each_python_of_the_classifiers_is_tested():
    classifiers = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    named = {found[1] for one in classifiers if (found := re.search(r":: (3\.\d+)$", one))}
    assert named <= set(WORKFLOWS["gate"]["jobs"]["test"]["strategy"]["matrix"]["python"])
    assert named


def test_each_suite_of_others_runs_each_night():
    assert set(WORKFLOWS["nightly"]["jobs"]["suites"]["strategy"]["matrix"]["suite"]) == set(SUITES)
