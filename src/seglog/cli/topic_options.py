"""Shared by the commands with verbs: their ROOT argument, and a text table."""

from __future__ import annotations

from collections.abc import Sequence

import click

from seglog.cli.frame import File, argument

ROOT = argument(
    "root",
    type=File(),
    required=False,
    help="the directory of topics, or a server (http://host:3000); left out with --url",
)


def after_root(name: str, about: str) -> click.Argument:
    """Declare an argument after ROOT; `roots.settle` rejects a command line without it."""
    found = argument(name, required=False, help=about)
    found.metavar = name.upper()
    return found


def table(heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> list[str]:
    """Return lines with columns as wide as needed, numbers right-aligned."""
    texts = [tuple(f"{cell:,}" if isinstance(cell, int) else str(cell) for cell in row) for row in rows]
    widths = [max(len(line[column]) for line in [heads, *texts]) for column in range(len(heads))]
    numbers = [bool(rows) and all(isinstance(row[column], int) for row in rows) for column in range(len(heads))]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numbers, strict=True)
        ).rstrip()
        for line in [heads, *texts]
    ]
