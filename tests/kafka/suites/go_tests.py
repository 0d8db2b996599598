"""What suites of Go share: the results of `go test -v`, of a test binary that is built once."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kafka.suites.verdicts import FAILED, PASSED, SKIPPED, Verdict, Verdicts

RESULT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(")
PRESENT = re.compile(r"^=== (?:RUN|CONT|NAME)\s+(\S+)$")
SAID = re.compile(r"^\s+\S+\.go:\d+: (.*)$")
STATES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}


def run_tests(
    binary: Path, names: str, *, cwd: Path, env: Mapping[str, str], seconds: float, options: Sequence[str] = ()
) -> Verdicts:
    """Run the tests that match, with their subtests; return how each ended."""
    command = [binary, "-test.v", "-test.run", names, f"-test.timeout={seconds:.0f}s", *options]
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=seconds + 60,
        check=False,
    )
    return read(done.stdout.decode(errors="replace"))


def read(text: str) -> Verdicts:
    """Return how each test ended, with the first line of it or of its subtests. One that did not end has failed."""
    found: Verdicts = {}
    said: dict[str, str] = {}
    present = ""
    for line in text.splitlines():
        if began := PRESENT.match(line):
            present = began[1]
            found.setdefault(present, Verdict(FAILED, "it did not end"))
        elif ended := RESULT.match(line):
            found[ended[2]] = Verdict(STATES[ended[1]])
        elif spoke := SAID.match(line):
            said.setdefault(present, spoke[1])
            said.setdefault(present.partition("/")[0], spoke[1])
    return {
        name: one._replace(why=said[name]) if name in said and one.state != PASSED else one
        for name, one in found.items()
    }
