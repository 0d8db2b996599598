"""The programs that tests need are installed where possible; a test without its program is skipped and counted."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests import tools

REPOSITORY = Path(__file__).parents[1]
TESTS = """
import pytest
from tests import tools

@pytest.fixture(scope="module")
def browser():
    tools.missing("chromium", "it does not start")

@pytest.fixture
def prepared():
    raise AssertionError("made without its tool")

@pytest.mark.needs("curl")
def test_downloads(prepared): raise AssertionError("run without its tool")

@pytest.mark.parametrize("page", [1, 2])
def test_pages(browser, page): raise AssertionError("run without its tool")

def test_others(): pass
"""
APT = """#!/bin/sh
echo "$0 $*" >> {calls}
case "$*" in *chromium*) echo "E: there is no such package" >&2; exit 100; esac
case "$*" in *install*curl*) printf '#!/bin/sh\\n' > {curl}; chmod +x {curl}; esac
"""


def run_tests(place: Path, text: str = TESTS, **environment: str) -> tuple[int, list[str]]:
    """Run tests with this project's pytest and no program on PATH; return the status and the last lines."""
    (place / "test_it.py").write_text(text)
    options = ["-c", str(REPOSITORY / "pyproject.toml"), "-p", "tests.conftest", "-p", "no:xdist", str(place)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=REPOSITORY,
        env={"PATH": str(place), "HOME": str(place), "SEGLOG_PROOFS": str(place / "proofs"), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout.splitlines()[-2:]


def test_without_its_tool_a_test_is_skipped_and_one_line_counts_what_was_skipped(tmp_path: Path) -> None:
    status, (line, counts) = run_tests(tmp_path)
    assert status == 0
    assert line.startswith("skipped because a tool is missing or not permitted here: chromium (2 tests), curl (1 test)")
    assert counts.startswith("1 passed, 3 skipped")


def test_where_tools_are_required_a_test_without_its_tool_fails(tmp_path: Path) -> None:
    status, (_, counts) = run_tests(tmp_path, SEGLOG_REQUIRE_TOOLS="1")
    assert status == 1
    assert counts.startswith("1 passed, 3 errors")


def test_what_the_package_manager_has_is_installed_although_it_lacks_something_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    calls = tmp_path / "calls"
    for name, script in {
        "apt-get": APT.format(calls=calls, curl=tmp_path / "curl"),
        "sudo": '#!/bin/sh\nshift\nexec "$@"\n',  # `sudo -n`, for those who are not root
        "true": "#!/bin/sh\n",
    }.items():
        (tmp_path / name).write_text(script)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", os.pathsep.join([str(tmp_path), str(Path(shutil.which("chmod") or "").parent)]))
    tools.install(["chromium", "curl"])
    done = [line.split()[1:] for line in calls.read_text().splitlines()]
    assert [(words[0], words[-1]) for words in done[1:]] == [
        ("install", "curl"),
        ("install", "chromium"),
        ("install", "curl"),
    ]
    assert done[0][0] == "update"
    assert tools.find("curl") == str(tmp_path / "curl")
    assert "there is no such package" in capfd.readouterr().err


@pytest.mark.parametrize("manager", [None, "apt-get"])
def test_where_nothing_may_be_installed_nothing_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, manager: str | None
) -> None:
    if manager:
        (tmp_path / manager).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / manager).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    tools.install(["curl"])
    assert tools.find("curl") is None


def test_every_tool_that_a_test_names_is_known_and_no_test_looks_for_one_by_itself() -> None:
    needed = set()
    for file in {*(REPOSITORY / "tests").rglob("*.py")} - {Path(__file__)}:
        text = file.read_text()
        for named in re.findall(r"mark\.needs\(([^)]*)\)", text):
            assert {*re.findall(r'"([\w-]+)"', named)} <= {*tools.PROGRAMS, "java"}, file
            needed |= {*re.findall(r'"([\w-]+)"', named)}
        skip = re.search(r"skipif\(.*(which|find_spec)|importorskip", text)
        assert skip is None, f"{file}: {skip} would be neither counted nor forbidden in CI"
    assert {"java", "linker", "strace"} <= needed


@pytest.mark.xdist_group("grouped")
def test_tests_of_a_group_run_in_one_process(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER" in os.environ and request.config.getoption("loadgroup"):
        assert request.node.nodeid.endswith("@grouped"), "pytest-xdist ignores groups with this version of pytest"
