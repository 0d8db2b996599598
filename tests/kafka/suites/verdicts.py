"""What a suite has found of each of its tests on each side, and the tables of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
WORST = (PASSED, SKIPPED, FAILED)
WHY = 160


class Verdict(NamedTuple):
    """How a test ended. why: what it reported, of a failed or skipped one."""

    state: str
    why: str = ""


Verdicts = dict[str, Verdict]
"""Test -> how it ended."""


def one_line(text: str) -> str:
    """Return the first characters of a text, in one line of a table."""
    return " ".join(text.split()).replace("|", "/")[:WHY]


def counts(found: Verdicts) -> str:
    """Return how many tests passed, failed and were skipped."""
    number = Counter(verdict.state for verdict in found.values())
    if not number.keys() <= {*WORST}:  # answers, which are compared
        return f"{len(found)} answers"
    return f"{number[PASSED]} passed, {number[FAILED]} failed, {number[SKIPPED]} skipped"


def different(theirs: Verdicts, ours: Verdicts) -> list[tuple[str, str, str, str]]:
    """Return the tests that ended differently: name, state on Kafka, state here, and what failed."""
    found = []
    for name in sorted({*theirs, *ours}):
        there, here = theirs.get(name, Verdict("not run")), ours.get(name, Verdict("not run"))
        if there.state != here.state:
            found.append((name, there.state, here.state, one_line(here.why or there.why)))
    return found


def report(suite: str, sides: Mapping[str, Verdicts]) -> str:
    """Return the counts of each side and, with both, the tests that ended differently, as Markdown."""
    lines = [f"### {suite}", "", "| broker | tests |", "|---|---|"]
    lines += [f"| {side} | {counts(found)} |" for side, found in sides.items()]
    for side, found in sides.items():
        failed = [f"- {name}: {one_line(one.why)}" for name, one in sorted(found.items()) if one.state == FAILED]
        lines += ["", f"Failed on {side}:", *failed] if failed else []
    if len(sides) == 2:
        theirs, ours = sides.values()
        rows = [f"| {' | '.join(row)} |" for row in different(theirs, ours)]
        lines += ["", "Different:", "", "| test | there | here | why |", "|---|---|---|---|", *rows] if rows else []
    return "\n".join([*lines, ""])
