"""The gate: what its steps take is counted, and a change is followed to the tests that it can break."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tools import affected, gate

SPIN = "import time\nuntil = time.process_time() + 0.3\nwhile time.process_time() < until: pass"


def step(program: str, usual: float = 1.0) -> gate.Step:
    return gate.Step("a step", (sys.executable, "-c", program), usual)


def test_what_a_process_takes_that_outlives_its_step_is_counted() -> None:
    left = f"import subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {SPIN!r}])"
    took = gate.run(step(left))
    assert took.status == 0
    assert took.processor >= 0.3


def test_a_process_that_a_step_leaves_for_good_fails_it() -> None:
    impatient = "from tools import gate; gate.LINGER_S = 0.2"
    leaving = "raise SystemExit(gate.with_descendants(['sh', '-c', 'sleep 5 &']))"
    assert gate.run(step(f"{impatient}\n{leaving}")).status == 1


def test_a_step_that_fails_has_its_status_and_its_output_is_shown(capfd: pytest.CaptureFixture[str]) -> None:
    assert gate.run(step("print('what went wrong'); raise SystemExit(3)")).status == 3
    assert "what went wrong" in capfd.readouterr().out


def test_the_gate_fails_if_a_signal_ended_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "run", lambda step: gate.Took(step, -9, 0.0, 0.0))
    assert gate.main([]) == 1


def test_a_step_that_grew_is_a_warning_at_the_speed_of_this_machine() -> None:
    usual, grown = gate.Took(step(""), 0, 9.0, 1.0), gate.Took(step(""), 0, 9.0, 1.0 + gate.GROWTH)
    assert "warning" not in gate.table([usual], 9.0, (gate.YARDSTICK, 1.0))
    assert "warning: a step took" in gate.table([grown], 9.0, (gate.YARDSTICK, 1.0))
    assert "warning" not in gate.table([grown], 9.0, (gate.YARDSTICK / 2, 1.0))
    assert "the gate is to end" in gate.table([usual], gate.WALL_S + 1.0, (1.0, 1.0))


@pytest.mark.xdist_group("affected")  # the imports of all modules are read once
@pytest.mark.parametrize(
    ("changed", "some", "none"),
    [
        ("src/seglog/kafka/records/encode.py", "kafka", "log"),
        ("src/seglog/segment/reader.py", "spark", "format"),
        ("src/seglog/server/console/fields.js", "server", "segment"),
        ("tests/topic/test_fetch.py", "topic", "kafka"),
        ("tests/kafka/conftest.py", "kafka", "segment"),
        ("tests/crash/scenarios.py", "crash", "kafka"),
        ("tests/crash/programs/log_writer.py", "crash", "kafka"),
        ("tests/fuzz/corpus/http.txt", "fuzz", "log"),
        ("tools/readme.py", "test_readme.py", "log"),
        ("benchmarks/coldstart.py", "test_benchmarks.py", "log"),
    ],
)
def test_a_change_affects_the_tests_of_what_imports_it_and_no_others(changed: str, some: str, none: str) -> None:
    found = affected.affected([changed])
    assert any(Path(path).is_relative_to(f"tests/{some}") for path in found)
    assert not any(Path(path).is_relative_to(f"tests/{none}") for path in found)


@pytest.mark.xdist_group("affected")
def test_a_change_of_what_all_tests_use_affects_all() -> None:
    assert affected.affected(["constraints.txt"]) == affected.affected(["tests/conftest.py"]) == ["tests"]
    assert affected.affected(["docs/spark.md"]) == []
