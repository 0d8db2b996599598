"""The tutorial and the how-to guides work as they stand: every command and program of theirs, in order."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_docs import DOCS, run_page

pytestmark = pytest.mark.no_cover


def test_the_tutorial_runs_as_it_stands(serve, tmp_path):
    shown = run_page("tutorial.md", tmp_path, serve().url)
    assert shown.startswith("0\n1\nHello")
    for printed in (
        "2 3\n",
        "range(0, 100000)\n100000 ['offset', 'timestamp', 'key', 'value', 'headers']\n",
        "99997 sensor-47 99997\n",
        "2 Bob\n1 Anna\n",
        "\n0\n[b'invoice 1']\n",
    ):
        assert printed in shown
    assert sorted(shown.splitlines()[-2:]) == ["ann invoice 1", "bob invoice 2"]


def test_the_guide_to_backups_runs_as_it_stands(tmp_path):
    shown = run_page("howto/backup.md", tmp_path)
    assert "ann one\nann two\n" in shown
    assert shown.endswith("ann three\n")


def test_the_guide_to_upgrades_runs_as_it_stands(tmp_path):
    assert "ok: 1 record" in run_page("howto/upgrade.md", tmp_path)


def test_the_guide_to_monitoring_runs_as_it_stands(serve, tmp_path):
    pytest.importorskip("opentelemetry.sdk")
    shown = run_page("howto/monitoring.md", tmp_path, serve().url)
    assert shown.endswith("process orders ['traceparent']\n1 True True\nNone\n")


def test_the_guide_from_kafka_runs_as_it_stands(tmp_path):
    shown = run_page("howto/from-kafka.md", tmp_path)
    assert sorted(shown.splitlines()[1:3]) == ['ann {"qty": 3}', 'bob {"qty": 1}']
    assert shown.endswith("b'bob' b'{\"qty\": 1}'\n")


def test_the_guide_from_sqlite_runs_as_it_stands(tmp_path):
    assert run_page("howto/from-sqlite.md", tmp_path).splitlines() == ["600", "600"]


def test_the_guide_to_notebooks_runs_as_it_stands(tmp_path):
    pytest.importorskip("pandas")
    assert run_page("howto/notebooks.md", tmp_path).splitlines() == [
        "1000 {'sensor': 0, 'celsius': 15}",
        "1000",
        "10",
        '998 b\'{"sensor": 2, "celsius": 23}\'',
        '999 b\'{"sensor": 3, "celsius": 24}\'',
    ]


def test_the_guide_to_fastapi_runs_as_it_stands(tmp_path):
    pytest.importorskip("fastapi")
    blocks = re.findall(r"```python\n(.*?)```", (DOCS / "howto" / "fastapi.md").read_text(), flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["{'offset': 0}", "b'clicked' 404"], done.stderr


def test_every_page_with_examples_has_a_test_that_runs_them():
    pages = {path.relative_to(DOCS).as_posix(): path.read_text("utf-8") for path in DOCS.rglob("*.md")}
    shows = {name for name, text in pages.items() if re.search(r"^```(python|sh)$", text, flags=re.MULTILINE)}
    tests = "".join(path.read_text("utf-8") for path in Path(__file__).parent.rglob("test_*.py"))
    assert {name for name in shows if f'{name.rpartition("/")[2]}"' not in tests} == set()
