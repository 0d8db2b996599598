"""What suites of Go share: the results of `go test -v`, of a test binary that is built once."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.kafka.suites.verdicts import FAILED, PASSED, SKIPPED, Verdict, Verdicts

RESULT = re.compile(r"^\s*--- (PASS|FAIL|SKIP): (\S+) \(", re.MULTILINE)
STARTED = re.compile(r"^=== RUN\s+(\S+)$", re.MULTILINE)
STATES = {"PASS": PASSED, "FAIL": FAILED, "SKIP": SKIPPED}
SAID = re.compile(r"^\s+\S+\.go:\d+: (.*)$", re.MULTILINE)


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
    """Return how each test ended, with what it last reported. One that began and did not end has failed."""
    found = {name: Verdict(FAILED, "it did not end") for name in STARTED.findall(text)}
    for match in RESULT.finditer(text):
        state = STATES[match[1]]
        found[match[2]] = Verdict(state, "" if state == PASSED else _said(text, match))
    return found


def _said(text: str, result: re.Match[str]) -> str:
    """Return the lines of a test: before its result, or after it, where Go prints them without -v."""
    after = text[result.end() :].split("--- ", 1)[0]
    before = text[: result.start()].rpartition(f"=== RUN   {result[2]}\n")[2]
    lines = SAID.findall(after) or SAID.findall(before)
    return lines[-1] if lines else ""
