"""The mutation check: each sync, rename, lock and checksum line is taken out in turn, and some test must fail.

    python -m tests.crash.mutants [PART OF A PATH ...] [--list] [--again]

The lines are found in the source, so that a new one is under proof from the day it is written. A copy of the source is
changed, one line at a time, and the tests run on it, the likeliest first, until one fails. What was caught before, with
the same module, is not run again.
"""

from __future__ import annotations

import argparse
import ast
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tests.proofs import DIRECTORY, tell

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
PROVEN = ("storage/local.py", "storage/subdirectory.py", "segment", "log", "keyed", "topic", "format", "kernels")
SYNCS = {"datasync", "_datasync", "fsync", "fdatasync", "sync_directory", "must_sync", "_sync"}
RENAMES = {"rename", "replace", "link"}
LOCKS = {"flock", "try_lock"}
CHECKSUMS = re.compile(r"_?(check|checksum|digest|intdigest|hexdigest|salt|xxh64\w*)")
CUTS, TOPIC_CUTS = "tests/crash/test_power_loss.py", "tests/crash/test_topic_power_loss.py"
REPAIRS, TOPIC_REPAIRS = "tests/crash/test_repair.py", "tests/crash/test_repair_of_topics.py"
LIKELY = {
    "storage/subdirectory": ["tests/storage", TOPIC_CUTS],
    "storage": ["tests/storage", "tests/crash/test_system_faults.py", "tests/log/test_bad_places.py"],
    "format/laminarmq": ["tests/format/test_laminarmq.py"],
    "format": [
        "tests/format",
        "tests/log/test_long_records.py",
        "tests/recovery/test_torn.py",
        "tests/recovery/test_rotten.py",
    ],
    "kernels": ["tests/kernels"],
    "keyed": [CUTS, "tests/keyed"],
    "topic/care": [TOPIC_REPAIRS, "tests/topic/test_care.py"],
    "topic/description": [TOPIC_REPAIRS, TOPIC_CUTS],
    "topic": [TOPIC_CUTS, "tests/topic"],
    "log/pins": ["tests/log/test_pins.py", "tests/recovery/test_pin_faults.py"],
    "log/leases": [
        "tests/recovery/test_followers.py",
        "tests/recovery/test_concurrency.py",
        "tests/log/test_readers.py",
    ],
    "log/staging": [CUTS, "tests/recovery/test_publish_faults.py", "tests/log/test_publish.py"],
    "log/catalog": [CUTS, REPAIRS, "tests/recovery/test_order_of_writes.py"],
    "log/quarantine": [REPAIRS, CUTS, "tests/recovery/test_rotten.py"],
    "log/repair": [REPAIRS, "tests/recovery/test_rotten.py", "tests/log/test_live_repair.py", "tests/recovery"],
    "log": [CUTS, "tests/recovery/test_order_of_writes.py", "tests/recovery/test_concurrency.py", "tests/recovery"],
    "segment": [CUTS, "tests/segment", "tests/recovery"],
}
"""Where a mutant is most likely noticed, by the beginning of its path; the longest one counts."""
REST = [f"tests/{room}" for room in ("storage", "format", "kernels", "segment", "recovery", "keyed", "log", "topic")]
SECONDS = 1800
NOTHING_COLLECTED = 5


class Mutant(NamedTuple):
    """One line taken out. kind: sync, rename, lock or checksum; text: the line; code: the module without it."""

    path: str
    line: int
    kind: str
    text: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}"


