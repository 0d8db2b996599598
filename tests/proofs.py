"""Counts of proofs: reported by the tests, printed at the end of a run, kept as JSON, one file per row.

The docs' table of proofs is made of those files (`python -m tests.proofs`). Knows no proof.
"""

from __future__ import annotations

import argparse
import json
import os
import re
from pathlib import Path
from typing import Protocol

DIRECTORY = Path(os.environ.get("SEGLOG_PROOFS", ".proofs"))
LONG = "long: "
"""How the names of the long proofs begin, which have a table of their own, see tests/crash/deep.py."""

Row = dict[str, str | int]


class Tell(Protocol):
    """Notes one row of a proof: strings name it, ints are counts."""

    def __call__(self, proof: str, **row: str | int) -> None: ...


def tell(proof: str, **row: str | int) -> None:
    """Keep one row; a later one of the same proof and names replaces it. AssertionError if it counted nothing."""
    assert any(isinstance(value, int) and value for value in row.values()), f"{proof} had nothing to prove: {row}"
    names = [str(value) for value in row.values() if isinstance(value, str)]
    file = re.sub(r"[^\w.-]+", "-", "--".join([proof, *names]))
    DIRECTORY.mkdir(exist_ok=True)
    partial = DIRECTORY / f"{file}.{os.getpid()}"
    partial.write_text(json.dumps({"proof": proof, **row}) + "\n")
    partial.replace(DIRECTORY / f"{file}.json")


def rows(directory: Path, since: float = 0) -> list[Row]:
    """Return the rows kept in a directory, those written after `since` (a file's time)."""
    found = [path for path in sorted(directory.glob("*.json")) if path.stat().st_mtime >= since]
    return [json.loads(path.read_text()) for path in found]


def sums(told: list[Row]) -> list[tuple[str, dict[str, int]]]:
    """Return each proof with its counts summed over its rows; `parts` is how many rows it has."""
    totals: dict[str, dict[str, int]] = {}
    for row in told:
        total = totals.setdefault(str(row["proof"]), {"parts": 0})
        total["parts"] += 1
        for name, value in row.items():
            if isinstance(value, int):
                total[name] = total.get(name, 0) + value
    return list(totals.items())


def described(counts: dict[str, int]) -> str:
    """Return counts as a line of text."""
    return ", ".join(f"{value:,} {name.replace('_', ' ')}" for name, value in counts.items() if name != "parts")


def table(told: list[Row]) -> str:
    """Return a Markdown table of the proofs and what they counted."""
    lines = ["| proof | parts | counted |", "|---|---:|---|"]
    lines += [f"| {proof} | {counts['parts']} | {described(counts)} |" for proof, counts in sums(told)]
    return "\n".join(lines)


def write_between(document: Path, mark: str, text: str) -> None:
    """Put a text between the marks <!-- mark --> and <!-- /mark --> of a document, in place of what is there."""
    begin, end = f"<!-- {mark} -->", f"<!-- /{mark} -->"
    before, rest = document.read_text().split(begin)
    after = rest.split(end)[1]
    document.write_text(f"{before}{begin}\n{text}\n{end}{after}")


def main() -> None:
    """Write the table between the marks of a document."""
    parser = argparse.ArgumentParser(prog="python -m tests.proofs", description=main.__doc__)
    parser.add_argument("document", type=Path, nargs="?", default=Path("docs/reliability.md"))
    document = parser.parse_args().document
    told = [row for row in rows(DIRECTORY) if not str(row["proof"]).startswith(LONG)]
    write_between(document, "proofs", table(told))


if __name__ == "__main__":
    main()
