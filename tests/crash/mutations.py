"""The lines that the mutation check takes out of the source, found by what they do.

    kind      a line that                                                     what is put in its place
    sync      puts a file or a directory on the disk                          nothing
    rename    renames or links a file                                         nothing
    lock      takes a lock, or depends on whether another process has it      nothing; that no other has it
    checksum  compares a checksum, a digest or a salt                         that they agree
    identity  asks whether this is still the same log, file or history        that it is
    cut       removes what a failed write or a truncate leaves                nothing
    stop      stops a writer that may promise nothing more, refuses a call    nothing

New lines are found by the same rules, so they are checked from the day they are written. What no test can notice is in
EQUIVALENT, with the reason.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "seglog"
CHECKED = ("storage", "segment", "log", "compaction", "arrow", "parallel", "topic", "format", "kernels")

KINDS = ("sync", "rename", "lock", "checksum", "identity", "cut", "stop")

CALLS = (
    (
        "sync",
        {"fsync", "fdatasync", "datasync", "sync_data", "sync_descriptor", "_FULL_SYNC", "sync_directory", "must_sync"}
        | {"_sync", "sync", "sync_store", "_sync_store", "_sync_aside", "_sync_own_name"},
    ),
    ("lock", {"flock", "try_lock"}),
    ("identity", {"check_home", "check_places", "begin_epoch"}),
    ("cut", {"truncate", "ftruncate", "_roll_back", "retreat", "pull_back_pins"}),
    ("stop", {"_poison", "fail"}),
)
"""Statements that only call one of these functions, or give one to another, are left out."""
RENAMES = {"rename", "replace", "link"}  # methods only: `replace` is also a function of dataclasses
CHECKSUMS = re.compile(r"_?(check|checksum|digest|intdigest|hexdigest|salt|xxh64\w*)")
IDENTITIES = re.compile(r"_?(identity|identity_of|log_id|epoch|home|boot)")
TAKEN = re.compile(r"(\w+_)?lock")
VERDICTS = {"is_current": "identity", "is_certain": "identity", "_add_around": "lock"}
"""Calls whose result is taken for True instead."""
STOPS = {"LogPoisoned", "LogReadOnly", "LogReplaced", "LogTruncated", "OnceConflict", "PlanStale", "ReentrantCall"}
"""Errors that are not raised."""

EQUIVALENT: dict[tuple[str, str], str] = {}
"""(path, line) -> why no test can notice that it is missing."""


class Mutant(NamedTuple):
    """One line taken out. text: the line; code: the module without it."""

    path: str
    line: int
    kind: str
    text: str
    code: str

    @property
    def name(self) -> str:
        return f"{self.path}:{self.line}"


def methods(node: ast.AST) -> set[str]:
    """Return the names of all attributes (methods called or passed on, mostly) within a node."""
    return {inner.attr for inner in ast.walk(node) if isinstance(inner, ast.Attribute)}


def called(node: ast.AST) -> set[str]:
    """Return the names of all attributes, functions and variables within a node."""
    return methods(node) | {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}


def kind_of(statement: ast.stmt) -> str | None:
    """Return what a statement that only calls something is about; None for any other."""
    if not isinstance(statement, ast.Expr) or not isinstance(statement.value, ast.Call):
        return None
    if methods(statement) & RENAMES:
        return "rename"
    names = called(statement.value)
    if "ownership" in names and any(name.startswith("check") for name in names):
        return "identity"
    return next((kind for kind, words in CALLS if names & words), None)


def stops(statement: ast.stmt) -> bool:
    """Whether a statement raises one of STOPS."""
    if not isinstance(statement, ast.Raise) or not isinstance(statement.exc, ast.Call):
        return False
    return isinstance(statement.exc.func, ast.Name) and statement.exc.func.id in STOPS


def compared(test: ast.AST, names: re.Pattern[str]) -> bool:
    """Whether an expression compares something of these names with something else."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Eq, ast.NotEq, ast.In, ast.NotIn)):
        return False
    return any(names.fullmatch(name) for name in called(test))


def asks_for_lock(test: ast.AST) -> bool:
    """Whether an expression asks whether a lock was taken."""
    if not isinstance(test, ast.Compare) or not isinstance(test.ops[0], (ast.Is, ast.IsNot)):
        return False
    return any(TAKEN.fullmatch(name) for name in called(test))


def verdict(node: ast.AST) -> str | None:
    """Return the kind of a call of VERDICTS; None for anything else."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, (ast.Attribute, ast.Name)):
        return None
    return VERDICTS.get(node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id)


def places(tree: ast.Module) -> Iterator[tuple[str, ast.AST, str]]:
    """Yield (kind, node, what is put in its place) for every line to take out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.stmt) and (kind := "stop" if stops(node) else kind_of(node)) is not None:
            yield kind, node, "pass"
        elif compared(node, CHECKSUMS) or compared(node, IDENTITIES):
            assert isinstance(node, ast.Compare)
            kind = "checksum" if compared(node, CHECKSUMS) else "identity"
            yield kind, node, str(isinstance(node.ops[0], (ast.Eq, ast.In)))
        elif isinstance(node, (ast.If, ast.IfExp)) and asks_for_lock(node.test):
            yield "lock", node.test, "False"
        elif (kind := verdict(node)) is not None:
            yield kind, node, "True"


def mutants_of(path: Path) -> Iterator[Mutant]:
    """Yield the mutants of one module."""
    source = path.read_text()
    lines = source.splitlines(keepends=True)
    for kind, node, instead in places(ast.parse(source)):
        assert isinstance(node, (ast.stmt, ast.expr))
        assert node.end_lineno is not None
        before = "".join(lines[: node.lineno - 1]) + lines[node.lineno - 1][: node.col_offset]
        after = lines[node.end_lineno - 1][node.end_col_offset :] + "".join(lines[node.end_lineno :])
        relative = str(path.relative_to(SOURCE))
        yield Mutant(relative, node.lineno, kind, lines[node.lineno - 1].strip(), before + instead + after)


def mutants(wanted: list[str]) -> list[Mutant]:
    """Return every mutant of the modules whose path contains one of the words, kind by kind.

    Those of EQUIVALENT are left out.
    """
    found = []
    for part in CHECKED:
        for path in sorted((SOURCE / part).rglob("*.py")):
            relative = str(path.relative_to(SOURCE))
            if not wanted or any(word in relative for word in wanted):
                found += [one for one in mutants_of(path) if (one.path, one.text) not in EQUIVALENT]
    return sorted(found, key=lambda one: KINDS.index(one.kind))
