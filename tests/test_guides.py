"""The tutorial and the how-to guides work as they stand: every command and program of theirs, in order."""

from __future__ import annotations

import pytest

from tests import pages
from tests.test_tools import run_tests

pytestmark = pytest.mark.no_cover
TESTS = """
import pytest

@pytest.mark.examples("howto/upgrade.md")
def test_nothing(examples): pass

@pytest.mark.examples("table.md", "py")
def test_some(examples): assert examples.take("py")
"""


@pytest.mark.examples("tutorial.md")
def test_the_tutorial_runs_as_it_stands(examples, serve, tmp_path):
    shown = examples.run(tmp_path, serve().url)
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


@pytest.mark.examples("howto/backup.md")
def test_the_guide_to_backups_runs_as_it_stands(examples, tmp_path):
    shown = examples.run(tmp_path)
    assert "ann one\nann two\n" in shown
    assert shown.endswith("ann three\n")


@pytest.mark.examples("howto/upgrade.md")
def test_the_guide_to_upgrades_runs_as_it_stands(examples, tmp_path):
    assert "ok: 1 record" in examples.run(tmp_path)


@pytest.mark.examples("howto/monitoring.md")
def test_the_guide_to_monitoring_runs_as_it_stands(examples, serve, tmp_path):
    shown = examples.run(tmp_path, serve().url)
    assert shown.endswith("process orders ['traceparent']\n1 True True\nNone\n")


@pytest.mark.examples("howto/from-kafka.md")
def test_the_guide_from_kafka_runs_as_it_stands(examples, tmp_path):
    shown = examples.run(tmp_path)
    assert sorted(shown.splitlines()[1:3]) == ['ann {"qty": 3}', 'bob {"qty": 1}']
    assert shown.endswith("b'bob' b'{\"qty\": 1}'\n")


@pytest.mark.examples("howto/from-sqlite.md")
def test_the_guide_from_sqlite_runs_as_it_stands(examples, tmp_path):
    assert examples.run(tmp_path).splitlines() == ["600", "600"]


@pytest.mark.examples("howto/notebooks.md")
def test_the_guide_to_notebooks_runs_as_it_stands(examples, tmp_path):
    assert examples.run(tmp_path).splitlines() == [
        "1000 {'sensor': 0, 'celsius': 15}",
        "1000",
        "10",
        '998 b\'{"sensor": 2, "celsius": 23}\'',
        '999 b\'{"sensor": 3, "celsius": 24}\'',
    ]


@pytest.mark.examples("howto/fastapi.md")
def test_the_guide_to_fastapi_runs_as_it_stands(examples, tmp_path):
    assert examples.run_as_one_program(tmp_path).splitlines() == ["{'offset': 0}", "b'clicked' 404"]


def test_every_example_of_every_page_has_a_test_that_runs_it():
    assert len(pages.shown()) > 30
    assert pages.shown() - pages.marked() == set()
    assert {page for page, _ in pages.marked()} == {page for page, _ in pages.shown()}


def test_a_test_that_does_not_run_the_examples_of_its_page_fails(tmp_path):
    status, (*_, failed, counts) = run_tests(tmp_path, TESTS)
    assert (status, counts.split(" in ")[0]) == (1, "1 failed, 1 passed")
    assert "test_nothing - AssertionError: the test ran no examples" in failed
