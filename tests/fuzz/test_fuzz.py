"""Whatever bytes come, from a disk or a network: an answer, or an error of ours. Found once, never again."""

from __future__ import annotations

import random
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.fuzz.choices import Choices, mangled
from tests.fuzz.runner import HERE, LONGEST, TARGETS, committed, fuzz, load, story
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.proofs import Tell

MANGLED = 150  # inputs
PROOF_SECONDS = 3
SEED = 20_240_501


@pytest.mark.parametrize("name", TARGETS)
def test_inputs_that_are_sound_and_those_that_once_showed_a_defect_break_nothing(name: str) -> None:
    target = load(name)
    for data in (*target.seeds(), *committed(name)):
        target.target(data)


@pytest.mark.parametrize("name", TARGETS)
def test_no_mangled_input_breaks_anything(name: str) -> None:
    """The same inputs each time. What a fuzzer finds beyond them is looked for below, and kept in `corpus`."""
    target, chance = load(name), random.Random(SEED)
    sound = [*target.seeds(), *committed(name)]
    for _ in range(MANGLED):
        data = chance.choice(sound)
        for _ in range(chance.randint(1, 4)):
            data = mangled(data, Choices(chance.randbytes(80)))
        target.target(data[: getattr(target, "LONGEST", LONGEST)])


def test_every_committed_input_is_some_targets() -> None:
    assert {path.stem for path in (HERE / "corpus").iterdir()} <= set(TARGETS)


def test_an_input_is_replayed_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"00000000000000000000-1.store")
    command = [sys.executable, "-m", "tests.fuzz", "names", "--replay", str(file)]
    assert subprocess.run(command, check=False, timeout=HANG_SECONDS).returncode == 0


@pytest.mark.proof
@pytest.mark.timeout(400)
@pytest.mark.skipif(
    sys.platform != "linux" or sys.version_info >= (3, 14), reason="atheris is for Linux, and not for Python 3.14"
)
@pytest.mark.parametrize("name", TARGETS)
def test_no_input_that_a_fuzzer_finds_breaks_anything(name: str, tmp_path: Path, tell: Tell) -> None:
    outcome = fuzz(name, tmp_path, seconds=PROOF_SECONDS, seed=SEED)
    assert not outcome.found, story(outcome)
    assert outcome.executions
    tell("fuzzing", target=name, executions=outcome.executions, crashes=len(outcome.found))
