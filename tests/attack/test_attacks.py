"""Every attack on a server of its own: its memory stays below 1 GiB, and others are answered meanwhile.

SEGLOG_ATTACK_SECONDS: of each attack, 2 by default. `python -m tests.attack` prints the same figures, and with
`--minutes 10` lets all of them at one server.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.attack.clients import ATTACKS
from tests.attack.place import MIB
from tests.attack.range import run

if TYPE_CHECKING:
    from pathlib import Path

    from tests import proofs

SECONDS = float(os.environ.get("SEGLOG_ATTACK_SECONDS", "2"))
MEMORY = 1024 * MIB
P99 = float(os.environ.get("SEGLOG_ATTACK_P99", "inf"))  # of `/ready`, in seconds: 0.1 is promised on a quiet machine

IN_EACH_RUN = ("slow_heads", "arrow_of_headers")  # one attacks with connections, one with memory
NAMES = [name if name in IN_EACH_RUN else pytest.param(name, marks=pytest.mark.proof) for name in ATTACKS]


@pytest.mark.needs("prlimit", "openssl")
@pytest.mark.xdist_group("attacks")  # one at a time: each measures how long answers take
@pytest.mark.parametrize("name", NAMES)
def test_a_server_under_attack_keeps_its_memory_and_answers_others(
    name: str, tmp_path: Path, tell: proofs.Tell
) -> None:
    found = run(tmp_path, name, SECONDS)
    print(f"{name}: {found}")
    tell("attack", name=name, memory_mib=found.memory // MIB, p99_ms=round(found.p99 * 1000))
    assert found.failed == {}
    assert found.memory < MEMORY
    assert found.p99 < P99
    assert "Traceback" not in found.said
    assert found.appends.get("200", 0) > 0
