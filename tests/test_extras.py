"""Without an extra each use of it ends with one sentence that says how to install it, in a form that works today."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from functools import cache
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from seglog.extras import how_to_install
from seglog.kernels import native
from tests import tools

pytestmark = pytest.mark.no_cover
ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
KAFKA = ["serve", "shop", "--kafka", "127.0.0.1:0"]
COMMANDS = [  # installed extras, words of the command line, the extra that they lack
    ("", ["serve", "shop"], "server"),
    ("", ["read", "http://127.0.0.1:1/orders"], "client"),
    ("", ["mirror", "http://127.0.0.1:1/", "copy"], "client"),
    ("", ["archive", "shop", "s3://bucket/prefix"], "archive"),
    ("", ["read", "s3://bucket/orders"], "archive"),
    ("", ["table", "sync", "shop", "warehouse"], "table"),
    ("", ["demo"], "spark"),
    ("server", KAFKA, "kafka"),
    ("server", ["serve", "shop", "--table", "warehouse"], "table"),
    ("server", ["serve", "shop", "--otel"], "otel"),
    ("server", ["serve", "shop", "--archive", "s3://bucket/prefix"], "archive"),
    ("server", ["serve", "shop", "--follow", "http://127.0.0.1:1"], "client"),
]
PROGRAMS = [
    ("import seglog; seglog.Client('http://127.0.0.1:1')", "client"),
    ("from seglog import AsyncClient", "client"),
    ("from seglog.client import Client", "client"),
    ("import seglog; seglog.replay('http://127.0.0.1:1/orders', object)", "client"),
    ("from seglog.server import Settings, serve", "server"),
    ("from seglog.testing.kafka import KafkaBroker", "kafka"),
    ("from seglog.table import sync", "table"),
    ("from seglog.telemetry import carry", "otel"),
    ("import seglog.spark; seglog.spark.register(None)", "spark"),
    ("from seglog.spark.session import local_session; local_session()", "spark"),
    ("from seglog.spark import table; table(None, 'warehouse/orders')", "spark"),
    ("import os; os.environ.update(PATH='', JAVA_HOME=''); from seglog.spark.java import use_java; use_java()", "java"),
    ("import seglog; seglog.open('s3://bucket/orders')", "archive"),
]
TEXTS = ("*.md", "docs/**/*.md", "examples/**/*.*", "deploy/**/*", "src/**/*.py", "src/**/*.js", "src/**/*.html")
FROM_AN_INDEX = re.compile(r"\b(?:pipx?|uv|poetry)3? (?:install|add)(?:\s+-\S+)*\s+['\"]?seglog\b")


def requirements(extra: str) -> list[str]:
    """Return what pyproject.toml requires for an extra, "" for none; without seglog itself."""
    named = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    return [name for name in named if not name.startswith("seglog")]


def packages(texts: list[str]) -> set[Path]:
    """Return the directories and modules of the distributions that these requirements name, and of all they need."""
    found: set[Path] = set()
    seen: set[tuple[str, str]] = set()
    waiting = applying(texts, "")
    while waiting:
        name, extra = waiting.pop()
        if (name, extra) in seen:
            continue
        seen.add((name, extra))
        one = distribution(name)
        found |= {Path(str(one.locate_file(file.parts[0]))) for file in one.files or () if file.parts[0] != ".."}
        waiting += applying(one.requires or [], extra)
    return found


def applying(texts: list[str], extra: str) -> list[tuple[str, str]]:
    """Return name and extra ("" for none, too) of those requirements that apply here."""
    parsed = [Requirement(text) for text in texts]
    here = [one for one in parsed if one.marker is None or one.marker.evaluate({"extra": extra})]
    return [(one.name, name) for one in here for name in ("", *one.extras)]


@pytest.fixture(scope="module")
def run_with(tmp_path_factory):
    """Run a program in an environment that has seglog with one extra and nothing else."""
    if native.find() is None:
        tools.missing("linker", "the base has no numba to compile the kernels")

    def run(extra, *words):
        command = [sys.executable, "-S", *words]  # -S: without the packages of this environment
        variables = {"PYTHONPATH": f"{installed(extra)}:{ROOT / 'src'}", "PATH": "/usr/bin:/bin"}
        return subprocess.run(command, cwd=work, env=variables, capture_output=True, text=True, check=False)

    @cache
    def installed(extra):
        place = tmp_path_factory.mktemp("packages")
        for path in packages([*requirements(""), *(requirements(extra) if extra else [])]):
            (place / path.name).symlink_to(path)
        return place

    work = tmp_path_factory.mktemp("work")
    return run


def test_the_base_has_no_package_of_an_extra(run_with):
    program = "import sys, seglog; seglog.open(seglog.MemoryStorage()).to_arrow(); print(sys.path); import httpx"
    ended = run_with("", "-c", program)
    assert ended.stderr.splitlines()[-1] == "ModuleNotFoundError: No module named 'httpx'"
    assert "site-packages" not in ended.stdout


@pytest.mark.parametrize(("installed", "words", "extra"), COMMANDS, ids=[" ".join(words) for _, words, _ in COMMANDS])
def test_a_command_says_in_one_line_which_extra_it_lacks(run_with, installed, words, extra):
    ended = run_with(installed, "-m", "seglog", *words)
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert line.startswith("seglog: ") and line.endswith(f": {how_to_install(extra)}")


@pytest.mark.parametrize(("program", "extra"), PROGRAMS)
def test_a_program_raises_an_error_that_says_which_extra_it_lacks(run_with, program, extra):
    last = run_with("", "-c", program).stderr.splitlines()[-1]
    assert last.startswith("seglog.errors.MissingExtra: ") and last.endswith(how_to_install(extra))


def test_every_extra_that_an_error_names_exists():
    texts = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"""(?:require\([^)]*extra=|how_to_install\()["'](\w+)["']""", texts))
    assert named == set(PROJECT["optional-dependencies"]) - {"all", "bench", "dev", "docs"}


def test_nothing_tells_a_user_to_install_from_an_index_that_does_not_have_seglog():
    for form in ("pip install 'seglog[x]'", "pip install -q seglog", "uv add seglog", "pip install\n  seglog"):
        assert FROM_AN_INDEX.search(form)
    assert not FROM_AN_INDEX.search(how_to_install("x"))
    texts = {path: path.read_text("utf-8") for glob in TEXTS for path in ROOT.glob(glob) if path.is_file()}
    assert len(texts) > 300
    assert [str(path) for path, text in texts.items() if FROM_AN_INDEX.search(text)] == []
