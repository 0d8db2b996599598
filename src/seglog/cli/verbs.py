"""Commands with commands of their own, as `seglog topics create ROOT NAME`, and which is meant where none is named."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from seglog.terminal.parser import Parser

if TYPE_CHECKING:
    from collections.abc import Callable


class _VerbOrRoot(argparse._SubParsersAction):  # type: ignore[type-arg]
    """Takes a word that is no verb for the first argument of the verb that was declared first.

    argparse offers no other way to leave a verb out; its own class is private, but `add_subparsers` takes any.
    """

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        """Run the verb's parser on the words behind it."""
        if values[0] not in self._name_parser_map:
            values = [next(iter(self._name_parser_map)), *values]
        super().__call__(parser, namespace, values, option_string)


def add_verbs(parser: argparse.ArgumentParser) -> Any:
    """Return where verbs of a command are declared with `add_verb`; the first is the one that may be left out."""
    verbs = parser.add_subparsers(
        title="commands", metavar="COMMAND", required=True, action=_VerbOrRoot, parser_class=Parser
    )
    verbs.choices = None  # type: ignore[assignment] # argparse would refuse the word that is no verb
    return verbs


def add_verb(verbs: Any, name: str, run: Callable[[argparse.Namespace], int], summary: str) -> argparse.ArgumentParser:
    """Declare a verb: its name, what runs it, one line that says what it does. It takes --json as its command does."""
    description = f"{summary[0].upper()}{summary[1:]}."
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=summary, description=description, allow_abbrev=False)
    for option, text in (("--json", "results and errors as JSON objects"), ("--traceback", "show Python's trace")):
        parser.add_argument(option, action="store_true", default=argparse.SUPPRESS, help=text)
    parser.set_defaults(run=run)
    return parser


def add_root(parser: argparse.ArgumentParser) -> None:
    """Add the positional ROOT."""
    parser.add_argument("root", metavar="ROOT", help="the directory of topics")


def table(heads: tuple[str, ...], rows: list[tuple[object, ...]]) -> list[str]:
    """Return lines with columns as wide as they need to be, numbers to the right."""
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
