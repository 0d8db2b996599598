"""The programs in examples/ do what they promise, as processes, also when they are killed."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, TYPE_CHECKING

import pytest

import seglog
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from tests.proofs import Tell

EXAMPLES = Path(__file__).parents[2] / "examples"
pytestmark = pytest.mark.no_cover


def run(program: str, *words: object) -> str:
    command = [sys.executable, str(EXAMPLES / program), *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=HANG_SECONDS)
    assert done.returncode == 0, done.stderr
    return done.stdout


def start(program: str, *words: object) -> subprocess.Popen[str]:
    command = [sys.executable, str(EXAMPLES / program), *map(str, words)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def pipes(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    assert process.stdin is not None
    assert process.stdout is not None
    return process.stdin, process.stdout


def test_every_example_is_listed_and_tested() -> None:
    listed = re.findall(r"\[(\w+\.py)\]", (EXAMPLES / "README.md").read_text())
    assert sorted(listed) == sorted(path.name for path in EXAMPLES.glob("*.py"))
    assert all(f'"{name}"' in Path(__file__).read_text() for name in listed)


def test_the_classroom_arrives_at_one_number(tmp_path: Path) -> None:
    lines = run("classroom.py", tmp_path / "school").splitlines()
    numbers = dict(line.split(": ") for line in lines if not line.startswith("sheet"))
    assert set(numbers) == {"front row", "back row", "absent student"}
    assert len(set(numbers.values())) == 1
    assert sum("behind" in line for line in lines) == 5, "sheets of 50 instructions, and the last one"


def test_the_bank_knows_its_balances_at_any_time(tmp_path: Path) -> None:
    directory = tmp_path / "bank"
    run("bank.py", directory, "deposit", "ann", 100)
    assert run("bank.py", directory, "transfer", "ann", "bob", 30) == "done\n"
    moment = datetime.now(UTC).isoformat()
    assert run("bank.py", directory, "transfer", "bob", "cleo", 50) == "declined\n"
    assert run("bank.py", directory, "transfer", "bob", "cleo", 10) == "done\n"
    assert run("bank.py", directory, "balances") == "ann 70\nbob 20\ncleo 10\n0 orders executed after offset 4\n"
    assert run("bank.py", directory, "balances", moment).splitlines()[:2] == ["ann 70", "bob 30"]


def played(commands: IO[str], answers: IO[str], known: dict[str, str], choose: random.Random, count: int) -> None:
    """Make changes, each noted once it is acknowledged."""
    for _ in range(count):
        key, value = f"key-{choose.randrange(20)}", f"{choose.randrange(10**9)} " + "x" * choose.randrange(2000)
        if choose.random() < 0.2:
            commands.write(f"delete {key}\n")
            commands.flush()
            assert answers.readline() == "ok\n"
            known.pop(key, None)
        else:
            commands.write(f"set {key} {value}\n")
            commands.flush()
            assert answers.readline() == "ok\n"
            known[key] = value


@pytest.mark.parametrize("rounds", [pytest.param(2, id="few"), pytest.param(15, marks=pytest.mark.proof, id="many")])
def test_the_key_value_store_recovers_after_kill_9(rounds: int, tmp_path: Path, tell: Tell) -> None:
    known, choose, changes = dict[str, str](), random.Random(rounds), 0
    for number in range(rounds):
        count = choose.randrange(100, 300)
        with start("kv.py", tmp_path / "store", "serve") as process:
            commands, answers = pipes(process)
            assert answers.readline().endswith("changes recovered from the log\n")
            played(commands, answers, known, choose, count)
            key, value = f"key-{choose.randrange(20)}", f"in flight {number}"
            commands.write(f"set {key} {value}\n")
            commands.flush()
            process.send_signal(signal.SIGKILL)
        changes += count
        found = json.loads(run("kv.py", tmp_path / "store", "dump"))
        if found.get(key) == value:
            known[key] = value  # not acknowledged, but written
        assert found == known
    with seglog.open(tmp_path / "store" / "wal", mode="r") as log:
        assert log.next_offset >= changes
        assert seglog.Snapshots(tmp_path / "store" / "snapshots").offsets()
        assert log.lowest_offset or changes < 2500, "old records expire"
    tell("a key-value store that is killed", kills=rounds, acknowledged_changes=changes, lost=0)


def test_workers_share_requests_and_continue_after_kill_9(tmp_path: Path) -> None:
    directory = tmp_path / "work"
    run("workers.py", directory, "submit", 60)
    with start("workers.py", directory, "work", 0, 3) as killed:
        _, answers = pipes(killed)
        assert [answers.readline() for _ in range(5)] == [f"request {number}\n" for number in range(0, 15, 3)]
        killed.kill()
    run("workers.py", directory, "submit", 60)
    workers = [start("workers.py", directory, "work", number, 3) for number in range(3)]
    handled = [[int(line.split()[1]) for line in worker.communicate()[0].splitlines()] for worker in workers]
    assert handled[1:] == [list(range(1, 120, 3)), list(range(2, 120, 3))]
    assert handled[0] == list(range(handled[0][0], 120, 3)), "it continues after what it had done"
    assert handled[0][0] >= 15
    shown = [line.split() for line in run("workers.py", directory, "results").splitlines()]
    assert [int(offset) for offset, *_ in shown] == list(range(120)), "none is missing, none is done twice"
    for offset, *factors in shown:
        product = 1
        for factor in factors:
            product *= int(factor)
        assert product == 10_000_000 + 7919 * (int(offset) % 60)