def methods(node: ast.AST) -> set[str]:
    """Return the names of all attributes (methods called or handed over, mostly) within a node."""
    return {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def called(node: ast.AST) -> set[str]:
    """Return the names of all attributes, functions and variables within a node."""
    return methods(node) | {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def kind_of(statement: ast.stmt) -> str | None:
    """Return what a statement that does nothing but call is about; None for any other."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    wanted = (("sync", SYNCS, called), ("rename", RENAMES, methods), ("lock", LOCKS, called))
    return next((kind for kind, words, names in wanted if names(statement) & words), None)


def is_check(test: ast.expr) -> bool:
    """Whether an expression compares a checksum, a digest or a salt with another."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
        return False
    return any(CHECKSUMS.fullmatch(name) for name in called(test))


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str]]:
    """Give (kind, node, what stands there instead) for every line to take out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and (kind := kind_of(node)) is not None:
            yield kind, node, "pass"
        elif isinstance(node, ast.Compare) and is_check(node):
            yield "checksum", node, str(isinstance(node.ops[0], (ast.Eq, ast.In)))
        elif isinstance(node, ast.If) and "lock" in called(node.test) and isinstance(node.test, ast.Compare):
            yield "lock", node.test, "False"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Give the mutants of one module."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    for kind, node, instead in places(ast.parse(source)):
        assert isinstance(node, (ast.stmt, ast.expr))
        assert node.end_lineno is not None
        before = "".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
        after = lines[node.end_lineno - 1][node.end_col_offset :] + "".join(lines[node.end_lineno :])
        relative = str(path.relative_to(SOURCE / "seglog"))
        yield Mutant(relative, node.lineno, kind, lines[node.lineno - 1].strip(), before + instead + after)


def mutants(wanted: list[str]) -> list[Mutant]:
    """Return every mutant, of the modules whose path holds one of the words."""
    found = []
    for part in PROVEN:
        root = SOURCE / "seglog" / part
        for path in [root] if root.is_file() else sorted(root.rglob("*.py")):
            if not wanted or any(word in str(path) for word in wanted):
                found += mutants_of(path)
    return found


def suites(mutant: Mutant) -> list[list[str]]:
    """Return the tests that may notice a mutant, the likeliest first, each to be run when those before have passed."""
    best = max((start for start in LIKELY if mutant.path.startswith(start)), key=len)
    return [*([suite] for suite in LIKELY[best]), REST]


def is_sound(copy: Path, found: list[Mutant]) -> bool:
    """Whether the tests pass on the source as it is: else their failures would say nothing."""
    wanted = {suite for mutant in found for one in suites(mutant) for suite in one}
    failed = _first_failure(copy, sorted(wanted))
    if failed is not None:
        print(f"without any change {failed} fails: mend that first")
    return failed is None


def caught_by(mutant: Mutant, copy: Path) -> str | None:
    """Run the tests on the source without the line; return the first that fails, None if none does."""
    changed = copy / "src" / "seglog" / mutant.path
    whole = changed.read_text()
    changed.write_text(mutant.code)
    forget_kernels(copy)
    try:
        for suite in suites(mutant):
            failed = _first_failure(copy, suite)
            if failed is not None:
                return failed
        return None
    finally:
        changed.write_text(whole)
        forget_kernels(copy)


def forget_kernels(copy: Path) -> None:
    """Remove what was compiled: a kernel is not compiled anew where only what it inlines from a module has changed."""
    for compiled in (copy / "src").rglob("*.nb[ci]"):
        compiled.unlink()


def _first_failure(copy: Path, suite: list[str]) -> str | None:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "-m",
        "not proof and not deep and not spark",
        "--timeout=120",
    ]
    environment = {**os.environ, "PYTHONPATH": f"{copy / 'src'}{os.pathsep}{copy}", "PYTHONDONTWRITEBYTECODE": "1"}
    environment["SEGLOG_PROOFS"] = str(copy / ".proofs")
    existing = [path for path in suite if (copy / path).exists()]
    try:
        run = subprocess.run(
            [*command, *existing],
            cwd=copy,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return "the time limit"
    if run.returncode == 0:
        return None
    failures = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    if not failures and run.returncode != NOTHING_COLLECTED:
        raise RuntimeError(f"pytest ended with {run.returncode} and no test that failed:\n{run.stdout[-2000:]}")
    return failures[0].split(" ")[1] if failures else None


def fingerprint(mutant: Mutant) -> str:
    """Return what an earlier result rests on: the module without the line."""
    return hashlib.sha256(f"{mutant.path}\n{mutant.code}".encode()).hexdigest()[:16]


def earlier(again: bool) -> dict[str, str]:
    """Return what caught which mutant, by fingerprint, in runs before."""
    kept = DIRECTORY / "mutants" / "caught.json"
    return json.loads(kept.read_text()) if kept.exists() and not again else {}


def keep(caught: dict[str, str]) -> None:
    """Keep it for the next run."""
    kept = DIRECTORY / "mutants" / "caught.json"
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_text(json.dumps(caught, indent=1))


def main() -> int:
    """Run the check; exit status 1 where a line can go unnoticed."""
    parser = argparse.ArgumentParser(prog="python -m tests.crash.mutants", description=main.__doc__)
    parser.add_argument("wanted", nargs="*")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    found = mutants(options.wanted)
    if options.list:
        print("\n".join(f"{mutant.kind:9} {mutant.name:32} {mutant.text}" for mutant in found))
        return 0
    return check(found, earlier(options.again))


def check(found: list[Mutant], caught: dict[str, str]) -> int:
    """Try every mutant that was not caught before, and tell what came of it."""
    survived = []
    with tempfile.TemporaryDirectory() as directory:
        copy = Path(directory)
        for part in ("src", "tests", "docs", "benchmarks"):
            shutil.copytree(ROOT / part, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
        for part in ("pyproject.toml", "README.md"):
            shutil.copy(ROOT / part, copy / part)
        if not is_sound(copy, found):
            return 2
        for mutant in found:
            mark = fingerprint(mutant)
            by = caught.get(mark) or caught_by(mutant, copy)
            print(f"{mutant.kind:9} {mutant.name:32} {by or 'SURVIVED'}: {mutant.text}", flush=True)
            if by is None:
                survived.append(mutant)
            else:
                caught[mark] = by
                keep(caught)
    for kind in sorted({mutant.kind for mutant in found}):
        of_kind = [mutant for mutant in found if mutant.kind == kind]
        missed = [mutant for mutant in survived if mutant.kind == kind]
        tell("mutants", kind=kind, lines=len(of_kind), noticed=len(of_kind) - len(missed), violations=len(missed))
    return 1 if survived else 0


if __name__ == "__main__":
    sys.exit(main())
