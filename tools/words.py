"""Count the phrases that docs/words.md replaces: no count may exceed that in tools/words.json.

`python -m tools.words` fails if a count has risen, or if a line of Markdown is wider than 100 columns
(tables and code excepted). `--show` prints every line that has a phrase, `--update` records counts that have fallen.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
TABLE = Path("docs/words.md")
RECORDED = Path("tools/words.json")
WIDTH = 100  # columns of Markdown prose
GENERATED = (Path("docs/cli.md"),)  # its lines are those that the program prints
TEXTS = ("*.md", "docs/**/*.md", "src/**/*.py", "src/**/*.js", "src/**/*.html")
_ROW = re.compile(r"^\| (?P<phrase>[^|`]+?) \| (?P<write>[^|`]+?) \| `(?P<pattern>.+)` \|$")


class Phrase(NamedTuple):
    """A row of the table: a phrase, its replacement, and the pattern that finds it."""

    name: str
    write: str
    pattern: re.Pattern[str]


class Use(NamedTuple):
    """One use of a phrase, at a line of a file (from 1)."""

    phrase: Phrase
    path: Path
    line: int
    text: str


def phrases(table: str) -> list[Phrase]:
    """Return the phrases of the table in docs/words.md."""
    rows = [found for line in table.splitlines() if (found := _ROW.match(line))]
    return [Phrase(row["phrase"], row["write"], re.compile(row["pattern"].replace(r"\|", "|"))) for row in rows]


def uses(text: str, path: Path, searched: list[Phrase]) -> list[Use]:
    """Return the uses of the phrases in a text."""
    return [
        Use(one, path, number, line)
        for number, line in enumerate(text.splitlines(), 1)
        for one in searched
        for _ in one.pattern.finditer(line)
    ]


def all_uses(root: Path, searched: list[Phrase]) -> list[Use]:
    """Return the uses in the sources and docs below a directory."""
    paths = sorted({path for pattern in TEXTS for path in root.glob(pattern)} - {root / TABLE})
    return [use for path in paths for use in uses(path.read_text("utf-8"), path.relative_to(root), searched)]


def wide_lines(text: str) -> list[int]:
    """Return the numbers of the lines of Markdown prose that are too wide (from 1); tables and code may be wider."""
    wide, in_code = [], False
    for number, line in enumerate(text.splitlines(), 1):
        in_code ^= line.lstrip().startswith("```")
        if len(line) > WIDTH and not in_code and not line.startswith("|"):
            wide.append(number)
    return wide


def all_wide_lines(root: Path) -> list[tuple[Path, int]]:
    """Return the files and numbers of the wide lines in the docs below a directory."""
    paths = sorted({path for pattern in TEXTS if pattern.endswith(".md") for path in root.glob(pattern)})
    kept = [path for path in paths if path.relative_to(root) not in GENERATED]
    return [(path.relative_to(root), number) for path in kept for number in wide_lines(path.read_text("utf-8"))]


def counts(found: list[Use], searched: list[Phrase]) -> dict[str, int]:
    """Return how often each phrase is used."""
    return {one.name: sum(use.phrase is one for use in found) for one in searched}


def risen(now: dict[str, int], recorded: dict[str, int]) -> list[str]:
    """Return the phrases whose count exceeds the recorded one; a new phrase may not be used at all."""
    return [name for name, count in now.items() if count > recorded.get(name, 0)]


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    """Run the check; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tools.words", description="Check the words of the project.")
    parser.add_argument("--show", action="store_true", help="print every line that has a replaced phrase")
    parser.add_argument("--update", action="store_true", help="record counts that have fallen")
    options = parser.parse_args(arguments)
    searched = phrases((root / TABLE).read_text("utf-8"))
    found = all_uses(root, searched)
    now = counts(found, searched)
    record = root / RECORDED
    recorded: dict[str, int] = json.loads(record.read_text()) if record.exists() else now
    more = risen(now, recorded)
    for use in found:
        if options.show or use.phrase.name in more:
            print(f"{use.path}:{use.line}: {use.phrase.name!r}: write {use.phrase.write!r}: {use.text.strip()}")
    for name in more:
        print(f"{name!r} is used {now[name]} times, {recorded.get(name, 0)} are recorded; see {TABLE}", file=sys.stderr)
    wide = all_wide_lines(root)
    for path, number in wide:
        print(f"{path}:{number}: wider than {WIDTH} columns", file=sys.stderr)
    if more or wide:
        return 1
    if options.update or not record.exists():
        record.write_text(json.dumps(now, indent=4) + "\n")
    fallen = sum(recorded.values()) - sum(now.values())
    if fallen and not options.update:
        print(f"{fallen} fewer replaced phrases than recorded: run `python -m tools.words --update`")
    return 0


if __name__ == "__main__":
    sys.exit(main())
